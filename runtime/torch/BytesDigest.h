//===- BytesDigest.h - A digest of a buffer of Python's ---------*- C++ -*-===//

#ifndef DTRT_TORCH_BYTESDIGEST_H
#define DTRT_TORCH_BYTESDIGEST_H

#include <torch/csrc/utils/pybind.h>

namespace dtrt {

/// XXH3 with 128 bits, as messages are compared by, in its canonical form. It
/// finds bytes that have changed by accident.
std::string digestOf(const void *bytes, size_t size);

/// `digest(buffer)`: the same.
void bindDigest(pybind11::module_ &module);

} // namespace dtrt

#endif // DTRT_TORCH_BYTESDIGEST_H
