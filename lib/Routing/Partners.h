//===- Partners.h - One sender for all that a receiver lacks ----*- C++ -*-===//
//
// Taken item by item from the idlest holder, data loads ports evenly, and comes
// to each device from dozens of others: many pairs, of few bytes each, in many
// waves. Where the ports have time for it, a device takes all that the same
// devices hold from one of them instead, its *partner*:
//
//   two stages of 256 replicas become one of 512: each device lacks what the
//   other stage has, and swaps it with one device there
//
// No port gets more than the busiest one has in any plan; receivers for which
// no holder has that much time left have no partner, and are served as before.
// A device prefers who sends it something else already.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_ROUTING_PARTNERS_H
#define DT_LIB_ROUTING_PARTNERS_H

#include "Ports.h"

namespace dt {

/// Who sends a group to a receiver, but for a part that others send: positions
/// in the group, of which the whole has length 1. What lies behind its end is
/// at its beginning.
struct Partner {
  int32_t holder = -1; // its place among the holders; -1: none
  double otherFrom = 0, otherTo = 0;

  bool sends(double position) const {
    auto isIn = [&](double at) { return otherFrom <= at && at < otherTo; };
    return holder >= 0 && !isIn(position) && !isIn(position + 1);
  }
};

/// What the same devices hold and the same devices lack.
struct PartnerGroup {
  const Devices *holders = nullptr;
  const std::vector<Devices> *nodes = nullptr; // receivers by node
  std::vector<bool> isNear; // by node: whether a holder is in it
  double seconds = 0;       // of a NIC, for each node

  /// By node and receiver; empty where no receiver has one.
  std::vector<std::vector<Partner>> partners;
  /// Whether nothing has to be shared evenly among devices: each node has one
  /// receiver, which has a partner.
  bool isSettled = false;
  double routed = 0; // position of the next item
  /// How often each holder sends it, where receivers have partners.
  std::vector<std::pair<Device *, double>> shares;

  int64_t numFar() const;
};

/// Finds partners where no sender's NIC then takes more than `limit` seconds,
/// as far as other groups are shared evenly by those who hold them.
void findPartners(std::vector<PartnerGroup> &groups, double limit);

} // namespace dt

#endif // DT_LIB_ROUTING_PARTNERS_H
