//===- BytesDigest.cpp - A digest of a buffer of Python's -----------------===//

#include "BytesDigest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace py = pybind11;

namespace dtrt {

namespace {

py::bytes digestOf(const py::buffer &buffer) {
  py::buffer_info info = buffer.request();
  XXH128_canonical_t text;
  {
    py::gil_scoped_release release;
    XXH128_canonicalFromHash(
        &text, XXH3_128bits(info.ptr, size_t(info.size * info.itemsize)));
  }
  return py::bytes(reinterpret_cast<const char *>(text.digest),
                   sizeof text.digest);
}

} // namespace

void bindDigest(py::module_ &module) { module.def("digest", &digestOf); }

} // namespace dtrt
