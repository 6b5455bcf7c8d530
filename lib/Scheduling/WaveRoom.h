//===- WaveRoom.h - What the ports of devices have in each wave -*- C++ -*-===//

#ifndef DT_LIB_SCHEDULING_WAVEROOM_H
#define DT_LIB_SCHEDULING_WAVEROOM_H

#include "WavePorts.h"

#include <unordered_map>
#include <utility>
#include <vector>

namespace dt {

/// Sender and receiver.
using DevicePair = std::pair<int64_t, int64_t>;

class WaveRoom {
public:
  explicit WaveRoom(const Cluster &cluster) : cluster(cluster) {}

  /// What a message of a pair needs room in.
  struct Users {
    DevicePair pair;
    std::vector<bool> *waves; // that it has messages in
    struct Need {
      std::vector<uint8_t> *counts; // by wave
      int64_t most;
    };
    std::array<Need, 5> needs;
  };
  Users usersOf(DevicePair pair);
  /// Whether the pair has no message in the wave, and may have one.
  bool hasRoom(const Users &users, int32_t wave) const;
  static bool hasRoom(const Users::Need &need, int32_t wave) {
    return size_t(wave) >= need.counts->size() ||
           (*need.counts)[size_t(wave)] < need.most;
  }
  void take(const Users &users, int32_t wave);

private:
  struct Hash {
    size_t operator()(const WavePort &port) const {
      return size_t(port.device) << 3 | size_t(port.kind) << 1 |
             size_t(port.inter);
    }
    size_t operator()(const DevicePair &pair) const {
      return size_t(pair.first) << 32 ^ size_t(pair.second);
    }
  };

  const Cluster &cluster;
  std::unordered_map<WavePort, std::vector<uint8_t>, Hash> counts;
  std::unordered_map<DevicePair, std::vector<bool>, Hash> pairs;
};

inline WaveRoom::Users WaveRoom::usersOf(DevicePair pair) {
  Users users = {pair, &pairs[pair], {}};
  size_t next = 0;
  for (const WavePort &port : portsOf(cluster, pair.first, pair.second))
    users.needs[next++] = {&counts[port], port.most};
  return users;
}

inline bool WaveRoom::hasRoom(const Users &users, int32_t wave) const {
  for (const Users::Need &need : users.needs)
    if (!hasRoom(need, wave))
      return false;
  return size_t(wave) >= users.waves->size() || !(*users.waves)[size_t(wave)];
}

inline void WaveRoom::take(const Users &users, int32_t wave) {
  for (auto [own, most] : users.needs) {
    if (own->size() <= size_t(wave))
      own->resize(size_t(wave) + 1);
    ++(*own)[size_t(wave)];
  }
  if (users.waves->size() <= size_t(wave))
    users.waves->resize(size_t(wave) + 1);
  (*users.waves)[size_t(wave)] = true;
}

} // namespace dt

#endif // DT_LIB_SCHEDULING_WAVEROOM_H
