//===- Partners.cpp - One sender for all that a receiver lacks ------------===//
//
// Groups of few holders come first, of these the largest. In each, receivers
// whose partner is a holder, too, keep it; the others take the holder whose
// port has least to do.
//
//===----------------------------------------------------------------------===//

#include "Partners.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <unordered_set>

using namespace dt;

int64_t PartnerGroup::numFar() const {
  return std::count(isNear.begin(), isNear.end(), false);
}

namespace {

/// The part of what a receiver lacks for which a partner has to have time.
constexpr double kMost = 0.9;
/// Where fewer devices hold something, or fewer nodes lack it, few meet anyway,
/// and even loads leave the schedule more choice.
constexpr size_t kManyHolders = 8;
constexpr int64_t kManyNodes = 4;

class PartnerFinder {
public:
  PartnerFinder(const std::vector<PartnerGroup> &groups, double limit)
      : limit(limit) {
    for (const PartnerGroup &group : groups)
      share(group, 1);
  }

  void find(PartnerGroup &group);

private:
  /// Seconds that a port sends, and a holder's place.
  using Load = std::pair<double, int32_t>;
  using Loads =
      std::priority_queue<Load, std::vector<Load>, std::greater<Load>>;

  void share(const PartnerGroup &group, double sign);
  bool hasRoom(const PartnerGroup &group) const;
  int32_t knownPartner(const PartnerGroup &group, const Device *receiver,
                       double seconds) const;
  int32_t idlestHolder(const PartnerGroup &group, Loads &loads) const;
  void keepPartners(PartnerGroup &group);
  void takeIdlest(PartnerGroup &group);
  void settle(PartnerGroup &group);
  void take(PartnerGroup &group, size_t node, size_t place, int32_t holder);

  /// For most of it: receivers get the rest from others.
  bool hasTime(const Device *holder, double seconds) const {
    return sends.at(holder->nic) + kMost * seconds <= limit;
  }

  double limit;
  std::unordered_map<const Port *, double> sends;    // seconds
  std::unordered_map<const Device *, Devices> known; // partners by receiver
  /// How often each holder sends the current group, and how often it is sent by
  /// nobody yet.
  std::vector<double> parts;
  double rest = 0;
  size_t numTaken = 0, numReceivers = 0; // of the current group
};

/// Each holder sends as much of a group as the others, beside what has been
/// routed.
void PartnerFinder::share(const PartnerGroup &group, double sign) {
  double each = group.seconds * group.numFar() / group.holders->size();
  for (const Device *holder : *group.holders) {
    auto [it, isNew] = sends.try_emplace(holder->nic, holder->nic->out);
    it->second += sign * each;
  }
}

/// Whether the holders can send most of it: little has to be passed on.
bool PartnerFinder::hasRoom(const PartnerGroup &group) const {
  std::unordered_set<const Port *> ports;
  double room = 0;
  for (const Device *holder : *group.holders)
    if (ports.insert(holder->nic).second)
      room += std::max(0.0, limit - sends.at(holder->nic));
  return kMost * group.seconds * group.numFar() <= room;
}

/// -1: none of its partners holds this, or has time for it.
int32_t PartnerFinder::knownPartner(const PartnerGroup &group,
                                    const Device *receiver,
                                    double seconds) const {
  auto partners = known.find(receiver);
  if (partners == known.end())
    return -1;
  const Devices &holders = *group.holders;
  auto isBefore = [](const Device *a, const Device *b) {
    return a->number < b->number;
  };
  for (Device *partner : partners->second) {
    auto it =
        std::lower_bound(holders.begin(), holders.end(), partner, isBefore);
    if (it != holders.end() && *it == partner && hasTime(partner, seconds))
      return int32_t(it - holders.begin());
  }
  return -1;
}

/// Loads only grow: the least on top is right when it is the port's still.
int32_t PartnerFinder::idlestHolder(const PartnerGroup &group,
                                    Loads &loads) const {
  for (;;) {
    auto [load, holder] = loads.top();
    double now = sends.at((*group.holders)[holder]->nic);
    if (now <= load)
      return holder;
    loads.pop();
    loads.push({now, holder});
  }
}

void PartnerFinder::take(PartnerGroup &group, size_t node, size_t place,
                         int32_t holder) {
  const Devices &receivers = (*group.nodes)[node];
  Device *partner = (*group.holders)[holder];
  double all = group.seconds / receivers.size();
  double &sent = sends[partner->nic];
  double given = std::min(all, limit - sent);
  // At any position few receivers wait for who passes it on.
  double from = double(numTaken++) / numReceivers;
  group.partners[node][place] = {holder, from, from + 1 - given / all};
  sent += given;
  parts[holder] += given / group.seconds;
  rest -= given / group.seconds;
  Devices &partners = known[receivers[place]];
  if (std::find(partners.begin(), partners.end(), partner) == partners.end())
    partners.push_back(partner);
}

void PartnerFinder::keepPartners(PartnerGroup &group) {
  for (size_t node = 0; node < group.partners.size(); ++node)
    for (size_t i = 0; i < group.partners[node].size(); ++i) {
      const Devices &receivers = (*group.nodes)[node];
      int32_t holder =
          knownPartner(group, receivers[i], group.seconds / receivers.size());
      if (holder >= 0)
        take(group, node, i, holder);
    }
}

void PartnerFinder::takeIdlest(PartnerGroup &group) {
  Loads loads;
  for (size_t i = 0; i < group.holders->size(); ++i)
    loads.push({sends.at((*group.holders)[i]->nic), int32_t(i)});
  size_t places = 0;
  for (const Devices &receivers : *group.nodes)
    places = std::max(places, receivers.size());
  // First one receiver of each node: items enter most nodes at the same place,
  // and should come from all holders.
  for (size_t i = 0; i < places; ++i)
    for (size_t node = 0; node < group.partners.size(); ++node) {
      size_t count = group.partners[node].size();
      if (i >= count || group.partners[node][i].holder >= 0)
        continue;
      int32_t holder = idlestHolder(group, loads);
      if (hasTime((*group.holders)[holder], group.seconds / count))
        take(group, node, i, holder);
    }
}

/// What partners do not send is shared evenly.
void PartnerFinder::settle(PartnerGroup &group) {
  const Devices &holders = *group.holders;
  constexpr double kNothing = 1e-6;
  group.isSettled = rest < kNothing;
  for (const std::vector<Partner> &partners : group.partners)
    group.isSettled &= partners.size() == 1;
  for (size_t i = 0; i < holders.size(); ++i) {
    double evenly = rest / holders.size();
    sends[holders[i]->nic] += group.seconds * evenly;
    if (parts[i] + evenly > 0)
      group.shares.push_back({holders[i], parts[i] + evenly});
  }
}

void PartnerFinder::find(PartnerGroup &group) {
  share(group, -1);
  if (!hasRoom(group)) {
    share(group, 1);
    return;
  }
  numTaken = numReceivers = 0;
  for (size_t node = 0; node < group.nodes->size(); ++node) {
    group.partners.emplace_back(
        group.isNear[node] ? 0 : (*group.nodes)[node].size());
    numReceivers += group.partners.back().size();
  }
  parts.assign(group.holders->size(), 0);
  rest = group.numFar();
  keepPartners(group);
  takeIdlest(group);
  settle(group);
}

} // namespace

void dt::findPartners(std::vector<PartnerGroup> &groups, double limit) {
  std::vector<PartnerGroup *> order;
  for (PartnerGroup &group : groups)
    if (group.numFar() >= kManyNodes && group.holders->size() >= kManyHolders)
      order.push_back(&group);
  auto rank = [](const PartnerGroup *group) {
    return std::make_pair(group->holders->size(), -group->seconds);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const PartnerGroup *a, const PartnerGroup *b) {
                     return rank(a) < rank(b);
                   });
  PartnerFinder finder(groups, limit * (1 + 1e-9));
  for (PartnerGroup *group : order)
    finder.find(*group);
}
