//===- WaitGraph.h - Who waits on whom --------------------------*- C++ -*-===//
//
// Programs as lists of groups. A group is a rendezvous: it ends when all its
// messages have met their other ends, and a rank has one group at a time.
// Messages of an ordered pair are matched in the order of their groups. A part
// in a library's collective is as a message to and from every other member:
// those of one member set are matched among themselves.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PROOF_WAITGRAPH_H
#define DT_PROOF_WAITGRAPH_H

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace dt {

struct GroupMessage {
  int64_t device = 0;
  int64_t peer = 0;
  bool receive = false;
  int64_t wave = 0;
  /// Which member set's collectives it is a part of; kNoSet: a message.
  int64_t memberSet = kNoSet;
  static constexpr int64_t kNoSet = -1;
};

/// The groups of one device, in order; numbers index the messages.
struct DeviceGroups {
  int64_t device = 0;
  std::vector<std::vector<size_t>> groups;
};

/// `message` waits for its peer and never meets it.
struct WaitEdge {
  size_t message = 0;
  int64_t waits = 0; // device
  int64_t forDevice = 0;
};

/// Simulates all programs. Empty when they end. Otherwise the edges of a
/// cycle of ranks that wait on each other, or one edge to a rank that has
/// ended.
std::vector<WaitEdge> findWait(const std::vector<GroupMessage> &messages,
                               const std::vector<DeviceGroups> &programs);

/// Where all messages meet: each receive, in their order, with its send.
std::vector<std::pair<size_t, size_t>>
meetings(const std::vector<GroupMessage> &messages);

} // namespace dt

#endif // DT_PROOF_WAITGRAPH_H
