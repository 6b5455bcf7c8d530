//===- Fill.h - What a tensor's padding holds -------------------*- C++ -*-===//

#ifndef DT_LIB_REQUEST_FILL_H
#define DT_LIB_REQUEST_FILL_H

#include "dt/Json/Json.h"

#include "dt/Request/Request.h"

namespace dt::request {

using namespace json;

/// `fill` of a side's tensor: a number, of the states that hold the parameter's
/// values, or one for each state that is named.
class Fill {
public:
  Fill(const Json &json, const std::string &path);

  /// The bits of each state of the tensor on a side, in order; none where all
  /// are zeros.
  std::vector<uint64_t> bitsOf(const TensorDecl &tensor, Side side) const;

private:
  void checkStates(const TensorDecl &tensor) const;
  uint64_t bitsOf(const TensorDecl &tensor, const std::string &state,
                  DType type) const;

  Json json;
  std::string path;
};

} // namespace dt::request

#endif // DT_LIB_REQUEST_FILL_H
