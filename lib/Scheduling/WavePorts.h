//===- WavePorts.h - What a message needs room in ---------------*- C++ -*-===//

#ifndef DT_LIB_SCHEDULING_WAVEPORTS_H
#define DT_LIB_SCHEDULING_WAVEPORTS_H

#include "dt/Cost/Cluster.h"
#include "dtrt/cost/KernelPlans.h"

#include <array>
#include <tuple>

namespace dt {

/// A port of one level, a NIC by which messages of several devices leave, or
/// all that a device has in a wave.
struct WavePort {
  enum Kind { Out, In, Rail, Device };
  Kind kind;
  bool inter; // between nodes; no matter for a device
  int64_t device;
  int64_t most; // messages in a wave

  friend bool operator<(const WavePort &a, const WavePort &b) {
    return std::tie(a.kind, a.inter, a.device) <
           std::tie(b.kind, b.inter, b.device);
  }
  friend bool operator==(const WavePort &a, const WavePort &b) {
    return std::tie(a.kind, a.inter, a.device) ==
           std::tie(b.kind, b.inter, b.device);
  }
};

/// Those of a message. The rail is another NIC than the sender's where it
/// depends on the receiver (Cluster::nicOut); one of more messages than fill it
/// is slow, and breaks no rule.
inline std::array<WavePort, 5> portsOf(const Cluster &cluster, int64_t from,
                                       int64_t to) {
  bool inter = !cluster.sameNode(from, to);
  int64_t most = cluster.messagesPerPort(inter);
  constexpr int64_t kMost = dtrt::kMaxGroupMessages;
  return {
      {{WavePort::Out, inter, cluster.port(from, inter), most},
       {WavePort::In, inter, cluster.port(to, inter), most},
       {WavePort::Rail, inter, inter ? cluster.nicOut(from, to) : from, most},
       {WavePort::Device, false, from, kMost},
       {WavePort::Device, false, to, kMost}}};
}

} // namespace dt

#endif // DT_LIB_SCHEDULING_WAVEPORTS_H
