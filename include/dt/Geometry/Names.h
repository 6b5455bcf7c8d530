//===- Names.h - What names may be, and how errors show them ----*- C++ -*-===//

#ifndef DT_GEOMETRY_NAMES_H
#define DT_GEOMETRY_NAMES_H

#include <string>
#include <string_view>

namespace dt {

/// What a plan cannot hold in the name of a tensor or a state, to stand after
/// the name: "is empty", "is no UTF-8 at byte 3". Empty: it can hold it. In
/// the name of a family "{}" stands for a number, so that it has as many of
/// them as numbers, and any other name has none.
///   w, "layers.0 w", poids_é       fine
///   "", "w{}", "w\n", "\xff"       not
std::string problemOfName(std::string_view name, size_t numbers = 0);

/// At most about `most` bytes of a text for people: a longer one ends in "...".
/// Cuts no character of UTF-8 in two.
std::string shorten(std::string_view text, size_t most = 120);

} // namespace dt

#endif // DT_GEOMETRY_NAMES_H
