//===- Solve.h - One problem as text ----------------------------*- C++ -*-===//

#ifndef DT_ADVISE_SOLVE_H
#define DT_ADVISE_SOLVE_H

#include <optional>
#include <string>

namespace dt::advise {

/// Solves one problem given as JSON: an object with one of the keys "stages",
/// "rebalance", "experts", "batches", "links", as docs/Advise.md describes. The
/// answer is JSON too. An error names the key at fault.
std::optional<std::string> solveText(const std::string &json,
                                     std::string &error);

} // namespace dt::advise

#endif // DT_ADVISE_SOLVE_H
