//===- BytesDigest.cpp - A digest of a buffer of Python's -----------------===//

#include "BytesDigest.h"

#define XXH_INLINE_ALL
#include <optional>
#include <xxhash.h>

namespace py = pybind11;

namespace dtrt {

namespace {

/// Bytes that take no longer than Python does to call this.
constexpr size_t kSmall = size_t(64) << 10;

py::bytes digestOf(const py::buffer &buffer) {
  py::buffer_info info = buffer.request();
  const auto size = size_t(info.size * info.itemsize);
  XXH128_canonical_t text;
  {
    // A thread beside training that lets others have Python's lock for a
    // microsecond waits for it far longer.
    std::optional<py::gil_scoped_release> release;
    if (size > kSmall)
      release.emplace();
    XXH128_canonicalFromHash(&text, XXH3_128bits(info.ptr, size));
  }
  return py::bytes(reinterpret_cast<const char *>(text.digest),
                   sizeof text.digest);
}

} // namespace

void bindDigest(py::module_ &module) { module.def("digest", &digestOf); }

} // namespace dtrt
