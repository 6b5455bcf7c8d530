//===- BlockScales.h - Tensors that come in block-scaled FP8 ----*- C++ -*-===//
//
// `quantize` of a destination: the tensors that it names come as 8-bit floats,
// with an f32 scale for each block of their last two dims in a tensor beside
// each. Who holds a tensor makes both before it sends. So the plan is about
// 8-bit floats and scales on both sides, and the scales lie as their tensor
// does, block by block.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_REQUEST_BLOCKSCALES_H
#define DT_LIB_REQUEST_BLOCKSCALES_H

#include "States.h"

namespace dt::request {

/// Reads `quantize` of the destination, whose layouts are in `request`. Fails
/// where a block would be cut: by a side, by a device, or by what is padding.
void addBlockScales(const Sides &sides, Request &request);

} // namespace dt::request

#endif // DT_LIB_REQUEST_BLOCKSCALES_H
