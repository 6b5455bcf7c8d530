//===- Forwards.cpp - What is sent on as soon as it has come --------------===//

#include "dt/Scheduling/Forwards.h"

#include "dt/Geometry/Overlaps.h"
#include "dtrt/types/DeviceIndex.h"

#include <algorithm>

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

/// Goes through the waves. Invariant: of each device, `arrivals` are the
/// messages that its last group brought, but what it relays: that stays in its
/// slot.
class ForwardFinder {
public:
  ForwardFinder(const std::vector<PlanMessage> &messages,
                const std::vector<CarriedPiece> &pieces)
      : messages(messages), pieces(pieces), found(messages.size()) {}

  std::vector<bool> run() {
    for (size_t first = 0, last = 0; first < messages.size(); first = last) {
      while (last < messages.size() &&
             messages[last].wave == messages[first].wave)
        ++last;
      for (size_t i = first; i < last; ++i)
        found[i] = isForward(messages[i]);
      for (size_t i = first; i < last; ++i) {
        groupOf(messages[i].source, messages[i].wave);
        Group &group = groupOf(messages[i].destination, messages[i].wave);
        if (messages[i].relay != RelayHop::In)
          group.arrivals.push_back(i);
      }
    }
    return std::move(found);
  }

private:
  struct Group {
    int32_t wave = -1;
    std::vector<size_t> arrivals;
  };

  Group &last(int64_t device) {
    uint32_t number = index(device);
    if (number == groups.size())
      groups.emplace_back();
    return groups[number];
  }
  Group &groupOf(int64_t device, int32_t wave) {
    Group &group = last(device);
    if (group.wave != wave)
      group.arrivals.clear();
    group.wave = wave;
    return group;
  }

  bool isForward(const PlanMessage &message) {
    if (message.relay == RelayHop::Out)
      return false;
    sent.clear(), come.clear();
    for (size_t i = message.first; i < message.last; ++i)
      if (pieces[i].isForward)
        sent.emplace_back(pieces[i].readFrom, pieces[i].box);
    if (sent.empty())
      return false;
    for (size_t arrival : last(message.source).arrivals)
      for (size_t i = messages[arrival].first; i < messages[arrival].last; ++i)
        come.emplace_back(pieces[i].flow, pieces[i].box);
    return anyMeet(sent, come);
  }

  const std::vector<PlanMessage> &messages;
  const std::vector<CarriedPiece> &pieces;
  std::vector<bool> found;
  dtrt::DeviceIndex index;
  std::vector<Group> groups; // by number of device
  BoxesByFlow sent, come;    // of the message that is looked at
};

} // namespace

std::vector<bool> dt::findForwards(const std::vector<PlanMessage> &messages,
                                   const std::vector<CarriedPiece> &pieces) {
  return ForwardFinder(messages, pieces).run();
}
