//===- ReadModelShape.h - From a model file to what it costs ----*- C++ -*-===//

#ifndef DT_LIB_ADVISE_READMODELSHAPE_H
#define DT_LIB_ADVISE_READMODELSHAPE_H

#include "dt/Json/Json.h"
#include "dt/Megatron/Model.h"

#include "dt/Advise/ModelShape.h"

namespace dt::advise {

/// A state of the request and the bytes of its elements.
struct StateWidth {
  std::string name;
  int64_t bytes = 0;
};

/// `config` is the config.json itself, `path` its name in errors. Without
/// states there is `param` alone, in each tensor's own dtype. Throws
/// json::JsonError.
ModelShape readModelShape(const json::Json &config,
                          const megatron::Model &model, const std::string &path,
                          const std::vector<StateWidth> &states);

} // namespace dt::advise

#endif // DT_LIB_ADVISE_READMODELSHAPE_H
