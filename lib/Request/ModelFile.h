//===- ModelFile.h - The tensors that a request or a file names -*- C++ -*-===//

#ifndef DT_LIB_REQUEST_MODELFILE_H
#define DT_LIB_REQUEST_MODELFILE_H

#include "dt/Json/Json.h"
#include "dt/Megatron/Model.h"

namespace dt::request {

using namespace json;
using namespace megatron;

/// The text of the file below `directory` that `model` of a request names; ""
/// where it is the model itself.
std::string readModelFile(const Json &model, const std::string &directory);

/// The model that `model` of a request is, or the text of the file that it
/// names.
Model readModel(const Json &model, const std::string &file);

} // namespace dt::request

#endif // DT_LIB_REQUEST_MODELFILE_H
