//===- CopyInto.h - Tensors, copied into one piece of memory ----*- C++ -*-===//

#ifndef DTRT_TORCH_COPYINTO_H
#define DTRT_TORCH_COPYINTO_H

#include <torch/csrc/utils/pybind.h>

namespace dtrt {

/// `copy_into(memory, offsets, tensors)`: copies the elements of tensors, in
/// row-major order, to where they are to begin in `memory`, contiguous bytes of
/// the host. Large ones go past the cache, which is the trainer's.
void bindCopyInto(pybind11::module_ &module);

} // namespace dtrt

#endif // DTRT_TORCH_COPYINTO_H
