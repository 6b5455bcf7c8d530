//===- Forwards.cpp - What is sent on as soon as it has come --------------===//

#include "dt/Scheduling/Forwards.h"

#include "dt/Geometry/Overlaps.h"
#include "dtrt/types/DeviceIndex.h"

#include <algorithm>
#include <utility>

using namespace dt;

namespace {

/// Boxes with their flow.
using BoxesByFlow = std::vector<std::pair<uint32_t, const Box *>>;

constexpr size_t kFewPairs = 256; // that are looked at one by one

void sortByFlow(BoxesByFlow &boxes) {
  std::stable_sort(
      boxes.begin(), boxes.end(),
      [](const auto &a, const auto &b) { return a.first < b.first; });
}

/// Whether a box of [a, aEnd) meets one of [b, bEnd), all of one flow.
using BoxIterator = BoxesByFlow::const_iterator;
bool anyMeet(BoxIterator a, BoxIterator aEnd, BoxIterator b, BoxIterator bEnd) {
  if (size_t(aEnd - a) * size_t(bEnd - b) <= kFewPairs) {
    for (; a != aEnd; ++a)
      for (auto other = b; other != bEnd; ++other)
        if (overlaps(*a->second, *other->second))
          return true;
    return false;
  }
  std::vector<Box> left, right;
  for (; a != aEnd; ++a)
    left.push_back(*a->second);
  for (; b != bEnd; ++b)
    right.push_back(*b->second);
  return !overlappingPairs(left, right).empty();
}

/// Whether a box of `a` meets one of `b` of the same flow. Orders them by flow,
/// if they are many.
bool anyMeet(BoxesByFlow &a, BoxesByFlow &b) {
  if (a.size() * b.size() <= kFewPairs) {
    for (const auto &[flow, box] : a)
      for (const auto &[other, otherBox] : b)
        if (flow == other && overlaps(*box, *otherBox))
          return true;
    return false;
  }
  sortByFlow(a);
  sortByFlow(b);
  auto endOf = [](BoxIterator first, BoxIterator last) {
    return std::find_if(first, last, [&](const auto &box) {
      return box.first != first->first;
    });
  };
  auto left = a.cbegin(), right = b.cbegin();
  while (left != a.end() && right != b.end()) {
    auto leftEnd = endOf(left, a.end()), rightEnd = endOf(right, b.end());
    if (left->first == right->first && anyMeet(left, leftEnd, right, rightEnd))
      return true;
    bool skipsLeft = left->first <= right->first;
    bool skipsRight = right->first <= left->first;
    left = skipsLeft ? leftEnd : left;
    right = skipsRight ? rightEnd : right;
  }
  return false;
}

/// Of each message, the first arrival of its sender's group before, and of each
/// arrival the next one of that group.
struct ArrivalLists {
  std::vector<uint32_t> first, next;
};
constexpr uint32_t kNone = UINT32_MAX;

/// Goes through the waves. Invariant: of each device, `arrival` heads the list
/// of what its last group brought, but what it relays: that stays in its slot.
ArrivalLists listArrivals(const std::vector<PlanMessage> &messages) {
  struct Group {
    int32_t wave = -1;
    uint32_t arrival = kNone;
  };
  dtrt::DeviceIndex index;
  std::vector<Group> groups; // by number of device
  auto lastOf = [&](int64_t device) -> Group & {
    uint32_t number = index(device);
    if (number == groups.size())
      groups.emplace_back();
    return groups[number];
  };
  auto groupOf = [&](int64_t device, int32_t wave) -> Group & {
    Group &group = lastOf(device);
    if (group.wave != wave)
      group = {wave, kNone};
    return group;
  };
  ArrivalLists out;
  out.first.resize(messages.size());
  out.next.resize(messages.size());
  for (size_t first = 0, last = 0; first < messages.size(); first = last) {
    for (;
         last < messages.size() && messages[last].wave == messages[first].wave;
         ++last)
      out.first[last] = lastOf(messages[last].source).arrival;
    for (size_t i = first; i < last; ++i) {
      groupOf(messages[i].source, messages[i].wave);
      Group &group = groupOf(messages[i].destination, messages[i].wave);
      if (messages[i].relay != RelayHop::In)
        out.next[i] = std::exchange(group.arrival, uint32_t(i));
    }
  }
  return out;
}

/// What a thread looks at, one message after the other.
class ForwardFinder {
public:
  ForwardFinder(const std::vector<PlanMessage> &messages,
                const std::vector<CarriedPiece> &pieces)
      : messages(messages), pieces(pieces) {}

  /// `arrivals`: what the last group of its sender brought.
  bool isForward(const PlanMessage &message, const ArrivalLists &arrivals,
                 uint32_t arrival) {
    if (message.relay == RelayHop::Out)
      return false;
    sent.clear(), come.clear();
    for (size_t i = message.first; i < message.last; ++i)
      if (pieces[i].isForward)
        sent.emplace_back(pieces[i].readFrom, pieces[i].box);
    if (sent.empty())
      return false;
    for (; arrival != kNone; arrival = arrivals.next[arrival])
      for (size_t i = messages[arrival].first; i < messages[arrival].last; ++i)
        come.emplace_back(pieces[i].flow, pieces[i].box);
    return anyMeet(sent, come);
  }

private:
  const std::vector<PlanMessage> &messages;
  const std::vector<CarriedPiece> &pieces;
  BoxesByFlow sent, come; // of the message that is looked at
};

} // namespace

std::vector<bool> dt::findForwards(const std::vector<PlanMessage> &messages,
                                   const std::vector<CarriedPiece> &pieces,
                                   const ParallelFor &parallel) {
  constexpr size_t kAtOnce = 4096;
  const ArrivalLists arrivals = listArrivals(messages);
  std::vector<char> found(messages.size());
  parallel((messages.size() + kAtOnce - 1) / kAtOnce, [&](size_t block) {
    ForwardFinder finder(messages, pieces);
    size_t last = std::min(messages.size(), (block + 1) * kAtOnce);
    for (size_t i = block * kAtOnce; i < last; ++i)
      found[i] = finder.isForward(messages[i], arrivals, arrivals.first[i]);
  });
  return {found.begin(), found.end()};
}
