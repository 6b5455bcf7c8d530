//===- BytesDigest.h - A digest of a buffer of Python's ---------*- C++ -*-===//

#ifndef DTRT_TORCH_BYTESDIGEST_H
#define DTRT_TORCH_BYTESDIGEST_H

#include <torch/csrc/utils/pybind.h>

namespace dtrt {

/// `digest(buffer)`: XXH3 with 128 bits, as messages are compared by. It finds
/// bytes that have changed by accident.
void bindDigest(pybind11::module_ &module);

} // namespace dtrt

#endif // DTRT_TORCH_BYTESDIGEST_H
