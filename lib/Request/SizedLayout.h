//===- SizedLayout.h - Placements by parallel sizes -------------*- C++ -*-===//

#ifndef DT_LIB_REQUEST_SIZEDLAYOUT_H
#define DT_LIB_REQUEST_SIZEDLAYOUT_H

#include "ModelFile.h"

#include "dt/Request/Request.h"

namespace dt::request {

/// Places every tensor by parallel sizes. The model's rules are applied.
LayoutDecl layoutFromSizes(const Json &json, const std::string &path,
                           const Model &model,
                           const std::vector<TensorDecl> &tensors,
                           int64_t vocabMultiple);

} // namespace dt::request

#endif // DT_LIB_REQUEST_SIZEDLAYOUT_H
