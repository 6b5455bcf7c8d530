//===- WaveRoom.h - What the ports of devices have in each wave -*- C++ -*-===//

#ifndef DT_LIB_SCHEDULING_WAVEROOM_H
#define DT_LIB_SCHEDULING_WAVEROOM_H

#include "WavePorts.h"

#include <map>
#include <set>
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
  const Cluster &cluster;
  std::map<WavePort, std::vector<uint8_t>> counts;
  std::set<std::pair<int32_t, DevicePair>> pairs;
};

inline WaveRoom::Users WaveRoom::usersOf(DevicePair pair) {
  Users users = {pair, {}};
  size_t next = 0;
  for (const WavePort &port : portsOf(cluster, pair.first, pair.second))
    users.needs[next++] = {&counts[port], port.most};
  return users;
}

inline bool WaveRoom::hasRoom(const Users &users, int32_t wave) const {
  for (const Users::Need &need : users.needs)
    if (!hasRoom(need, wave))
      return false;
  return !pairs.count({wave, users.pair});
}

inline void WaveRoom::take(const Users &users, int32_t wave) {
  for (auto [own, most] : users.needs) {
    if (own->size() <= size_t(wave))
      own->resize(size_t(wave) + 1);
    ++(*own)[size_t(wave)];
  }
  pairs.insert({wave, users.pair});
}

} // namespace dt

#endif // DT_LIB_SCHEDULING_WAVEROOM_H
