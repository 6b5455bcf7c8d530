//===- ModelFile.h - The tensors that a request or a file names -*- C++ -*-===//

#ifndef DT_LIB_REQUEST_MODELFILE_H
#define DT_LIB_REQUEST_MODELFILE_H

#include "dt/Json/Json.h"
#include "dt/Megatron/Model.h"

namespace dt::request {

using namespace json;
using namespace megatron;

/// Reads `model` of a request: a path below `directory`, or inline.
Model readModel(const Json &model, const std::string &directory);

} // namespace dt::request

#endif // DT_LIB_REQUEST_MODELFILE_H
