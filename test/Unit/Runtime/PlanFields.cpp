//===- PlanFields.cpp - Every field of a plan, one by one -----------------===//

#include "PlanFields.h"

#include "dtrt/verify/Verifier.h"

#include <cmath>
#include <cstring>
#include <map>
#include <set>

namespace dtrt::test {

namespace {

size_t pick(Rng &rng, size_t count) { return rng() % count; }

/// Zero and its neighbours, powers of two and theirs, the last of all.
template <typename T> T edge(Rng &rng) {
  switch (rng() % 4) {
  case 0:
    return T(rng() % 5) - T(2);
  case 1:
    return T(T(1) << rng() % (8 * sizeof(T))) - T(rng() % 3);
  case 2:
    return T(-1) - T(rng() % 3);
  default:
    return T(~(T(1) << (8 * sizeof(T) - 1))) - T(rng() % 3);
  }
}

/// Wraps around, for signed types too.
template <typename T> bool changeNumber(T &value, Rng &rng) {
  using U = std::make_unsigned_t<T>;
  T before = value;
  switch (rng() % 8) {
  case 0:
    value = T(edge<U>(rng));
    break;
  case 1:
    value = T(U(value) * 2);
    break;
  case 2:
    value = 0;
    break;
  default:
    value = T(U(value) + U(rng() % 2 ? 1 + rng() % 2 : 0 - (1 + rng() % 2)));
  }
  return value != before;
}

bool change(int64_t &value, Rng &rng) { return changeNumber(value, rng); }
bool change(uint64_t &value, Rng &rng) { return changeNumber(value, rng); }
bool change(int32_t &value, Rng &rng) { return changeNumber(value, rng); }
bool change(uint32_t &value, Rng &rng) { return changeNumber(value, rng); }

bool change(bool &value, Rng &) {
  value = !value;
  return true;
}

bool change(double &value, Rng &rng) {
  const double values[] = {value * 2, value / 2, std::nextafter(value, 1e300),
                           value + 1, 0,         -value,
                           NAN,       INFINITY,  -INFINITY,
                           5e-324,    1e308};
  double before = value;
  // Mostly one that a plan may have.
  value = values[pick(rng, rng() % 4 ? 4 : std::size(values))];
  return memcmp(&value, &before, sizeof value) != 0;
}

bool change(std::string &text, Rng &rng) {
  std::string before = text;
  switch (rng() % 8) {
  case 0:
    text += char(rng() % 256);
    break;
  case 1:
    text.clear();
    break;
  case 2:
    text += "{}";
    break;
  case 3:
    text += std::string(rng() % 3000, 'w');
    break;
  default:
    if (text.empty())
      text = rng() % 2 ? "proved" : "0";
    else
      text[pick(rng, text.size())] = "0123456789abcdefw."[rng() % 18];
  }
  return text != before;
}

template <typename Enum>
bool changeEnum(Enum &value, unsigned count, Rng &rng) {
  Enum before = value;
  value = Enum(rng() % 16 == 0 ? rng() % 256 : rng() % count);
  return value != before;
}
bool change(DType &type, Rng &rng) {
  return changeEnum(type, unsigned(DType::Bool) + 1, rng);
}
bool change(MemoryMode &mode, Rng &rng) { return changeEnum(mode, 2, rng); }
bool change(Granularity &granularity, Rng &rng) {
  return changeEnum(granularity, 2, rng);
}
bool change(Opcode &op, Rng &rng) {
  return changeEnum(op, unsigned(Opcode::Relay) + 1, rng);
}
bool change(CollectiveKind &kind, Rng &rng) {
  return changeEnum(kind, kNumCollectiveKinds, rng);
}
bool change(Side &side, Rng &) {
  side = side == Side::Source ? Side::Destination : Side::Source;
  return true;
}

/// Of a matrix.
bool change(Permutation &order, Rng &) {
  order = order.isIdentity() ? *Permutation::of({1, 0}) : Permutation();
  return true;
}

/// Of a matrix.
bool change(DimParts &parts, Rng &) {
  parts = parts.empty() ? DimParts{2} : DimParts();
  return true;
}

/// Elements go, come twice or change places; what stays the same does not
/// count.
template <typename T> bool changeList(std::vector<T> &list, Rng &rng) {
  if (list.empty())
    return false;
  size_t at = pick(rng, list.size()), other = pick(rng, list.size());
  switch (rng() % 3) {
  case 0:
    list.erase(list.begin() + at);
    return true;
  case 1: {
    T copy = list[at];
    list.insert(list.begin() + other, copy);
    return true;
  }
  default:
    std::swap(list[at], list[other]);
    return at != other;
  }
}
bool changeList(DimVector &list, Rng &rng) {
  std::vector<int64_t> changed(list.begin(), list.end());
  bool differs = changeList(changed, rng);
  list = changed;
  return differs;
}

class Lister {
public:
  std::vector<Field> out;

  void add(TestPlan &plan) {
    auto &[common, programs] = plan;
    add(common);
    list("programs", programs);
    for (RankProgram &program : programs)
      add(program);
  }

private:
  template <typename T> void leaf(std::string name, T &value) {
    out.push_back(
        {std::move(name), [&value](Rng &rng) { return change(value, rng); }});
  }
  /// A state more or less.
  void mask(std::string name, uint64_t &states) {
    out.push_back({std::move(name), [&states](Rng &rng) {
                     states ^= uint64_t(1) << rng() % (rng() % 16 ? 4 : 64);
                     return true;
                   }});
  }
  template <typename List> void list(std::string name, List &values) {
    out.push_back(
        {name + "[]", [&values](Rng &rng) { return changeList(values, rng); }});
  }
  template <typename List> void numbers(std::string name, List &values) {
    list(name, values);
    for (auto &value : values)
      leaf(name, value);
  }

  void add(PlanCommon &common) {
    auto &[compilerVersion, requestHash, sourceFingerprint,
           destinationFingerprint, sourceWorld, destinationWorld, sourceDevices,
           destinationDevices, families, views, memberSets, cluster,
           compression, summary, sourceLayout, destinationLayout, features] =
        common;
    (void)features; // the writer finds them out
    leaf("common.compilerVersion", compilerVersion);
    leaf("common.requestHash", requestHash);
    leaf("common.sourceFingerprint", sourceFingerprint);
    leaf("common.destinationFingerprint", destinationFingerprint);
    leaf("common.sourceWorld", sourceWorld);
    leaf("common.destinationWorld", destinationWorld);
    numbers("common.sourceDevices", sourceDevices);
    numbers("common.destinationDevices", destinationDevices);
    leaf("common.sourceLayout", sourceLayout);
    leaf("common.destinationLayout", destinationLayout);
    list("common.families", families);
    for (Family &family : families)
      add(family);
    list("common.views", views);
    for (NamedView &view : views)
      add(view);
    list("common.memberSets", memberSets);
    for (std::vector<uint32_t> &members : memberSets)
      numbers("common.memberSets.devices", members);
    add(cluster);
    leaf("compression.belowGBps", compression.belowGBps);
    leaf("compression.blockBytes", compression.blockBytes);
    add(summary);
  }

  void add(Family &family) {
    auto &[name, leading, shape, states, partial, storage] = family;
    leaf("family.name", name);
    list("family.leading", leading);
    for (auto &[first, step, count, list] : leading) {
      leaf("leading.first", first);
      leaf("leading.step", step);
      leaf("leading.count", count);
      numbers("leading.list", list);
    }
    numbers("family.shape", shape);
    leaf("family.partial", partial);
    leaf("family.storage", storage);
    list("family.states", states);
    for (auto &[name, source, destination, derivedFrom, inSource,
                inDestination] : states) {
      leaf("state.name", name);
      leaf("state.sourceDType", source);
      leaf("state.destinationDType", destination);
      leaf("state.derivedFrom", derivedFrom);
      leaf("state.inSource", inSource);
      leaf("state.inDestination", inDestination);
    }
  }

  void add(NamedView &view) {
    auto &[side, family, name, leading, dims, order, parts, fill] = view;
    leaf("view.side", side);
    leaf("view.family", family);
    leaf("view.name", name);
    list("view.leading", leading);
    for (auto &[first, step, count, list] : leading) {
      leaf("leading.first", first);
      leaf("leading.step", step);
      leaf("leading.count", count);
      numbers("leading.list", list);
    }
    list("view.dims", dims);
    for (auto &[intervals, isIndex] : dims) {
      add("view.intervals", intervals);
      leaf("view.isIndex", isIndex);
    }
    if (!order.isIdentity())
      leaf("view.order", order);
    if (!parts.empty())
      leaf("view.parts", parts);
    for (uint64_t &bits : fill)
      leaf("view.fill", bits);
  }

  void add(const char *name, std::vector<Interval> &intervals) {
    list(name, intervals);
    for (auto &[lo, hi] : intervals) {
      leaf("interval.lo", lo);
      leaf("interval.hi", hi);
    }
  }

  void add(Cluster &cluster) {
    auto &[perNode, intra, inter, latency, pack, packLaunch, links, perNic, pxn,
           launch, channels, intraChannel, interChannel, relays, collectives,
           multicast, copyEngine] = cluster;
    (void)collectives; // how the compiler was asked, which no reader can tell
    leaf("cluster.devicesPerNode", perNode);
    leaf("cluster.intraNodeGBps", intra);
    leaf("cluster.interNodeGBps", inter);
    leaf("cluster.latencyUs", latency);
    leaf("cluster.packGBps", pack);
    leaf("cluster.packLaunchUs", packLaunch);
    leaf("cluster.devicesPerNic", perNic);
    leaf("cluster.pxn", pxn);
    leaf("cluster.launchUs", launch);
    leaf("cluster.channelsPerPeer", channels);
    leaf("cluster.intraChannelGBps", intraChannel);
    leaf("cluster.interChannelGBps", interChannel);
    leaf("cluster.relays", relays);
    leaf("cluster.multicastUs", multicast);
    leaf("cluster.copyEngineUs", copyEngine);
    list("cluster.links", links);
    for (auto &[from, to, GBps] : links) {
      for (LinkEnd *end : {&from, &to}) {
        auto &[isNode, index] = *end;
        leaf("link.isNode", isNode);
        leaf("link.index", index);
      }
      leaf("link.GBps", GBps);
    }
  }

  void add(PlanSummary &summary) {
    auto &[bytesDestination, bytesLocal, bytesWire, bytesWireLowerBound,
           bytesInterNode, bytesInterNodeLowerBound, timePredicted,
           timeLowerBound, mode, stagingLimit, stagingPeak, devicePeak,
           deviceLimit, sourceMax, destinationMax, waves, messages, multicasts,
           coverage, deadlockFree, memorySafe, solver, verifier, solverSteps,
           granularity, bytesInPlace, bytesRelayed, timeWithoutRelays,
           libraryCollectives, overNccl] = summary;
    leaf("summary.bytesDestination", bytesDestination);
    leaf("summary.bytesLocal", bytesLocal);
    leaf("summary.bytesWire", bytesWire);
    leaf("summary.bytesWireLowerBound", bytesWireLowerBound);
    leaf("summary.bytesInterNode", bytesInterNode);
    leaf("summary.bytesInterNodeLowerBound", bytesInterNodeLowerBound);
    leaf("summary.timePredicted", timePredicted);
    leaf("summary.timeLowerBound", timeLowerBound);
    leaf("summary.mode", mode);
    leaf("summary.stagingLimit", stagingLimit);
    leaf("summary.stagingPeak", stagingPeak);
    leaf("summary.devicePeak", devicePeak);
    leaf("summary.deviceLimit", deviceLimit);
    leaf("summary.overNccl", overNccl);
    leaf("summary.sourceMax", sourceMax);
    leaf("summary.destinationMax", destinationMax);
    leaf("summary.waves", waves);
    leaf("summary.messages", messages);
    leaf("summary.multicasts", multicasts);
    leaf("summary.coverage", coverage);
    leaf("summary.deadlockFree", deadlockFree);
    leaf("summary.memorySafe", memorySafe);
    leaf("summary.solver", solver);
    leaf("summary.verifier", verifier);
    leaf("summary.solverSteps", solverSteps);
    leaf("summary.granularity", granularity);
    leaf("summary.bytesInPlace", bytesInPlace);
    leaf("summary.bytesRelayed", bytesRelayed);
    leaf("summary.timeWithoutRelays", timeWithoutRelays);
    leaf("summary.libraryCollectives", libraryCollectives);
  }

  void add(RankProgram &program) {
    auto &[device, sourceRank, destinationRank, source, destination,
           instructions, stagingBytes] = program;
    leaf("program.device", device);
    leaf("program.sourceRank", sourceRank);
    leaf("program.destinationRank", destinationRank);
    leaf("program.stagingBytes", stagingBytes);
    list("program.source", source);
    for (ShardRecord &shard : source)
      add(shard);
    list("program.destination", destination);
    for (ShardRecord &shard : destination)
      add(shard);
    list("program.instructions", instructions);
    for (Instruction &instruction : instructions)
      add(instruction);
  }

  void add(ShardRecord &shard) {
    auto &[family, states, dims, flat, range, view, order] = shard;
    (void)order; // of the view
    leaf("shard.family", family);
    mask("shard.states", states);
    leaf("shard.flat", flat);
    list("shard.dims", dims);
    for (std::vector<Interval> &intervals : dims)
      add("shard.intervals", intervals);
    leaf("shard.view", view);
    if (!flat)
      return; // the range means nothing
    leaf("shard.range.lo", range.lo);
    leaf("shard.range.hi", range.hi);
  }

  void add(Segment &segment) {
    auto &[family, states, side, shard, offset, size] = segment;
    mask("segment.states", states);
    if (shard == kNoShard) {
      leaf("segment.family", family);
    } else { // the family is that of the shard, in the file
      leaf("segment.side", side);
      leaf("segment.shard", shard);
    }
    numbers("segment.offset", offset);
    numbers("segment.size", size);
  }

  void add(Message &message) {
    auto &[receive, peer, bytes, direct, slot, segment] = message;
    leaf("message.receive", receive);
    leaf("message.peer", peer);
    leaf("message.bytes", bytes);
    leaf("message.direct", direct);
    if (direct)
      add(segment);
    else
      leaf("message.slot", slot);
  }

  void add(Instruction &instruction) {
    auto &[op, wave, segments, slot, bytes, messages, collective] = instruction;
    leaf("instruction.op", op);
    leaf("instruction.wave", wave);
    if (namesStaging(op)) {
      leaf("instruction.slot", slot);
      leaf("instruction.bytes", bytes);
    }
    list("instruction.segments", segments);
    for (Segment &segment : segments)
      add(segment);
    list("instruction.messages", messages);
    for (Message &message : messages)
      add(message);
    if (collective)
      add(*collective);
  }

  void add(GroupCollective &call) {
    auto &[kind, members, root, blockBytes, giveSlot, getSlot] = call;
    leaf("collective.kind", kind);
    leaf("collective.members", members);
    leaf("collective.root", root);
    leaf("collective.blockBytes", blockBytes);
    leaf("collective.giveSlot", giveSlot);
    leaf("collective.getSlot", getSlot);
  }
};

} // namespace

std::vector<Field> fieldsOf(TestPlan &plan) {
  Lister lister;
  lister.add(plan);
  return std::move(lister.out);
}

bool isProvenance(const std::string &name) {
  return name == "common.compilerVersion" || name == "common.requestHash" ||
         name == "summary.solver" || name == "summary.verifier" ||
         name == "summary.solverSteps";
}

TestPlan withoutProvenance(TestPlan plan) {
  plan.common.compilerVersion.clear();
  plan.common.requestHash.clear();
  plan.common.summary.solver.clear();
  plan.common.summary.verifier.clear();
  plan.common.summary.solverSteps = 0;
  return plan;
}

std::vector<Mutation> fieldMutations(const std::vector<TestPlan> &plans) {
  std::set<std::string> names;
  for (TestPlan plan : plans)
    for (const Field &field : fieldsOf(plan))
      names.insert(field.name);
  std::vector<Mutation> out;
  for (const std::string &name : names)
    out.push_back({"field " + name, [name](TestPlan &plan, Rng &rng) {
                     std::vector<Field> alike;
                     for (Field &field : fieldsOf(plan))
                       if (field.name == name)
                         alike.push_back(std::move(field));
                     return !alike.empty() &&
                            alike[pick(rng, alike.size())].change(rng);
                   }});
  return out;
}

} // namespace dtrt::test
