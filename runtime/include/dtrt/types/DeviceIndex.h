//===- DeviceIndex.h - Devices counted without gaps -------------*- C++ -*-===//

#ifndef DTRT_TYPES_DEVICEINDEX_H
#define DTRT_TYPES_DEVICEINDEX_H

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace dtrt {

/// Numbers devices from 0 in the order in which they are asked for, so that
/// loops over millions of messages keep what they know of devices in vectors.
class DeviceIndex {
public:
  /// The number of `device` (>= 0), a new one when it was not asked for before.
  uint32_t operator()(int64_t device) {
    if (device >= kTable)
      return number(others[device], device);
    if (device >= int64_t(table.size()))
      table.resize(device + 1, 0);
    return number(table[device], device);
  }
  /// The number of any device; nullopt when it was not asked for.
  std::optional<uint32_t> find(int64_t device) const {
    uint32_t known = 0;
    if (device >= kTable) {
      auto at = others.find(device);
      known = at == others.end() ? 0 : at->second;
    } else if (device >= 0 && device < int64_t(table.size())) {
      known = table[device];
    }
    return known == 0 ? std::nullopt : std::make_optional(known - 1);
  }
  uint32_t size() const { return uint32_t(devices.size()); }
  /// All devices, by number.
  const std::vector<int64_t> &all() const { return devices; }

private:
  /// Devices below this are looked up in a table.
  static constexpr int64_t kTable = 1 << 20;

  uint32_t number(uint32_t &known, int64_t device) {
    if (known == 0) {
      devices.push_back(device);
      known = uint32_t(devices.size());
    }
    return known - 1;
  }

  std::vector<uint32_t> table; // number + 1; 0: none yet
  std::unordered_map<int64_t, uint32_t> others;
  std::vector<int64_t> devices;
};

} // namespace dtrt

#endif // DTRT_TYPES_DEVICEINDEX_H
