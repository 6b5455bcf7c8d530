//===- TensorLooks.h - Many tensors, looked at in one call ------*- C++ -*-===//

#ifndef DTRT_TORCH_TENSORLOOKS_H
#define DTRT_TORCH_TENSORLOOKS_H

#include <torch/csrc/utils/pybind.h>

namespace dtrt {

/// What a snapshot asks of each of a trainer's tensors. Every question through
/// torch's Python interface takes about a microsecond.
///
/// `looks(tensors) -> bytes`: the dtype and the shape of each, in their order;
/// equal for equal ones.
///
/// `elements_of(tensor, begin, end) -> tensor`: these elements of it,
/// row-major, in its own memory and without its gradient. It has to be
/// contiguous, and to have that many.
void bindTensorLooks(pybind11::module_ &module);

} // namespace dtrt

#endif // DTRT_TORCH_TENSORLOOKS_H
