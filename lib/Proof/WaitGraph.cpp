//===- WaitGraph.cpp - Who waits on whom ----------------------------------===//

#include "dt/Proof/WaitGraph.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace dt {

namespace {

constexpr size_t kNone = SIZE_MAX;

/// Messages are matched with those of the same sender, receiver and member set.
using Channel = std::tuple<int64_t, int64_t, int64_t>;

Channel channelOf(const GroupMessage &message) {
  auto [from, to] = std::make_pair(message.device, message.peer);
  if (message.receive)
    std::swap(from, to);
  return {from, to, message.memberSet};
}

class Run {
public:
  Run(const std::vector<GroupMessage> &messages,
      const std::vector<DeviceGroups> &programs)
      : messages(messages), programs(programs), partner(messages.size(), kNone),
        offered(messages.size(), false), current(programs.size(), 0),
        open(programs.size(), 0) {
    for (size_t p = 0; p < programs.size(); ++p)
      place[programs[p].device] = p;
    match();
  }

  std::vector<WaitEdge> run() {
    for (size_t p = 0; p < programs.size(); ++p)
      enter(p);
    while (!ready.empty()) {
      size_t p = ready.back();
      ready.pop_back();
      ++current[p];
      enter(p);
    }
    return findCycle();
  }

private:
  /// The k-th send of a channel meets the k-th receive.
  void match() {
    std::map<Channel, std::vector<size_t>> sends, receives;
    for (const DeviceGroups &program : programs)
      for (const auto &group : program.groups)
        for (size_t m : group)
          (messages[m].receive ? receives : sends)[channelOf(messages[m])]
              .push_back(m);
    for (const auto &[channel, list] : sends) {
      const auto &others = receives[channel];
      for (size_t k = 0; k < std::min(list.size(), others.size()); ++k) {
        partner[list[k]] = others[k];
        partner[others[k]] = list[k];
      }
    }
  }

  bool ended(size_t p) const { return current[p] == programs[p].groups.size(); }

  void enter(size_t p) {
    for (; !ended(p); ++current[p]) {
      const auto &group = programs[p].groups[current[p]];
      open[p] = group.size();
      for (size_t m : group) {
        offered[m] = true;
        if (partner[m] == kNone || !offered[partner[m]])
          continue;
        --open[p];
        size_t other = place.at(messages[m].peer);
        if (--open[other] == 0 && other != p)
          ready.push_back(other);
      }
      if (open[p] > 0)
        return;
    }
  }

  /// What keeps a rank in its group: the first message that has not met its
  /// other end.
  WaitEdge waitOf(size_t p) const {
    for (size_t m : programs[p].groups[current[p]])
      if (partner[m] == kNone || !offered[partner[m]])
        return {m, programs[p].device, messages[m].peer};
    return {};
  }

  std::vector<WaitEdge> findCycle() const {
    size_t p = 0;
    while (p < programs.size() && ended(p))
      ++p;
    if (p == programs.size())
      return {};
    std::vector<size_t> position(programs.size(), kNone);
    std::vector<WaitEdge> path;
    while (position[p] == kNone) {
      position[p] = path.size();
      path.push_back(waitOf(p));
      auto next = place.find(path.back().forDevice);
      if (next == place.end() || ended(next->second))
        return {path.back()};
      p = next->second;
    }
    path.erase(path.begin(), path.begin() + position[p]);
    return path;
  }

  const std::vector<GroupMessage> &messages;
  const std::vector<DeviceGroups> &programs;
  std::map<int64_t, size_t> place; // of a device's program
  std::vector<size_t> partner;
  std::vector<bool> offered;
  std::vector<size_t> current, open; // per program: group, messages in it
  std::vector<size_t> ready;
};

} // namespace

std::vector<WaitEdge> findWait(const std::vector<GroupMessage> &messages,
                               const std::vector<DeviceGroups> &programs) {
  return Run(messages, programs).run();
}

std::vector<std::pair<size_t, size_t>>
meetings(const std::vector<GroupMessage> &messages) {
  std::map<Channel, std::vector<size_t>> sends;
  for (size_t m = 0; m < messages.size(); ++m)
    if (!messages[m].receive)
      sends[channelOf(messages[m])].push_back(m);
  std::map<Channel, size_t> next;
  std::vector<std::pair<size_t, size_t>> out;
  for (size_t m = 0; m < messages.size(); ++m)
    if (messages[m].receive) {
      Channel channel = channelOf(messages[m]);
      out.emplace_back(m, sends[channel][next[channel]++]);
    }
  return out;
}

} // namespace dt
