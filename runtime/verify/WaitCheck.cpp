//===- WaitCheck.cpp - Devices that wait on each other --------------------===//
//
// A group ends when each of its messages has a partner whose group has begun.
// Devices whose groups can end are taken off one after another; from those
// that are left, each waits for one that is left or has ended.
//
//===----------------------------------------------------------------------===//

#include "WaitCheck.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace dtrt {

namespace {

constexpr size_t kNone = SIZE_MAX;

/// One end of a message, seen from its device.
struct End {
  uint32_t device = 0, peer = 0;
  uint32_t instruction = 0;
  bool receive = false;
  size_t partner = kNone;
};

/// Ends [first, last) are one group.
struct Group {
  size_t first = 0, last = 0;
};

struct Device {
  std::vector<Group> groups;
  size_t at = 0;   // the group that it is in
  size_t open = 0; // ends of it that have not met their partner
  bool finished() const { return at == groups.size(); }
};

class Waiting {
public:
  Waiting(const std::vector<UnpairedEnd> &sends,
          const std::vector<UnpairedEnd> &receives) {
    for (const UnpairedEnd &end : sends)
      ends.push_back({end.source, end.destination, end.instruction, false});
    for (const UnpairedEnd &end : receives)
      ends.push_back({end.destination, end.source, end.instruction, true});
    std::sort(ends.begin(), ends.end(), [](const End &a, const End &b) {
      return std::tie(a.device, a.instruction, a.receive, a.peer) <
             std::tie(b.device, b.instruction, b.receive, b.peer);
    });
    match();
    for (size_t i = 0; i < ends.size(); ++i) {
      std::vector<Group> &groups = devices[ends[i].device].groups;
      bool sameGroup =
          !groups.empty() &&
          ends[groups.back().first].instruction == ends[i].instruction;
      if (!sameGroup)
        groups.push_back({i, i});
      groups.back().last = i + 1;
    }
    begun.resize(ends.size(), false);
  }

  Status check() {
    for (auto &[number, device] : devices)
      enter(device);
    while (!ready.empty()) {
      Device &device = *ready.back();
      ready.pop_back();
      ++device.at;
      enter(device);
    }
    return circle();
  }

private:
  /// The k-th send of an ordered pair meets its k-th receive.
  void match() {
    std::unordered_map<uint64_t, std::vector<size_t>> sends, receives;
    for (size_t i = 0; i < ends.size(); ++i) {
      const End &end = ends[i];
      uint64_t from = end.receive ? end.peer : end.device;
      uint64_t to = end.receive ? end.device : end.peer;
      (end.receive ? receives : sends)[from << 32 | to].push_back(i);
    }
    for (const auto &[pair, list] : sends) {
      const auto &others = receives[pair];
      for (size_t k = 0; k < std::min(list.size(), others.size()); ++k) {
        ends[list[k]].partner = others[k];
        ends[others[k]].partner = list[k];
      }
    }
  }

  bool hasMet(size_t end) const {
    return ends[end].partner != kNone && begun[ends[end].partner];
  }

  void enter(Device &device) {
    for (; !device.finished(); ++device.at) {
      Group group = device.groups[device.at];
      device.open = group.last - group.first;
      for (size_t i = group.first; i < group.last; ++i) {
        begun[i] = true;
        if (!hasMet(i))
          continue;
        --device.open;
        Device &peer = devices[ends[i].peer];
        if (--peer.open == 0)
          ready.push_back(&peer);
      }
      if (device.open > 0)
        return;
    }
  }

  const End &blockedEnd(const Device &device) const {
    size_t i = device.groups[device.at].first;
    while (hasMet(i))
      ++i;
    return ends[i];
  }

  Status circle() const {
    uint32_t start = UINT32_MAX;
    for (const auto &[number, device] : devices)
      if (!device.finished())
        start = std::min(start, number);
    std::vector<const End *> path;
    std::unordered_map<uint32_t, size_t> place;
    for (uint32_t at = start; place.emplace(at, path.size()).second;) {
      auto device = devices.find(at);
      if (device == devices.end() || device->second.finished())
        return {};
      path.push_back(&blockedEnd(device->second));
      at = path.back()->peer;
    }
    path.erase(path.begin(), path.begin() + place[path.back()->peer]);
    return describe(path);
  }

  static Status describe(const std::vector<const End *> &path) {
    std::vector<uint32_t> names;
    for (const End *end : path)
      names.push_back(end->device);
    std::sort(names.begin(), names.end());
    std::string text = "devices ";
    for (size_t i = 0; i < names.size(); ++i)
      text += (i == 0                  ? ""
               : i + 1 == names.size() ? " and "
                                       : ", ") +
              std::to_string(names[i]);
    text += " wait on each other";
    for (const End *end : path)
      text += (end == path.front() ? ": " : "; ") + std::string("device ") +
              std::to_string(end->device) + ", instruction " +
              std::to_string(end->instruction) + " (group) waits for device " +
              std::to_string(end->peer);
    return makeError(text);
  }

  std::vector<End> ends;
  std::vector<bool> begun;
  std::unordered_map<uint32_t, Device> devices;
  std::vector<Device *> ready;
};

} // namespace

Status checkWaiting(const std::vector<UnpairedEnd> &sends,
                    const std::vector<UnpairedEnd> &receives) {
  return Waiting(sends, receives).check();
}

} // namespace dtrt
