//===- BytePlanes.h - Bytes of one significance, side by side ---*- C++ -*-===//
//
// The exponents of a tensor's elements resemble each other, their mantissas do
// not. Plane p of elements that are `width` bytes wide is the p-th byte of
// each, in order.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_TRANSPORT_BYTEPLANES_H
#define DTRT_LIB_TRANSPORT_BYTEPLANES_H

#include <array>
#include <cstddef>

namespace dtrt {

constexpr unsigned kMostPlanes = 8;

/// Where each plane lies; those that elements do not have are null.
template <typename Byte> using Planes = std::array<Byte *, kMostPlanes>;

/// `width`: 1, 2, 4 or 8, as dtypes have it.
void splitPlanes(const std::byte *elements, size_t count, unsigned width,
                 const Planes<std::byte> &planes);
void joinPlanes(const Planes<const std::byte> &planes, size_t count,
                unsigned width, std::byte *elements);

} // namespace dtrt

#endif // DTRT_LIB_TRANSPORT_BYTEPLANES_H
