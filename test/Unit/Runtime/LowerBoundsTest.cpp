//===- LowerBoundsTest.cpp - Bounds against element by element ------------===//
//
// The oracle asks of every element of every state which devices hold it and
// which want it, and adds up what LowerBounds.h says. The verifier lays boxes
// over each other instead.
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "LayoutCells.h"
#include "LowerBounds.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <set>

using namespace dtrt;
using namespace dtrt::test;

namespace {

using DeviceSet = std::set<uint32_t>;

/// Calls visit(offset) for every element of a family.
void forEachElement(
    const Family &family,
    const std::function<void(const std::vector<int64_t> &)> &visit) {
  std::vector<int64_t> extents, at(family.rank(), 0);
  for (const LeadingDim &dim : family.leading)
    extents.push_back(dim.count);
  extents.insert(extents.end(), family.shape.begin(), family.shape.end());
  if (std::count(extents.begin(), extents.end(), 0) > 0)
    return;
  for (;;) {
    visit(at);
    size_t dim = at.size();
    while (dim > 0 && ++at[dim - 1] == extents[dim - 1])
      at[--dim] = 0;
    if (dim == 0)
      return;
  }
}

class Oracle {
public:
  explicit Oracle(const TestPlan &plan)
      : plan(plan), cluster(plan.common.cluster) {}

  LowerBounds run() {
    const auto &families = plan.common.families;
    for (uint32_t f = 0; f < families.size(); ++f)
      forEachElement(families[f], [&](const std::vector<int64_t> &at) {
        for (unsigned s = 0; s < families[f].states.size(); ++s)
          if (families[f].states[s].inDestination)
            addElement(f, s, at);
      });
    for (const auto &[ports, bytes] : demands)
      bounds.seconds = std::max(bounds.seconds, double(bytes) / rateOf(ports));
    for (const auto &[node, bytes] : nodeBytes)
      bounds.seconds =
          std::max(bounds.seconds, double(bytes) / rateOf(nodePorts[node]));
    for (const auto &[ports, seconds] : portSeconds)
      bounds.seconds = std::max(bounds.seconds, seconds / double(ports.size()));
    for (const auto &[node, seconds] : nodeSeconds)
      bounds.seconds =
          std::max(bounds.seconds, seconds / double(nodePorts[node].size()));
    bounds.seconds =
        std::max({bounds.seconds, sitesSeconds(), stagesSeconds()});
    if (bounds.seconds > 0)
      bounds.seconds += (cluster.latencyUs + cluster.launchUs) * 1e-6;
    return bounds;
  }

private:
  /// A port: its device, whether it is a NIC, whether it sends.
  using Port = std::tuple<uint32_t, bool, bool>;
  using Ports = std::set<Port>;

  DeviceSet having(uint32_t family, unsigned state, Side side,
                   const std::vector<int64_t> &at) const {
    DeviceSet out;
    for (const RankProgram &program : plan.programs)
      for (const ShardRecord &shard :
           side == Side::Source ? program.source : program.destination)
        if (shard.family == family && (shard.states >> state & 1) &&
            checkInside(plan.common.families[family], shard, at,
                        std::vector<int64_t>(at.size(), 1))
                .ok())
          out.insert(program.device);
    return out;
  }

  void addElement(uint32_t f, unsigned s, const std::vector<int64_t> &at) {
    const StateInfo &info = plan.common.families[f].states[s];
    DeviceSet holders = having(f, s, Side::Source, at);
    DeviceSet lacking = having(f, s, Side::Destination, at);
    DeviceSet deriving;
    if (info.derivedFrom >= 0 && info.inSource)
      deriving = having(f, unsigned(info.derivedFrom), Side::Destination, at);
    for (const DeviceSet *set : {&holders, &deriving})
      for (uint32_t device : *set)
        lacking.erase(device);
    if (!lacking.empty())
      for (const DeviceSet *set : {&holders, &lacking})
        busy.insert(set->begin(), set->end());
    auto bytes = uint64_t(byteWidth(wireDType(info)));
    bounds.wireBytes += bytes * lacking.size();
    std::map<int64_t, DeviceSet> byNode;
    for (uint32_t device : lacking)
      byNode[cluster.node(device)].insert(device);
    bool crosses = false;
    for (const auto &[node, devices] : byNode) {
      DeviceSet near;
      for (uint32_t device : holders)
        if (cluster.node(device) == node)
          near.insert(device);
      crosses |= near.empty();
      addNode(node, near, devices, bytes);
    }
    if (crosses)
      add(portsOf(sendersOf(holders, lacking), true, true), bytes);
    if (!cluster.links.empty()) {
      occupy(holders, lacking, double(bytes));
      if (!lacking.empty())
        elements.push_back({holders, lacking, double(bytes)});
    }
    addPairs(holders, lacking, bytes);
    addStages(holders, lacking, bytes);
  }

  /// Who has it when all who have it send it all the time.
  DeviceSet afterRound(const DeviceSet &have, const DeviceSet &lacking) const {
    DeviceSet out = have;
    std::map<int64_t, size_t> sends; // by node, inside it
    double entries = 0;
    for (uint32_t device : have) {
      sends[cluster.node(device)] += size_t(messagesAtOnce(false));
      entries += messagesAtOnce(true);
    }
    std::map<int64_t, DeviceSet> far;
    for (uint32_t device : lacking) {
      auto near = sends.find(cluster.node(device));
      if (near == sends.end())
        far[cluster.node(device)].insert(device);
      else if (!have.count(device) && near->second > 0 && near->second--)
        out.insert(device);
    }
    while (!far.empty() && entries-- > 0) {
      auto largest = std::max_element(
          far.begin(), far.end(), [](const auto &a, const auto &b) {
            return a.second.size() < b.second.size();
          });
      out.insert(*largest->second.begin());
      far.erase(largest);
    }
    return out;
  }

  int64_t roundsOf(DeviceSet have, const DeviceSet &lacking) const {
    int64_t rounds = 0;
    auto hasIt = [&](uint32_t device) { return have.count(device) > 0; };
    for (; !std::all_of(lacking.begin(), lacking.end(), hasIt); ++rounds)
      have = afterRound(have, lacking);
    return rounds;
  }

  struct Stage {
    uint64_t bytes = 0;
    int64_t rounds = 1000;
    DeviceSet devices;
    void add(uint64_t more, int64_t then) {
      bytes += more;
      rounds = std::min(rounds, then);
    }
  };

  void addStages(const DeviceSet &holders, const DeviceSet &lacking,
                 uint64_t bytes) {
    if (holders.empty() || lacking.empty())
      return;
    longest = std::max(longest, roundsOf(holders, lacking));
    std::map<int64_t, DeviceSet> byNode;
    for (uint32_t device : lacking)
      byNode[cluster.node(device)].insert(device);
    bool crosses = false;
    for (const auto &[node, own] : byNode) {
      DeviceSet near;
      for (uint32_t device : holders)
        if (cluster.node(device) == node)
          near.insert(device);
      Stage &stage = exchanged[node];
      if (!near.empty()) {
        sending[portsOf(near, false, true)].add(bytes, roundsOf(near, own));
        stage.add(bytes * own.size(), 1);
        stage.devices.insert(own.begin(), own.end());
        continue;
      }
      crosses = true;
      int64_t rounds = 1 + roundsOf({*own.begin()}, own);
      arriving[node].add(bytes, rounds);
      crossing.add(bytes, rounds);
      if (own.size() == 1)
        continue;
      stage.add(bytes * (own.size() - 1), 2);
      stage.devices.insert(own.begin(), own.end());
    }
    if (crosses)
      for (uint32_t device : holders)
        has[device] += bytes;
    DeviceSet senders = sendersOf(holders, lacking);
    if (crosses)
      sending[portsOf(senders, true, true)].add(bytes,
                                                roundsOf(senders, lacking));
  }

  bool isOneAtATime() const {
    return cluster.links.empty() && cluster.channelsPerPeer == 0 &&
           cluster.devicesPerNic == 1 && cluster.multicastUs == 0 &&
           cluster.copyEngineUs == 0 &&
           cluster.collectives != CollectiveChoice::Library;
  }

  /// Seconds of a NIC that a device brings other nodes in some time, and all
  /// who get something from it: by its NIC, and by its island port.
  static std::pair<double, double> brought(double seconds, double round) {
    if (seconds <= round)
      return {0, 0};
    auto [nic, island] = brought(seconds - round, round);
    return {std::max(seconds - round, nic + island + nic),
            nic + island + island};
  }

  double crossingSeconds(double round) const {
    if (crossing.bytes == 0 || round == 0 || !isOneAtATime())
      return 0;
    double each = double(crossing.bytes) / double(has.size()) /
                  cluster.bytesPerSecond(/*interNode=*/true);
    double less = 0, enough = round + each;
    for (int i = 0; i < 100; ++i) {
      double middle = (less + enough) / 2;
      auto [nic, island] = brought(middle, round);
      (nic + island < each ? less : enough) = middle;
    }
    return enough + double(crossing.rounds - 2) * round;
  }

  /// Whether no device has as much of what a node lacks as one of its NICs gets
  /// at least.
  bool isShort(const Stage &stage, size_t nics) const {
    return isOneAtATime() &&
           std::all_of(has.begin(), has.end(), [&](const auto &held) {
             return held.second * nics < stage.bytes;
           });
  }

  double stagesSeconds() const {
    double round = cluster.latencyUs * 1e-6; // a library's calls launch once
    double most = longest > 0 ? double(longest - 1) * round : 0;
    most = std::max(most, crossingSeconds(round));
    auto add = [&](const Stage &stage, const Ports &ports) {
      if (stage.bytes > 0)
        most = std::max(most, double(stage.bytes) / rateOf(ports) +
                                  double(stage.rounds - 1) * round);
    };
    for (const auto &[ports, stage] : sending)
      add(stage, ports);
    for (const auto &[node, stage] : arriving) {
      Stage late = stage;
      late.rounds += isShort(stage, nodePorts.at(node).size());
      add(late, nodePorts.at(node));
    }
    for (const auto &[node, stage] : exchanged)
      add(stage, portsOf(stage.devices, false, false));
    return most;
  }

  /// Who may send bytes out of a node that has them: holders, and those of
  /// their nodes that get them, too.
  DeviceSet sendersOf(const DeviceSet &holders,
                      const DeviceSet &lacking) const {
    DeviceSet senders = holders;
    for (uint32_t holder : holders)
      for (uint32_t device : lacking)
        if (cluster.node(device) == cluster.node(holder))
          senders.insert(device);
    return senders;
  }

  void addNode(int64_t node, const DeviceSet &near, const DeviceSet &lacking,
               uint64_t bytes) {
    if (!near.empty()) {
      add(portsOf(near, false, true), bytes);
      for (uint32_t device : lacking)
        add(portsOf({device}, false, false), bytes);
      return;
    }
    bounds.interNodeBytes += bytes;
    Ports nics = portsOf(lacking, true, false);
    nodeBytes[node] += bytes;
    nodePorts[node].insert(nics.begin(), nics.end());
    if (nics.size() == 1)
      add(nics, bytes);
  }

  /// Pairs of which one end is the only one.
  void addPairs(const DeviceSet &holders, const DeviceSet &lacking,
                uint64_t bytes) {
    if (cluster.channelsPerPeer == 0)
      return;
    auto sameNode = [&](uint32_t a, uint32_t b) {
      return cluster.node(a) == cluster.node(b);
    };
    if (lacking.size() == 1) {
      uint32_t to = *lacking.begin();
      std::set<std::pair<uint32_t, uint32_t>> near, far;
      for (uint32_t from : holders)
        (sameNode(from, to) ? near : far).insert({from, to});
      pairBytes[near.empty() ? far : near].first += bytes;
    }
    if (holders.size() == 1) {
      uint32_t from = *holders.begin();
      std::set<std::pair<uint32_t, uint32_t>> near, far;
      for (uint32_t to : lacking)
        (sameNode(from, to) ? near : far).insert({from, to});
      // What is near may pass it on.
      if (const auto &pairs = near.empty() ? far : near; !pairs.empty())
        pairBytes[pairs].second += bytes;
    }
    double &seconds = bounds.seconds;
    for (const auto &[pairs, sums] : pairBytes) {
      double rate = 0;
      for (auto [from, to] : pairs)
        rate += pairRate(from, to);
      // A pair alone may be both: all that comes from it, all that goes to it.
      seconds =
          std::max(seconds, double(std::max(sums.first, sums.second)) / rate);
    }
  }

  /// How long ports are busy, each byte over the fastest pair that it can take.
  void occupy(const DeviceSet &holders, const DeviceSet &lacking,
              double bytes) {
    DeviceSet all = holders, far;
    all.insert(lacking.begin(), lacking.end());
    for (uint32_t to : lacking) {
      DeviceSet own, near;
      for (uint32_t device : all)
        if (cluster.node(device) == cluster.node(to))
          (holders.count(device) ? near : own).insert(device);
      if (near.empty())
        far.insert(to);
      bool isFirst = to == *own.begin();
      if (near.empty() && isFirst) {
        double seconds = bytes / fastest(all, own, /*inter=*/true);
        nodeSeconds[cluster.node(to)] += seconds;
        if (Ports nics = portsOf(own, true, false); nics.size() == 1)
          portSeconds[nics] += seconds;
      }
      if (near.empty())
        continue;
      if (isFirst)
        portSeconds[portsOf(near, false, true)] +=
            bytes / fastest(near, own, /*inter=*/false);
      portSeconds[portsOf({to}, false, false)] +=
          bytes / fastest(all, {to}, /*inter=*/false);
    }
    if (far.empty())
      return;
    DeviceSet senders = sendersOf(holders, lacking);
    portSeconds[portsOf(senders, true, true)] +=
        bytes / fastest(senders, far, /*inter=*/true, /*sends=*/true);
  }

  /// The first busy device of each node.
  std::map<int64_t, uint32_t> firstOfNodes() const {
    std::map<int64_t, uint32_t> out;
    for (uint32_t device : busy)
      out.emplace(cluster.node(device), device);
    return out;
  }

  /// Whether some rate is reached both ways along a chain of nodes between any
  /// two of them, but between none of them and another one.
  bool isSite(const std::set<int64_t> &nodes) const {
    std::map<int64_t, uint32_t> first = firstOfNodes();
    auto rate = [&](int64_t a, int64_t b) {
      return std::min(portRate(first.at(a), first.at(b)),
                      portRate(first.at(b), first.at(a)));
    };
    double out = 0; // the fastest to another one
    for (int64_t a : nodes)
      for (const auto &[b, device] : first)
        if (!nodes.count(b))
          out = std::max(out, rate(a, b));
    std::set<int64_t> reached = {*nodes.begin()};
    for (size_t before = 0; before < reached.size();) {
      before = reached.size();
      for (int64_t a : std::set<int64_t>(reached))
        for (int64_t b : nodes)
          if (rate(a, b) > out)
            reached.insert(b);
    }
    return reached == nodes;
  }

  /// What a site lacks, over its NICs.
  double siteSeconds(const std::set<int64_t> &nodes) const {
    Ports nics;
    double seconds = 0;
    for (const Element &element : elements) {
      DeviceSet inside, outside;
      bool isThere = false;
      for (uint32_t device : element.holders) {
        isThere |= nodes.count(cluster.node(device)) > 0;
        outside.insert(device);
      }
      for (uint32_t device : element.lacking)
        (nodes.count(cluster.node(device)) ? inside : outside).insert(device);
      if (isThere || inside.empty())
        continue;
      seconds += element.bytes / fastest(outside, inside, /*inter=*/true);
      Ports own = portsOf(inside, true, false);
      nics.insert(own.begin(), own.end());
    }
    return nics.empty() ? 0 : seconds / double(nics.size());
  }

  double sitesSeconds() const {
    double most = 0;
    std::vector<int64_t> nodes;
    for (const auto &[node, device] : firstOfNodes())
      nodes.push_back(node);
    for (size_t choice = 1; choice < (size_t(1) << nodes.size()) - 1;
         ++choice) {
      std::set<int64_t> chosen;
      for (size_t i = 0; i < nodes.size(); ++i)
        if (choice >> i & 1)
          chosen.insert(nodes[i]);
      if (chosen.size() > 1 && !elements.empty() && isSite(chosen))
        most = std::max(most, siteSeconds(chosen));
    }
    return most;
  }

  double fastest(const DeviceSet &from, const DeviceSet &to, bool inter,
                 bool sends = false) const {
    double best = 0;
    for (uint32_t a : from)
      for (uint32_t b : to)
        if (a != b && (cluster.node(a) != cluster.node(b)) == inter)
          best = std::max(best, sends ? sendRate(a, b) : portRate(a, b));
    return best;
  }

  Ports portsOf(const DeviceSet &devices, bool nic, bool sends) const {
    Ports out;
    // With PXN a device sends by many NICs, so many messages at a time.
    bool shares = nic && !(sends && cluster.pxn);
    for (uint32_t device : devices)
      out.insert(
          {shares ? device - device % uint32_t(cluster.devicesPerNic) : device,
           nic, sends});
    return out;
  }

  void add(const Ports &ports, uint64_t bytes) { demands[ports] += bytes; }

  /// Of `pairs` pairs on one level.
  double channelsRate(bool inter, double pairs) const {
    double channel =
        inter ? cluster.interChannelGBps : cluster.intraChannelGBps;
    return cluster.channelsPerPeer == 0
               ? 1e300
               : pairs * double(cluster.channelsPerPeer) * channel * 1e9;
  }

  double pairRate(uint32_t from, uint32_t to) const {
    bool inter = cluster.node(from) != cluster.node(to);
    return std::min(linkRate(from, to), channelsRate(inter, 1));
  }

  /// As few messages as fill a port, three at most.
  double messagesAtOnce(bool inter) const {
    double level =
        (inter ? cluster.interNodeGBps : cluster.intraNodeGBps) * 1e9;
    double pairs = 1;
    while (pairs < 3 && channelsRate(inter, pairs) < level * (1 - 1e-9))
      ++pairs;
    return pairs;
  }

  /// Of the port where all that it carries at once goes from one to the other.
  double portRate(uint32_t from, uint32_t to) const {
    bool inter = cluster.node(from) != cluster.node(to);
    return std::min(linkRate(from, to),
                    channelsRate(inter, messagesAtOnce(inter)));
  }

  /// Of all that a device sends: with PXN each message may have a NIC.
  double sendRate(uint32_t from, uint32_t to) const {
    bool inter = cluster.node(from) != cluster.node(to);
    return inter && cluster.pxn ? messagesAtOnce(inter) * pairRate(from, to)
                                : portRate(from, to);
  }

  double linkRate(uint32_t from, uint32_t to) const {
    double GBps = cluster.node(from) == cluster.node(to)
                      ? cluster.intraNodeGBps
                      : cluster.interNodeGBps;
    auto fits = [&](const LinkEnd &end, uint32_t device) {
      return end.index == (end.isNode ? cluster.node(device) : device);
    };
    for (const Link &link : cluster.links)
      if (fits(link.from, from) && fits(link.to, to))
        GBps = link.GBps;
    return GBps * 1e9;
  }

  /// The fastest link of each port, together.
  double rateOf(const Ports &ports) const {
    double sum = 0;
    for (auto [port, nic, sends] : ports) {
      double best = 0;
      for (uint32_t a : busy)
        for (uint32_t b : busy) {
          bool inter = cluster.node(a) != cluster.node(b);
          if (inter != nic ||
              *portsOf({a}, nic, sends).begin() != Port{port, nic, sends})
            continue;
          best = std::max(best, sends ? sendRate(a, b) : portRate(b, a));
        }
      sum += best;
    }
    return sum;
  }

  const TestPlan &plan;
  const Cluster &cluster;
  LowerBounds bounds;
  DeviceSet busy;                    // lack something, or hold what others lack
  std::map<Ports, uint64_t> demands; // of what is sent, or received
  std::map<int64_t, uint64_t> nodeBytes;
  std::map<int64_t, Ports> nodePorts;
  /// What only one device wants, and what only one has.
  std::map<std::set<std::pair<uint32_t, uint32_t>>,
           std::pair<uint64_t, uint64_t>>
      pairBytes;
  /// With unequal links.
  struct Element {
    DeviceSet holders, lacking;
    double bytes = 0;
  };
  std::vector<Element> elements;
  std::map<Ports, double> portSeconds;
  std::map<int64_t, double> nodeSeconds;
  // Rounds that follow each other.
  int64_t longest = 0;
  std::map<Ports, Stage> sending;
  std::map<int64_t, Stage> arriving, exchanged;
  Stage crossing;                   // into all nodes
  std::map<uint32_t, uint64_t> has; // of that, by device
};

/// What is remembered of plans of the same families.
struct Memory {
  std::shared_ptr<ShardNumbers> numbers = std::make_shared<ShardNumbers>();
  KnownCells cells;
};

/// `memory`: null: nothing is remembered.
Result<LayoutCells> cellsOf(const TestPlan &plan, Memory *memory = nullptr) {
  ShardTable shards = memory ? ShardTable(memory->numbers) : ShardTable();
  for (const RankProgram &program : plan.programs)
    shards.add(program);
  shards.sort();
  return LayoutCells::of(plan.common.families, shards, /*messages=*/0,
                         memory ? &memory->cells : nullptr);
}

void expectBounds(const TestPlan &plan, Memory *memory = nullptr) {
  auto cells = cellsOf(plan, memory);
  ASSERT_TRUE(cells.ok()) << cells.status().message();
  auto found = lowerBounds(*cells, plan.common.cluster);
  ASSERT_TRUE(found.ok()) << found.status().message();
  LowerBounds expected = Oracle(plan).run();
  EXPECT_EQ(found->wireBytes, expected.wireBytes);
  EXPECT_EQ(found->interNodeBytes, expected.interNodeBytes);
  EXPECT_NEAR(found->seconds, expected.seconds, 1e-9 * expected.seconds);
}

/// Cuts a box at random, down to single elements where luck has it.
void cutBox(std::vector<Interval> box, int depth, std::mt19937_64 &rng,
            std::vector<std::vector<Interval>> &out) {
  size_t dim = rng() % box.size();
  if (depth == 0 || box[dim].size() < 2 || rng() % 6 == 0) {
    out.push_back(box);
    return;
  }
  int64_t at = box[dim].lo + 1 + int64_t(rng() % uint64_t(box[dim].size() - 1));
  std::vector<Interval> second = box;
  box[dim].hi = second[dim].lo = at;
  cutBox(box, depth - 1, rng, out);
  cutBox(second, depth - 1, rng, out);
}

/// Everything is somewhere; some of it on several devices, some twice on one.
Holdings randomHoldings(int64_t devices, const std::vector<Interval> &whole,
                        uint64_t states, std::mt19937_64 &rng) {
  std::vector<std::vector<Interval>> parts;
  cutBox(whole, 4, rng, parts);
  Holdings out(static_cast<size_t>(devices));
  for (const std::vector<Interval> &part : parts)
    for (size_t copies = 1 + rng() % 3; copies > 0; --copies) {
      ShardRecord shard = box(0, part, states);
      auto &own = out[rng() % uint64_t(devices)];
      int64_t rows = part[1].size(), all = rows * part[2].size();
      if (rng() % 3) {
        own.push_back(shard);
        continue;
      }
      // A flat range, and the rest of it elsewhere.
      int64_t at = int64_t(rng() % uint64_t(all + 1));
      shard.flat = true;
      shard.range = {0, at};
      own.push_back(shard);
      shard.range = {at, all};
      out[rng() % uint64_t(devices)].push_back(shard);
    }
  return out;
}

TestPlan randomLayouts(std::mt19937_64 &rng) {
  TestPlan plan;
  int64_t devices = 2 + int64_t(rng() % 7);
  std::vector<StateInfo> states = {{"master", DType::F32, DType::F32},
                                   {"param", DType::F32, DType::BF16},
                                   {"exp_avg", DType::BF16, DType::F32}};
  if (rng() % 2)
    states[1].derivedFrom = 0;
  plan.common.families = {
      makeFamily("layers.{}.w", {{0, 1, 3}}, {6, 5}, states)};
  std::vector<Interval> padded = {{0, 3}, {0, 7}, {0, 5}};
  for (uint32_t d = 0, device = 0; d < devices; ++d) {
    plan.programs.emplace_back();
    plan.programs.back().device = device;
    device += rng() % 3 ? 1 : 3; // some nodes have few
  }
  for (uint64_t mask : {1, 2, 4}) {
    Holdings source = randomHoldings(devices, padded, mask, rng);
    Holdings destination = randomHoldings(devices, padded, mask, rng);
    for (size_t d = 0; d < plan.programs.size(); ++d) {
      RankProgram &program = plan.programs[d];
      program.source.insert(program.source.end(), source[d].begin(),
                            source[d].end());
      program.destination.insert(program.destination.end(),
                                 destination[d].begin(), destination[d].end());
    }
  }
  Cluster &cluster = plan.common.cluster;
  cluster.devicesPerNode = 4;
  cluster.devicesPerNic = rng() % 2 ? 1 : 2;
  cluster.pxn = rng() % 2;
  cluster.latencyUs = 0.001;
  cluster.launchUs = rng() % 2 ? 0 : 0.002;
  if (rng() % 2) {
    cluster.channelsPerPeer = int64_t(1 + rng() % 4);
    cluster.intraChannelGBps = 60;
    cluster.interChannelGBps = 9;
  }
  for (size_t links = rng() % 4; links > 0; --links)
    cluster.links.push_back({{rng() % 2 == 0, int64_t(rng() % 6)},
                             {rng() % 2 == 0, int64_t(rng() % 6)},
                             1.0 + double(rng() % 400)});
  return plan;
}

} // namespace

TEST(LowerBounds, OfKnownPlans) {
  expectBounds(reshapePlan());
  expectBounds(forwardingPlan());
  expectBounds(derivedPlan());
}

TEST(LowerBounds, OfRandomLayouts) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 rng(seed);
    expectBounds(randomLayouts(rng));
    if (HasFailure())
      return;
  }
}

TEST(LowerBounds, OfRandomSites) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 rng(seed);
    TestPlan plan = randomLayouts(rng);
    Cluster &cluster = plan.common.cluster;
    cluster.devicesPerNode = cluster.devicesPerNic = 1 + int64_t(rng() % 2);
    // Nodes of one site are as near as those of a cluster; others may be near,
    // far, or far one way.
    for (int64_t a = 0; a < 8; ++a)
      for (int64_t b = 0; b < 8; ++b)
        if (a % 3 != b % 3)
          cluster.links.push_back(
              {{true, a}, {true, b}, rng() % 8 ? 1.0 : 2 + double(rng() % 9)});
    expectBounds(plan);
    if (HasFailure())
      return;
  }
}

TEST(LowerBounds, RelaysCanOnlyLowerThem) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 rng(seed);
    TestPlan plan = randomLayouts(rng);
    auto cells = cellsOf(plan);
    ASSERT_TRUE(cells.ok());
    auto without = lowerBounds(*cells, plan.common.cluster);
    plan.common.cluster.relays = true;
    auto with = lowerBounds(*cells, plan.common.cluster);
    ASSERT_TRUE(without.ok() && with.ok());
    EXPECT_LE(with->seconds, without->seconds * (1 + 1e-9));
    EXPECT_EQ(with->seconds > 0, without->seconds > 0);
    EXPECT_EQ(with->wireBytes, without->wireBytes);
  }
}

TEST(LowerBounds, OfARelayByHand) {
  // 200 bytes from device 0 to 2, over 1 GB/s or over device 1 at 10 GB/s.
  TestPlan plan;
  plan.common.families = {makeFamily("w", {}, {100})};
  plan.programs.resize(3);
  for (uint32_t d = 0; d < 3; ++d)
    plan.programs[d].device = d;
  plan.programs[0].source = {box(0, {{0, 100}})};
  plan.programs[2].destination = {box(0, {{0, 100}})};
  plan.common.cluster = {1, 4, 10, 0, 1000, 5, {}, 1};
  plan.common.cluster.links = {{{false, 0}, {false, 2}, 1}};
  auto seconds = [&] {
    auto found = lowerBounds(*cellsOf(plan), plan.common.cluster);
    EXPECT_TRUE(found.ok());
    return found.ok() ? found->seconds : 0;
  };
  EXPECT_DOUBLE_EQ(seconds(), 200e-9);
  plan.common.cluster.relays = true;
  EXPECT_DOUBLE_EQ(seconds(), 20e-9); // the NIC of node 2
  plan.common.cluster.links.push_back({{true, 1}, {false, 2}, 40});
  EXPECT_DOUBLE_EQ(seconds(), 200 / 14e9); // out of device 0 by both ports
}

TEST(LowerBounds, ByHand) {
  // 100 elements of 2 bytes: device 0 of node 0 has all, the two of node 1 want
  // a half each, and one of them all of it.
  Family family = makeFamily("w", {}, {100});
  TestPlan plan;
  plan.common.families = {family};
  plan.programs.resize(3);
  for (uint32_t d = 0; d < 3; ++d)
    plan.programs[d].device = d == 0 ? 0 : d + 1;
  plan.programs[0].source = {box(0, {{0, 100}})};
  plan.programs[1].destination = {box(0, {{0, 100}})};
  plan.programs[2].destination = {box(0, {{50, 100}})};
  plan.common.cluster = {2, 4, 1, 1, 1000, 5, {}, 1};
  auto cells = cellsOf(plan);
  ASSERT_TRUE(cells.ok()) << cells.status().message();
  auto found = lowerBounds(*cells, plan.common.cluster);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->wireBytes, 300u);
  EXPECT_EQ(found->interNodeBytes, 200u);
  // By the NIC to one of the two, and half of it to the other: a microsecond
  // each, and 100 bytes over two island ports of 4 GB/s.
  EXPECT_DOUBLE_EQ(found->seconds, 12.5e-9 + 2e-6);
}

TEST(LowerBounds, WhoHasItSendsToOneNodeInARound) {
  // One of eight nodes has two bytes that the others want: 2, 4 and 8 have it.
  TestPlan plan;
  plan.common.families = {makeFamily("w", {}, {1})};
  plan.programs.resize(8);
  for (uint32_t d = 0; d < 8; ++d)
    plan.programs[d].device = d;
  plan.programs[0].source = {box(0, {{0, 1}})};
  for (uint32_t d = 1; d < 8; ++d)
    plan.programs[d].destination = {box(0, {{0, 1}})};
  plan.common.cluster = {1, 4, 1, 10, 1000, 5, {}, 1};
  expectBounds(plan);
  auto found = lowerBounds(*cellsOf(plan), plan.common.cluster);
  ASSERT_TRUE(found.ok());
  EXPECT_DOUBLE_EQ(found->seconds, 2e-9 + 3 * 10e-6);
}

TEST(LowerBounds, WhatCrossesTakesTheTimeOfAllNics) {
  // The four devices of node 0 have 40 bytes that all of five nodes want: 160
  // bytes for four NICs of a byte per nanosecond, to which others come after
  // rounds of 10: in 3 rounds and 5/3 ns each brings 10 + 2 x 10 + 2 x 5, all
  // that its receivers send counted. Two rounds more inside the last node.
  TestPlan plan;
  plan.common.families = {makeFamily("w", {}, {20})};
  plan.programs.resize(20);
  for (uint32_t d = 0; d < 20; ++d) {
    plan.programs[d].device = d;
    plan.programs[d].destination = {box(0, {{0, 20}})};
    if (d < 4)
      plan.programs[d].source = plan.programs[d].destination;
  }
  plan.common.cluster = {4, 4, 1, 0.01, 1000, 5, {}, 1};
  expectBounds(plan);
  auto found = lowerBounds(*cellsOf(plan), plan.common.cluster);
  ASSERT_TRUE(found.ok());
  EXPECT_DOUBLE_EQ(found->seconds, 30e-9 + 5e-9 / 3 + 20e-9);
}

TEST(LowerBounds, WhoLacksWhatANicGetsSendsLater) {
  // An all-gather of three: a NIC gets 200 bytes, and nobody has more than 100.
  // So they come in two messages, or after one to their sender.
  TestPlan plan;
  plan.common.families = {makeFamily("w", {}, {150})};
  plan.programs.resize(3);
  for (uint32_t d = 0; d < 3; ++d) {
    plan.programs[d].device = d;
    plan.programs[d].source = {box(0, {{50 * d, 50 * (d + 1)}})};
    plan.programs[d].destination = {box(0, {{0, 150}})};
  }
  plan.common.cluster = {1, 4, 1, 1, 1000, 5, {}, 1};
  expectBounds(plan);
  auto seconds = [&] {
    auto found = lowerBounds(*cellsOf(plan), plan.common.cluster);
    EXPECT_TRUE(found.ok());
    return found.ok() ? found->seconds : 0;
  };
  EXPECT_DOUBLE_EQ(seconds(), 200e-9 + 2e-6);
  // Who has all of it sends it at once.
  plan.programs[0].source = {box(0, {{0, 150}})};
  plan.programs[1] = plan.programs[2];
  plan.programs[1].source = {};
  plan.programs.resize(2);
  plan.programs[0].destination = {};
  expectBounds(plan);
  EXPECT_DOUBLE_EQ(seconds(), 300e-9 + 1e-6);
}

TEST(LowerBounds, WhatASiteLacksCrossesToItOnce) {
  // Node 0 has 100 elements that nodes 1 and 2 want: from it at 1 GB/s, from
  // each other at 10. Node by node each could have all from the other one.
  TestPlan plan;
  plan.common.families = {makeFamily("w", {}, {100})};
  plan.programs.resize(3);
  for (uint32_t d = 0; d < 3; ++d)
    plan.programs[d].device = d;
  plan.programs[0].source = {box(0, {{0, 100}})};
  plan.programs[1].destination = plan.programs[2].destination =
      plan.programs[0].source;
  plan.common.cluster = {1, 4, 10, 0, 1000, 5, {}, 1};
  plan.common.cluster.links = {{{true, 0}, {true, 1}, 1},
                               {{true, 0}, {true, 2}, 1},
                               {{true, 1}, {true, 0}, 1},
                               {{true, 2}, {true, 0}, 1}};
  expectBounds(plan);
  auto found = lowerBounds(*cellsOf(plan), plan.common.cluster);
  ASSERT_TRUE(found.ok());
  // Out of node 0 at 1 GB/s; the NICs of nodes 1 and 2 share what comes in.
  EXPECT_DOUBLE_EQ(found->seconds, 200e-9);
  plan.programs.resize(4);
  plan.programs[3].device = 3;
  plan.programs[0].source = {box(0, {{0, 50}})};
  plan.programs[3].source = {box(0, {{50, 100}})};
  plan.common.cluster.links.push_back({{true, 3}, {true, 1}, 1});
  plan.common.cluster.links.push_back({{true, 3}, {true, 2}, 1});
  expectBounds(plan);
  found = lowerBounds(*cellsOf(plan), plan.common.cluster);
  ASSERT_TRUE(found.ok());
  EXPECT_DOUBLE_EQ(found->seconds, 100e-9);
}

TEST(LowerBounds, ABystandersLinkIsNoRate) {
  // Device 0 has what device 2 lacks; device 1 has what device 2 has, and a
  // fast link to it over which nothing needs to go.
  TestPlan plan;
  plan.common.families = {makeFamily("w", {}, {100})};
  plan.programs.resize(3);
  for (uint32_t d = 0; d < 3; ++d)
    plan.programs[d].device = d;
  plan.programs[0].source = {box(0, {{0, 100}})};
  plan.programs[1].source = {box(0, {{50, 100}})};
  plan.programs[2].source = {box(0, {{50, 100}})};
  plan.programs[2].destination = {box(0, {{0, 100}})};
  plan.common.cluster = {1, 1, 1, 0, 1000, 5, {}, 1};
  plan.common.cluster.links = {{{false, 1}, {false, 2}, 100}};
  expectBounds(plan);
  auto found = lowerBounds(*cellsOf(plan), plan.common.cluster);
  ASSERT_TRUE(found.ok());
  EXPECT_DOUBLE_EQ(found->seconds, 100e-9); // 100 bytes at 1 GB/s
}

/// Gives the shards of each device to another one, on both sides by themselves.
void shuffleShards(TestPlan &plan, std::mt19937_64 &rng) {
  for (auto side : {&RankProgram::source, &RankProgram::destination})
    for (size_t i = plan.programs.size(); i > 1; --i)
      std::swap(plan.programs[i - 1].*side, plan.programs[rng() % i].*side);
}

TEST(LayoutCells, AreRememberedByTheirShards) {
  std::mt19937_64 rng(7);
  for (int n = 0; n < 50; ++n) {
    TestPlan first = randomLayouts(rng), other = randomLayouts(rng);
    other.common.families = first.common.families;
    Memory memory;
    for (TestPlan *plan : {&first, &other, &first}) {
      expectBounds(*plan, &memory);
      shuffleShards(*plan, rng);
      expectBounds(*plan, &memory);
    }
  }
}

TEST(LayoutCells, WhatLacksIsNotRemembered) {
  TestPlan plan = reshapePlan();
  Memory memory;
  EXPECT_TRUE(cellsOf(plan, &memory).ok());
  TestPlan lacking = plan;
  lacking.programs[2].source.erase(lacking.programs[2].source.begin());
  for (int time = 0; time < 2; ++time)
    EXPECT_FALSE(cellsOf(lacking, &memory).ok());
  EXPECT_TRUE(cellsOf(plan, &memory).ok());
}

TEST(LayoutCells, NameWhatALayoutLacks) {
  TestPlan plan = reshapePlan();
  for (RankProgram &program : plan.programs)
    for (ShardRecord &shard : program.destination)
      if (shard.family == 2) // a flat range: the last element of each member
        shard.range.hi = std::min<int64_t>(shard.range.hi, 39);
  auto cells = cellsOf(plan);
  ASSERT_FALSE(cells.ok());
  EXPECT_EQ(cells.status().message(),
            "family 2 'layers.{}.norm.exp_avg': destination layout lacks "
            "element [7, 4] of tensor 'layers.0.norm.exp_avg' state 'exp_avg'");
  plan = reshapePlan();
  plan.programs[2].source.erase(plan.programs[2].source.begin());
  cells = cellsOf(plan);
  ASSERT_FALSE(cells.ok());
  EXPECT_EQ(cells.status().message(),
            "family 0 'layers.{}.mlp.fc1.weight': source layout lacks element "
            "[4, 0] of tensor 'layers.0.mlp.fc1.weight' state 'param'");
}

TEST(LayoutCells, EndWhereThereAreTooMany) {
  // Strips that cross: a few hundred intervals make a cell each.
  TestPlan plan;
  plan.common.families = {makeFamily("w", {}, {4000, 4000, 4000})};
  plan.programs.resize(1);
  for (Side side : {Side::Source, Side::Destination})
    for (unsigned dim = 0; dim < 3; ++dim)
      for (int64_t i = 0; i < 2000; ++i) {
        std::vector<Interval> dims = {{0, 4000}, {0, 4000}, {0, 4000}};
        dims[dim] = {2 * i, 2 * i + 2};
        auto &list = side == Side::Source ? plan.programs[0].source
                                          : plan.programs[0].destination;
        list.push_back(box(0, dims));
      }
  auto cells = cellsOf(plan);
  ASSERT_FALSE(cells.ok());
  EXPECT_NE(cells.status().message().find("steps to check"), std::string::npos)
      << cells.status().message();
}
