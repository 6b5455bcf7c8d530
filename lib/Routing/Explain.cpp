//===- Explain.cpp - Why data moves the way it does -----------------------===//

#include "dt/Routing/Explain.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <set>

using namespace dt;

const char *dt::patternName(Pattern pattern) {
  const char *names[] = {"send",       "scatter",   "gather",
                         "all-to-all", "broadcast", "all-gather"};
  return names[int(pattern)];
}

const char *dt::collectiveName(Pattern pattern) {
  const char *names[] = {"-",          "scatter",        "gather",
                         "all-to-all", "ring broadcast", "ring all-gather"};
  return names[int(pattern)];
}

namespace {

using DeviceList = std::vector<int64_t>; // ascending

/// Bytes that all of some devices hold and all of others want.
struct Class {
  DeviceList holders, wanters;
  int64_t bytes = 0;
};

/// Splits one class by where its wanters get it: from their own node, or
/// across the network.
class ClassSplitter {
public:
  explicit ClassSplitter(const Cluster &cluster) : cluster(cluster) {}

  void add(const DeviceList &holders, const DeviceList &wanters, int64_t size) {
    std::map<int64_t, DeviceList> held, near; // by node
    DeviceList far;
    for (int64_t holder : holders)
      held[cluster.node(holder)].push_back(holder);
    for (int64_t wanter : wanters) {
      if (std::binary_search(holders.begin(), holders.end(), wanter))
        continue;
      int64_t node = cluster.node(wanter);
      (held.count(node) ? near[node] : far).push_back(wanter);
    }
    for (const auto &[node, devices] : near)
      bytes[{held[node], devices}] += size;
    if (!far.empty())
      bytes[{holders, far}] += size;
  }
  std::vector<Class> take() const {
    std::vector<Class> out;
    for (const auto &[key, size] : bytes)
      out.push_back({key.first, key.second, size});
    return out;
  }

private:
  const Cluster &cluster;
  std::map<std::pair<DeviceList, DeviceList>, int64_t> bytes;
};

std::vector<Class> classesOf(const std::vector<Flow> &flows,
                             const Cluster &cluster) {
  ClassSplitter classes(cluster);
  for (const Flow &flow : flows)
    for (const CellPair &pair : join(flow.source.cells, flow.destination.cells))
      classes.add(
          flow.source.ownerSets[flow.source.cells[pair.left].owners],
          flow.destination.ownerSets[flow.destination.cells[pair.right].owners],
          pair.box.volume() * flow.bytesPerElement);
  return classes.take();
}

/// What the devices of a group do among each other.
struct Group {
  std::set<int64_t> devices;
  std::map<int64_t, int64_t> in, out; // bytes; a class leaves each holder alike
  std::map<int64_t, int64_t> outOnce; // the same when receivers pass it on
  std::map<std::pair<int64_t, int64_t>, int64_t> pairs;
  int64_t largest = 0; // bytes of one class
  bool isShared = false;

  void add(const Class &entry);
  Pattern pattern() const;
};

void Group::add(const Class &entry) {
  int64_t holders = entry.holders.size(), wanters = entry.wanters.size();
  devices.insert(entry.holders.begin(), entry.holders.end());
  devices.insert(entry.wanters.begin(), entry.wanters.end());
  for (int64_t wanter : entry.wanters) {
    in[wanter] += entry.bytes;
    for (int64_t holder : entry.holders)
      pairs[{holder, wanter}] += entry.bytes / holders;
  }
  for (int64_t holder : entry.holders) {
    out[holder] += entry.bytes * wanters / holders;
    outOnce[holder] += entry.bytes / holders;
  }
  largest = std::max(largest, entry.bytes);
  isShared |= wanters > 1;
}

Pattern Group::pattern() const {
  if (isShared)
    return out.size() > 1 && out.size() == devices.size() ? Pattern::AllGather
                                                          : Pattern::Broadcast;
  if (pairs.size() == 1)
    return Pattern::Send;
  if (out.size() == 1)
    return Pattern::Scatter;
  return in.size() == 1 ? Pattern::Gather : Pattern::AllToAll;
}

int64_t mostOf(const std::map<int64_t, int64_t> &bytes) {
  int64_t most = 0;
  for (auto [device, size] : bytes)
    most = std::max(most, size);
  return most;
}

/// Messages of the port that has most: a wave gives it one.
int64_t mostMessages(const Group &group) {
  std::map<int64_t, int64_t> sent, received;
  for (const auto &[pair, bytes] : group.pairs) {
    ++sent[pair.first];
    ++received[pair.second];
  }
  return group.isShared ? mostOf(sent)
                        : std::max(mostOf(sent), mostOf(received));
}

PatternRow costs(const Group &group, const Cluster &cluster) {
  PatternRow row;
  row.pattern = group.pattern();
  row.devices = group.devices.size();
  row.interNode =
      !cluster.sameNode(*group.devices.begin(), *group.devices.rbegin());
  row.groups = 1;
  for (auto [device, bytes] : group.in)
    row.bytes += bytes;
  double rate = cluster.bytesPerSecond(row.interNode);
  double latency = cluster.latencySeconds();
  int64_t in = mostOf(group.in), steps = row.devices - 1;
  row.sends = std::max(in, mostOf(group.out)) / rate +
              double(mostMessages(group)) * latency;
  row.forwards = row.sends;
  int64_t widest = 0; // pair
  for (const auto &[pair, bytes] : group.pairs)
    widest = std::max(widest, bytes);
  switch (row.pattern) {
  case Pattern::Broadcast:
    // A chain of chunks: the last device waits for one chunk per hop, which
    // the waves make a latency each.
    row.forwards = std::max(in, mostOf(group.outOnce)) / rate + steps * latency;
    // A tree of whole messages, for little data: all that have it send it.
    row.forwards =
        std::min(row.forwards, std::ceil(std::log2(double(row.devices))) *
                                   (double(in) / rate + latency));
    // A ring over all members, holders too, one class after the other.
    row.collective =
        std::max<int64_t>(in, group.largest) / rate + steps * latency;
    break;
  case Pattern::AllGather:
    row.forwards = std::max(in, mostOf(group.outOnce)) / rate + steps * latency;
    // Equal counts: every member's part is as long as the longest.
    row.collective = steps * (mostOf(group.outOnce) / rate + latency);
    break;
  case Pattern::Scatter:
  case Pattern::Gather:
  case Pattern::AllToAll:
    row.collective = steps * (widest / rate + latency);
    break;
  case Pattern::Send:
    row.collective = row.sends;
    break;
  }
  return row;
}

/// Devices that exchange data wanted by one device each: connected parts.
std::vector<Group> connectedGroups(const std::vector<Class> &classes) {
  std::map<int64_t, int64_t> parent;
  auto root = [&](int64_t device) {
    parent.try_emplace(device, device);
    while (parent[device] != device)
      device = parent[device] = parent[parent[device]];
    return device;
  };
  for (const Class &entry : classes)
    for (int64_t holder : entry.holders)
      parent[root(holder)] = root(entry.wanters.front());
  std::map<int64_t, Group> groups;
  for (const Class &entry : classes)
    groups[root(entry.wanters.front())].add(entry);
  std::vector<Group> out;
  for (auto &[device, group] : groups)
    out.push_back(std::move(group));
  return out;
}

/// Shared data: one group per set of devices that hold or want it.
std::vector<Group> sharedGroups(const std::vector<Class> &classes) {
  std::map<DeviceList, Group> groups;
  for (const Class &entry : classes) {
    DeviceList members;
    std::set_union(entry.holders.begin(), entry.holders.end(),
                   entry.wanters.begin(), entry.wanters.end(),
                   std::back_inserter(members));
    groups[members].add(entry);
  }
  std::vector<Group> out;
  for (auto &[members, group] : groups)
    out.push_back(std::move(group));
  return out;
}

} // namespace

std::vector<PatternRow> dt::explain(const std::vector<Flow> &flows,
                                    const Cluster &cluster) {
  std::vector<Class> single, shared;
  for (Class &entry : classesOf(flows, cluster))
    (entry.wanters.size() == 1 ? single : shared).push_back(std::move(entry));
  std::map<std::tuple<Pattern, int64_t, bool>, PatternRow> rows;
  for (const auto &groups : {connectedGroups(single), sharedGroups(shared)})
    for (const Group &group : groups) {
      PatternRow row = costs(group, cluster);
      auto [it, isNew] =
          rows.try_emplace({row.pattern, row.devices, row.interNode}, row);
      if (isNew)
        continue;
      PatternRow &total = it->second;
      int64_t groups = total.groups + 1, bytes = total.bytes + row.bytes;
      if (row.sends > total.sends)
        total = row;
      total.groups = groups;
      total.bytes = bytes;
    }
  std::vector<PatternRow> out;
  for (auto &[key, row] : rows)
    out.push_back(row);
  std::stable_sort(out.begin(), out.end(),
                   [](const PatternRow &a, const PatternRow &b) {
                     return a.bytes > b.bytes;
                   });
  return out;
}

std::string dt::explanation(const PatternRow &row) {
  char text[400];
  std::snprintf(text, sizeof(text),
                "%s among %lld devices %s: %lld group%s, %.3f GB; slowest "
                "group: sends %.3f ms, ",
                patternName(row.pattern), (long long)row.devices,
                row.interNode ? "across nodes" : "inside a node",
                (long long)row.groups, row.groups == 1 ? "" : "s",
                row.bytes / 1e9, row.sends * 1e3);
  std::string out = text;
  bool isShared =
      row.pattern == Pattern::Broadcast || row.pattern == Pattern::AllGather;
  if (isShared) {
    std::snprintf(text, sizeof(text), "forwards %.3f ms, ", row.forwards * 1e3);
    out += text;
  }
  if (row.pattern != Pattern::Send) {
    std::snprintf(text, sizeof(text), "%s %.3f ms, ",
                  collectiveName(row.pattern), row.collective * 1e3);
    out += text;
  }
  out +=
      row.isForwarded() ? "so receivers forward it" : "so its holders send it";
  if (row.pattern == Pattern::Send)
    return out;
  if (row.collective >= row.chosen())
    return out + ": a library's ring wins nothing";
  std::snprintf(
      text, sizeof(text),
      ": a library's collective would save %.3f ms were its ports its own",
      (row.chosen() - row.collective) * 1e3);
  return out + text;
}
