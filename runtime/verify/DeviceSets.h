//===- DeviceSets.h - Sets of devices by number -----------------*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_DEVICESETS_H
#define DTRT_LIB_VERIFY_DEVICESETS_H

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace dtrt {

using Devices = std::vector<uint32_t>; // ascending, each once

/// Equal sets have one number; 0 is the empty one.
class DeviceSets {
public:
  DeviceSets() { numberOf({}); }
  DeviceSets(DeviceSets &&) = default;
  DeviceSets &operator=(DeviceSets &&) = default;
  uint32_t numberOf(const Devices &devices);
  /// The number of the union of sets.
  uint32_t unionOf(std::vector<uint32_t> sets);
  const Devices &operator[](uint32_t number) const { return *sets[number]; }

private:
  struct Hash {
    size_t operator()(const Devices &devices) const;
  };
  std::unordered_map<Devices, uint32_t, Hash> numbers;
  std::unordered_map<std::vector<uint32_t>, uint32_t, Hash> unions; // known
  std::vector<const Devices *> sets; // keys of `numbers`
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_DEVICESETS_H
