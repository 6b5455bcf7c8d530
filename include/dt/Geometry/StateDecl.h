//===- StateDecl.h - A state of a tensor and its dtypes ---------*- C++ -*-===//

#ifndef DT_GEOMETRY_STATEDECL_H
#define DT_GEOMETRY_STATEDECL_H

#include "dt/Geometry/DType.h"

#include <optional>
#include <string>

namespace dt {

/// A state and its dtype on each side; none where it does not exist.
struct StateDecl {
  std::string name; // param, grad, master, exp_avg, ...
  std::optional<DType> source, destination;
  /// The state that this one may be made from ("derive"); empty: none.
  std::string from;
};

} // namespace dt

#endif // DT_GEOMETRY_STATEDECL_H
