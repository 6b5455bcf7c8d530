//===- Types.h - Element types, sides, memory modes -------------*- C++ -*-===//
//
// What compiler, plan file and runtime mean by a dtype, a side and a memory
// mode. Headers alone, so that the compiler's lowest layers use them as well.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TYPES_TYPES_H
#define DTRT_TYPES_TYPES_H

#include <cstddef>
#include <cstdint>

namespace dtrt {

/// Element types; the numbers are written to files and never change.
enum class DType : uint8_t {
  F64,
  F32,
  F16,
  BF16,
  F8E4M3,
  F8E5M2,
  F8E8M0,
  F8E4M3FNUZ,
  F8E5M2FNUZ,
  I64,
  I32,
  I16,
  I8,
  U64,
  U32,
  U16,
  U8,
  Bool,
};
constexpr size_t kNumDTypes = size_t(DType::Bool) + 1;

struct DTypeInfo {
  int64_t width = 0; // bytes
  const char *name = nullptr;
};

/// In the order of DType; named as safetensors names them, in lower case.
inline constexpr DTypeInfo kDTypes[] = {
    {8, "f64"},         {4, "f32"},     {2, "f16"},     {2, "bf16"},
    {1, "f8_e4m3"},     {1, "f8_e5m2"}, {1, "f8_e8m0"}, {1, "f8_e4m3fnuz"},
    {1, "f8_e5m2fnuz"}, {8, "i64"},     {4, "i32"},     {2, "i16"},
    {1, "i8"},          {8, "u64"},     {4, "u32"},     {2, "u16"},
    {1, "u8"},          {1, "bool"},
};
static_assert(sizeof(kDTypes) / sizeof(kDTypes[0]) == kNumDTypes);

/// Bytes of one element: 1, 2, 4 or 8.
constexpr int64_t byteWidth(DType type) { return kDTypes[size_t(type)].width; }
/// "bf16", "f8_e4m3", "i64", "bool".
constexpr const char *dtypeName(DType type) {
  return kDTypes[size_t(type)].name;
}

/// Whether values of one type can become values of the other: equal types, or
/// both of f64, f32, f16 and bf16.
constexpr bool canConvert(DType from, DType to) {
  return from == to || (from <= DType::BF16 && to <= DType::BF16);
}

/// The type that travels: the narrower of the two; the destination's where
/// both are equally wide.
constexpr DType wireDType(DType source, DType destination) {
  return byteWidth(source) < byteWidth(destination) ? source : destination;
}

/// A side of a transition.
enum class Side : uint8_t { Source = 0, Destination = 1 };

/// "source", "destination".
constexpr const char *sideName(Side side) {
  return side == Side::Source ? "source" : "destination";
}

/// Rollback keeps the source until commit; flat releases it while the
/// destination is filled. The numbers are written to files and never change.
enum class MemoryMode : uint8_t { Rollback = 0, Flat = 1 };

/// Flat mode: whether storage comes and goes by pages of each tensor's buffer,
/// or whole: a tensor's buffer, or all that lies in one storage.
enum class Granularity : uint8_t { Page = 0, Tensor = 1 };

/// "rollback", "flat".
constexpr const char *memoryModeName(MemoryMode mode) {
  return mode == MemoryMode::Flat ? "flat" : "rollback";
}
/// "rollback", "flat", "flat by tensor".
constexpr const char *memoryModeName(MemoryMode mode, Granularity granularity) {
  return mode == MemoryMode::Flat && granularity == Granularity::Tensor
             ? "flat by tensor"
             : memoryModeName(mode);
}

} // namespace dtrt

#endif // DTRT_TYPES_TYPES_H
