//===- NodeScatter.cpp - Units from a device to all of its node -----------===//

#include "NodeScatter.h"

#include <algorithm>
#include <map>
#include <utility>

using namespace dt;

namespace {

/// Device 0 is the holder. Invariant: `owners` say who has a unit before the
/// round that is looked at; units before `oldest` have come to all.
class NodeScatter {
public:
  NodeScatter(int64_t devices, const std::vector<std::vector<int64_t>> &first)
      : devices(devices), units(int64_t(first.size())), first(first),
        owners(units, {0}), isOwner(units, std::vector<bool>(devices)) {
    for (std::vector<bool> &has : isOwner)
      has[0] = true;
  }

  std::vector<ScatterStep> run() {
    for (; oldest < units; ++round) {
      sends.assign(devices, false);
      receives.assign(devices, false);
      size_t before = out.size();
      sendNext();
      sendFirst();
      sendOthers();
      for (size_t i = before; i < out.size(); ++i)
        owners[out[i].unit].push_back(out[i].to);
      while (oldest < units && int64_t(owners[oldest].size()) == devices)
        ++oldest;
    }
    return std::move(out);
  }

private:
  void send(int64_t unit, int64_t from, int64_t to) {
    sends[from] = receives[to] = isOwner[unit][to] = true;
    out.push_back({round, unit, from, to});
  }
  bool mayGet(int64_t unit, int64_t device) const {
    return !receives[device] && !isOwner[unit][device];
  }
  /// Units that the holder has sent.
  int64_t known() const { return std::min(units, round + 1); }
  void sendNext();
  void sendFirst();
  void sendOthers();
  bool match(int64_t to, std::vector<bool> &seen);

  const int64_t devices, units;
  const std::vector<std::vector<int64_t>> &first;
  std::vector<std::vector<int64_t>> owners; // by unit
  std::vector<std::vector<bool>> isOwner;
  int64_t round = 0, oldest = 0;
  std::vector<bool> sends, receives; // in this round
  /// By receiver, from whom and what it may get; by sender, who gets it.
  std::vector<std::map<int64_t, int64_t>> offers;
  std::vector<int64_t> receiverOf;
  std::vector<ScatterStep> out;
};

/// The holder's next unit, which nobody else has.
void NodeScatter::sendNext() {
  if (round >= units || devices == 1)
    return;
  int64_t to = 1 + round % (devices - 1);
  auto needs = std::find_if(first[round].begin(), first[round].end(),
                            [](int64_t device) { return device != 0; });
  send(round, 0, needs == first[round].end() ? to : *needs);
}

void NodeScatter::sendFirst() {
  for (int64_t unit = oldest; unit < known(); ++unit)
    for (int64_t to : first[unit]) {
      if (!mayGet(unit, to))
        continue;
      auto from = std::find_if(owners[unit].begin(), owners[unit].end(),
                               [&](int64_t device) { return !sends[device]; });
      if (from != owners[unit].end())
        send(unit, *from, to);
    }
}

/// Finds a sender for the receiver, where those who are matched may change
/// theirs.
bool NodeScatter::match(int64_t to, std::vector<bool> &seen) {
  for (auto [from, unit] : offers[to]) {
    if (seen[from])
      continue;
    seen[from] = true;
    if (receiverOf[from] < 0 || match(receiverOf[from], seen)) {
      receiverOf[from] = to;
      return true;
    }
  }
  return false;
}

void NodeScatter::sendOthers() {
  offers.assign(devices, {});
  for (int64_t unit = known(); unit-- > oldest;)
    for (int64_t to = 1; to < devices; ++to)
      if (mayGet(unit, to))
        for (int64_t from : owners[unit])
          if (!sends[from])
            offers[to].try_emplace(from, unit);
  receiverOf.assign(devices, -1);
  for (int64_t to = 1; to < devices; ++to) {
    std::vector<bool> seen(devices, false);
    match(to, seen);
  }
  for (int64_t from = 0; from < devices; ++from)
    if (int64_t to = receiverOf[from]; to >= 0)
      send(offers[to].at(from), from, to);
}

} // namespace

std::vector<ScatterStep>
dt::scatterUnits(int64_t devices,
                 const std::vector<std::vector<int64_t>> &first) {
  return NodeScatter(devices, first).run();
}
