//===- Tensors.h - Tensors as Megatron-Core registers them ------*- C++ -*-===//

#ifndef DT_MEGATRON_TENSORS_H
#define DT_MEGATRON_TENSORS_H

#include "dt/Megatron/Config.h"

namespace dt::megatron {

/// All tensors in Megatron-Core's registration order.
Model listMegatronTensors(const MegatronConfig &config);

} // namespace dt::megatron

#endif // DT_MEGATRON_TENSORS_H
