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

py::bytes digestOfBuffer(const py::buffer &buffer) {
  py::buffer_info info = buffer.request();
  const auto size = size_t(info.size * info.itemsize);
  std::string digest;
  {
    // A thread beside training that lets others have Python's lock for a
    // microsecond waits for it far longer.
    std::optional<py::gil_scoped_release> release;
    if (size > kSmall)
      release.emplace();
    digest = digestOf(info.ptr, size);
  }
  return py::bytes(digest);
}

} // namespace

std::string digestOf(const void *bytes, size_t size) {
  XXH128_canonical_t text;
  XXH128_canonicalFromHash(&text, XXH3_128bits(bytes, size));
  return {reinterpret_cast<const char *>(text.digest), sizeof text.digest};
}

void bindDigest(py::module_ &module) { module.def("digest", &digestOfBuffer); }

} // namespace dtrt
