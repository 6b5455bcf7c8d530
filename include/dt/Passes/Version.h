//===- Version.h - The compiler's version -----------------------*- C++ -*-===//

#ifndef DT_PASSES_VERSION_H
#define DT_PASSES_VERSION_H

namespace dt {

/// Written into every plan and printed by `dt-opt --version`.
constexpr const char *kVersion = "dynatrain 0.1.0";

} // namespace dt

#endif // DT_PASSES_VERSION_H
