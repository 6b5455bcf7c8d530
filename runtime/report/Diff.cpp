//===- Diff.cpp - What differs between two plans, by meaning --------------===//
//
// Two plans are the same when all is the same that a reader is told, but for
// who made the plan and from which request: compiler, solver, hash of the
// request and minor of the format. How a section stores it has no meaning.
// Numbers that sum things up come first, then each device's program up to its
// first difference.
//
//===----------------------------------------------------------------------===//

#include "dtrt/report/Diff.h"

#include "DiffReport.h"
#include "LayoutDiff.h"
#include "ReportText.h"

#include "dtrt/format/ShardView.h"
#include "dtrt/format/Text.h"
#include "dtrt/report/DeviceTraffic.h"

#include <algorithm>
#include <ostream>
#include <tuple>

namespace dtrt {

namespace {

/// Exact: different numbers have different texts.
template <typename T> std::string textOf(const T &value) {
  std::ostringstream text;
  text << value;
  return text.str();
}
std::string textOf(double value) { return exactText(value); }
std::string textOf(bool value) { return value ? "yes" : "no"; }
std::string textOf(const Interval &range) { return rangeText(range); }
std::string textOf(const LeadingDim &dim);
std::string textOf(const StateInfo &state);
std::string textOf(const DimVector &numbers);
std::string textOf(const ViewDim &dim);
template <typename T> std::string textOf(const std::vector<T> &list) {
  std::string text = "[";
  for (size_t i = 0; i < list.size(); ++i)
    text += (i > 0 ? ", " : "") + textOf(list[i]);
  return text + "]";
}
std::string textOf(const DimVector &numbers) {
  return textOf(std::vector<int64_t>(numbers.begin(), numbers.end()));
}

/// What is compared, how it reads exactly, and in a unit.
struct Row {
  std::string name, exact, inUnit;
};
using Rows = std::vector<Row>;

Row bytesRow(const char *name, uint64_t bytes) {
  return {name, std::to_string(bytes) + " B", bytesText(bytes)};
}
Row secondsRow(const char *name, double seconds) {
  return {name, exactText(seconds) + " s", secondsText(seconds)};
}

/// In units, if these tell the two apart.
std::pair<std::string, std::string> textsOf(const Row &a, const Row &b) {
  if (a.inUnit != b.inUnit)
    return {a.inUnit, b.inUnit};
  return {a.exact, b.exact};
}

void compareRows(const Rows &a, const Rows &b, DiffReport &report) {
  for (size_t i = 0; i < a.size(); ++i) {
    auto [left, right] = textsOf(a[i], b[i]);
    report.compare(a[i].name, left, right);
  }
}

/// Calls `visit` with each key of either map and both values; absent: zero.
template <typename Map, typename Value, typename Visit>
void visitBoth(const Map &a, const Map &b, Value value, Visit visit) {
  Map all = a;
  all.insert(b.begin(), b.end());
  for (const auto &[key, unused] : all) {
    auto left = a.find(key), right = b.find(key);
    visit(key, left == a.end() ? 0 : value(left->second),
          right == b.end() ? 0 : value(right->second));
  }
}

/// "device 3", "devices 0-3"
std::string numbered(const char *what, const std::string &list, size_t count) {
  return std::string(what) + (count > 1 ? "s " : " ") + list;
}

//===----------------------------------------------------------------------===//
// The common part. Structured bindings name every field of a struct, so that a
// new one does not compile before it is compared.
//===----------------------------------------------------------------------===//

std::string textOf(const StateInfo &state) {
  const auto &[name, source, destination, derivedFrom, inSource,
               inDestination] = state;
  std::string text =
      name + ":" + dtypeName(source) + "->" + dtypeName(destination);
  if (derivedFrom >= 0)
    text += " made from " + std::to_string(derivedFrom);
  if (!inSource)
    text += " not in the source";
  return inDestination ? text : text + " not in the destination";
}

std::string textOf(const LeadingDim &dim) {
  const auto &[first, step, count, list] = dim;
  if (!list.empty())
    return textOf(list);
  return std::to_string(first) + "+" + std::to_string(step) + "*" +
         std::to_string(count);
}

/// Names may have any characters, so their lengths part them.
std::string keyOf(const Family &family) {
  const auto &[name, leading, shape, states, partial, storage] = family;
  std::string key = std::to_string(name.size()) + " " + name + " " +
                    textOf(leading) + textOf(shape) +
                    (partial ? " partial" : "") + " " +
                    std::to_string(storage.size()) + " " + storage;
  for (const StateInfo &state : states)
    key += " " + std::to_string(state.name.size()) + " " + textOf(state);
  return key;
}

std::string textOf(const Family &family) {
  return family.name + " " + textOf(family.leading) + " " +
         textOf(family.shape) + " " + textOf(family.states) +
         (family.partial ? " partial" : "") +
         (family.storage.empty() ? "" : " in storage " + family.storage);
}

/// Families by what they say, each with the place of its first in either plan;
/// plans may have them in different orders.
class FamilyNumbers {
public:
  FamilyNumbers(const PlanCommon &a, const PlanCommon &b) {
    number(a, left);
    number(b, right);
  }
  bool same(uint32_t a, uint32_t b) const { return left[a] == right[b]; }

private:
  /// The k-th of several that are alike is the same as the other plan's k-th.
  void number(const PlanCommon &common, std::vector<size_t> &numbers) {
    std::map<std::string, size_t> seen;
    for (const Family &family : common.families) {
      std::string key = keyOf(family);
      size_t which = seen[key]++;
      numbers.push_back(known.emplace(std::make_pair(key, which), known.size())
                            .first->second);
    }
  }

  std::map<std::pair<std::string, size_t>, size_t> known;
  std::vector<size_t> left, right;
};

void compareTensors(const PlanCommon &a, const PlanCommon &b,
                    DiffReport &report) {
  report.section("{} more families of tensors differ");
  std::map<std::string, uint64_t> left, right;
  std::map<std::string, std::string> texts;
  for (auto [common, map] : {std::make_pair(&a, &left), {&b, &right}})
    for (const Family &family : common->families) {
      std::string key = keyOf(family);
      ++(*map)[key];
      texts.emplace(std::move(key), textOf(family));
    }
  visitBoth(
      left, right, [](uint64_t count) { return count; },
      [&](const std::string &key, uint64_t before, uint64_t after) {
        report.compare("tensors " + texts[key], textOf(before), textOf(after));
      });
}

std::string textOf(const ViewDim &dim) {
  const auto &[intervals, isIndex] = dim;
  return textOf(intervals) + (isIndex ? " index" : "");
}

std::string textOf(const NamedView &view) {
  const auto &[side, family, name, leading, dims, order, parts, fill] = view;
  std::string text = std::string(sideName(side)) + " " + name + " " +
                     textOf(leading) + " of family #" + std::to_string(family) +
                     " " + textOf(dims);
  if (!order.isIdentity())
    text += " permuted " + textOf(order.dims(unsigned(dims.size())));
  if (!parts.empty())
    text +=
        " parts " + textOf(std::vector<int64_t>(parts.begin(), parts.end()));
  if (!fill.empty())
    text += " fill";
  for (uint64_t bits : fill)
    text += " " + hexText(bits);
  return text;
}

void compareViews(const PlanCommon &a, const PlanCommon &b,
                  DiffReport &report) {
  report.section("{} more views differ");
  report.compare("number of views", textOf(a.views.size()),
                 textOf(b.views.size()));
  for (size_t i = 0; i < std::min(a.views.size(), b.views.size()); ++i)
    report.compare("view " + std::to_string(i), textOf(a.views[i]),
                   textOf(b.views[i]));
}

void addRows(const Cluster &cluster, Rows &rows) {
  const auto &[perNode, intra, inter, latency, pack, packLaunch, links, perNic,
               pxn, launch, channels, intraChannel, interChannel, relays,
               collectives, multicast, copyEngine] = cluster;
  rows.push_back({"devices per node", textOf(perNode), ""});
  rows.push_back({"devices per NIC", textOf(perNic), ""});
  rows.push_back({"PXN", pxn ? "on" : "off", ""});
  rows.push_back({"relays", relays ? "on" : "off", ""});
  rows.push_back({"collectives", collectiveChoiceName(collectives), ""});
  rows.push_back({"multicast in us", textOf(multicast), ""});
  rows.push_back({"copy engines in us", textOf(copyEngine), ""});
  rows.push_back({"GBps inside a node", textOf(intra), ""});
  rows.push_back({"GBps between nodes", textOf(inter), ""});
  rows.push_back({"latency in us", textOf(latency), ""});
  rows.push_back({"launch of a wave in us", textOf(launch), ""});
  rows.push_back({"channels per peer", textOf(channels), ""});
  rows.push_back({"GBps of a channel inside a node", textOf(intraChannel), ""});
  rows.push_back({"GBps of a channel between nodes", textOf(interChannel), ""});
  rows.push_back({"GBps of packs", textOf(pack), ""});
  rows.push_back({"start of a pack in us", textOf(packLaunch), ""});
  rows.push_back({"links", textOf(links.size()), ""});
}

void addRows(const Compression &compression, Rows &rows) {
  const auto &[belowGBps, blockBytes] = compression;
  rows.push_back(
      {"GBps below which links are compressed", textOf(belowGBps), ""});
  rows.push_back(bytesRow("block that is compressed", blockBytes));
}

std::string textOf(const Link &link) {
  const auto &[from, to, GBps] = link;
  auto end = [](const LinkEnd &end) {
    const auto &[isNode, index] = end;
    return (isNode ? "node " : "device ") + std::to_string(index);
  };
  return end(from) + " to " + end(to) + ": " + textOf(GBps) + " GBps";
}

/// Of several links that fit a pair the last holds, so their order counts.
void compareLinks(const Cluster &a, const Cluster &b, DiffReport &report) {
  report.section("{} more links differ");
  for (size_t i = 0; i < std::min(a.links.size(), b.links.size()); ++i)
    report.compare("link " + std::to_string(i), textOf(a.links[i]),
                   textOf(b.links[i]));
}

void addRows(const PlanSummary &summary, Rows &rows) {
  const auto &[bytesDestination, bytesLocal, bytesWire, bytesWireLowerBound,
               bytesInterNode, bytesInterNodeLowerBound, timePredicted,
               timeLowerBound, mode, stagingLimit, stagingPeak, devicePeak,
               deviceLimit, sourceMax, destinationMax, waves, messages,
               multicasts, coverage, deadlockFree, memorySafe, solver, verifier,
               solverSteps, granularity, bytesInPlace, bytesRelayed,
               timeWithoutRelays, libraryCollectives, overNccl] = summary;
  (void)solver, (void)verifier, (void)solverSteps; // who proved it
  rows.insert(
      rows.end(),
      {bytesRow("destination bytes", bytesDestination),
       bytesRow("local bytes", bytesLocal),
       bytesRow("bytes in place", bytesInPlace),
       bytesRow("wire bytes", bytesWire),
       bytesRow("lower bound of wire bytes", bytesWireLowerBound),
       bytesRow("relayed bytes", bytesRelayed),
       bytesRow("inter-node bytes", bytesInterNode),
       bytesRow("lower bound of inter-node bytes", bytesInterNodeLowerBound),
       {"waves", textOf(waves), ""},
       {"messages", textOf(messages), ""},
       {"multicasts", textOf(multicasts), ""},
       {"library collectives", textOf(libraryCollectives), ""},
       bytesRow("staging limit", stagingLimit),
       bytesRow("staging peak", stagingPeak),
       bytesRow("device limit", deviceLimit),
       bytesRow("device peak", devicePeak),
       bytesRow("most source bytes", sourceMax),
       bytesRow("most destination bytes", destinationMax),
       secondsRow("predicted time", timePredicted),
       secondsRow("lower bound of time", timeLowerBound),
       secondsRow("time without relays", timeWithoutRelays),
       {"memory mode", memoryModeName(mode, granularity), ""},
       {"memory of NCCL", overNccl ? "counted" : "not counted", ""},
       {"proof of coverage", coverage, ""},
       {"proof of freedom from deadlock", deadlockFree, ""},
       {"proof of memory", memorySafe, ""}});
}

std::string devicesText(const std::vector<uint32_t> &devices) {
  return listText({devices.begin(), devices.end()});
}

/// Worlds, and which devices they are on.
Rows worldRows(const PlanCommon &common) {
  return {{"source world", textOf(common.sourceWorld), ""},
          {"destination world", textOf(common.destinationWorld), ""},
          {"source devices", devicesText(common.sourceDevices), ""},
          {"destination devices", devicesText(common.destinationDevices), ""}};
}

/// A fingerprint is of the words, which say more where they differ.
void compareSide(const std::string &side, const std::string &printA,
                 const std::string &printB, const std::string &wordsA,
                 const std::string &wordsB, DiffReport &report) {
  report.section(side + " layout: {} more lines differ");
  if (wordsA == wordsB || report.length == DiffLength::All)
    report.compare("fingerprint of " + side + " layout", printA, printB);
  compareLayouts(side, wordsA, wordsB, report);
}

/// Collectives name them by number.
void compareMemberSets(const PlanCommon &a, const PlanCommon &b,
                       DiffReport &report) {
  report.section("{} more member sets differ");
  report.compare("member sets", textOf(a.memberSets.size()),
                 textOf(b.memberSets.size()));
  for (size_t i = 0; i < std::min(a.memberSets.size(), b.memberSets.size());
       ++i)
    report.compare("member set " + std::to_string(i),
                   devicesText(a.memberSets[i]), devicesText(b.memberSets[i]));
}

void compareCommon(const PlanCommon &a, const PlanCommon &b,
                   DiffReport &report) {
  const auto &[compilerVersion, requestHash, sourceFingerprint,
               destinationFingerprint, sourceWorld, destinationWorld,
               sourceDevices, destinationDevices, families, views, memberSets,
               cluster, compression, summary, sourceLayout, destinationLayout,
               features] = a;
  (void)compilerVersion, (void)requestHash; // who made it, and from what
  (void)sourceWorld, (void)destinationWorld, (void)sourceDevices,
      (void)destinationDevices; // worldRows
  (void)families;               // compareTensors
  (void)views;                  // compareViews
  (void)memberSets;             // compareMemberSets
  (void)features;               // they follow from what is compared
  compareTensors(a, b, report);
  compareViews(a, b, report);
  report.section();
  compareRows(worldRows(a), worldRows(b), report);
  compareSide("source", sourceFingerprint, b.sourceFingerprint, sourceLayout,
              b.sourceLayout, report);
  compareSide("destination", destinationFingerprint, b.destinationFingerprint,
              destinationLayout, b.destinationLayout, report);
  report.section();
  Rows left, right;
  addRows(cluster, left), addRows(compression, left), addRows(summary, left);
  addRows(b.cluster, right), addRows(b.compression, right);
  addRows(b.summary, right);
  compareRows(left, right, report);
  compareLinks(cluster, b.cluster, report);
  compareMemberSets(a, b, report);
}

//===----------------------------------------------------------------------===//
// Traffic
//===----------------------------------------------------------------------===//

using Edge = std::pair<uint32_t, uint32_t>;

/// Edges with the same bytes before and after are one line of a screen.
void compareEdges(const PlanTraffic &a, const PlanTraffic &b,
                  DiffReport &report) {
  report.section("bytes of {} more edges differ");
  auto compare = [&](const Edge &edge, uint64_t before, uint64_t after) {
    std::string text = "bytes from " + std::to_string(edge.first) + " to " +
                       std::to_string(edge.second);
    auto name = [text](const std::string &, size_t count) {
      return count > 1 ? text + " and of " + std::to_string(count - 1) + " more"
                       : text;
    };
    auto [left, right] = textsOf(bytesRow("", before), bytesRow("", after));
    report.compareItem(report.length == DiffLength::All ? text : "",
                       uint64_t(edge.first) << 32 | edge.second, name, left,
                       right);
  };
  visitBoth(a.edges, b.edges, [](uint64_t bytes) { return bytes; }, compare);
}

/// Numbers of bytes by wave or by device.
template <typename Map, typename Value>
void compareBytes(const char *what, const char *kind, const Map &a,
                  const Map &b, Value value, DiffReport &report) {
  report.section(std::string(what) + " {} more " + kind + "s differ");
  auto name = [=](const std::string &list, size_t count) {
    return std::string(what) + " " + numbered(kind, list, count);
  };
  visitBoth(a, b, value, [&](auto key, uint64_t before, uint64_t after) {
    auto [left, right] = textsOf(bytesRow("", before), bytesRow("", after));
    report.compareItem("", uint64_t(key), name, left, right);
  });
}

void compareTraffic(const PlanTraffic &a, const PlanTraffic &b,
                    DiffReport &report) {
  compareEdges(a, b, report);
  compareBytes(
      "bytes in", "wave", a.waves, b.waves,
      [](const WaveTraffic &wave) { return wave.bytes; }, report);
  compareBytes(
      "memory peak of", "device", a.devices, b.devices,
      [](const DeviceTraffic &device) { return device.peakBytes; }, report);
  compareBytes(
      "local bytes of", "device", a.devices, b.devices,
      [](const DeviceTraffic &device) { return device.copied; }, report);
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Looks at one program of each plan, up to what differs first.
class ProgramDiff {
public:
  explicit ProgramDiff(const FamilyNumbers &families) : families(families) {}

  /// Whether they are the same; if not, `where`, `left` and `right` say what
  /// differs.
  bool same(const RankProgram &a, const RankProgram &b) {
    const auto &[device, sourceRank, destinationRank, source, destination,
                 instructions, stagingBytes] = a;
    (void)device; // by which they were found
    return field("source rank", sourceRank, b.sourceRank) &&
           field("destination rank", destinationRank, b.destinationRank) &&
           bytes("staging", stagingBytes, b.stagingBytes) &&
           list("source shard", source, b.source) &&
           list("destination shard", destination, b.destination) &&
           list("instruction", instructions, b.instructions);
  }

  std::string where, left, right;

private:
  template <typename T> bool field(const char *name, const T &a, const T &b) {
    if (a == b)
      return true;
    where += std::string(", ") + name;
    left = textOf(a);
    right = textOf(b);
    return false;
  }

  bool bytes(const char *name, uint64_t a, uint64_t b) {
    if (field(name, a, b))
      return true;
    std::tie(left, right) = textsOf(bytesRow(name, a), bytesRow(name, b));
    return false;
  }

  bool family(uint32_t a, uint32_t b) {
    if (families.same(a, b))
      return true;
    return field("family", "#" + std::to_string(a),
                 "#" + std::to_string(b) + " (of another content)");
  }

  template <typename T>
  bool list(const char *name, const std::vector<T> &a,
            const std::vector<T> &b) {
    const size_t before = where.size();
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      where += std::string(", ") + name + " " + std::to_string(i);
      if (!sameItem(a[i], b[i]))
        return false;
      where.resize(before);
    }
    return field((std::string("number of ") + name + "s").c_str(), a.size(),
                 b.size());
  }

  bool sameItem(const ShardRecord &a, const ShardRecord &b) {
    const auto &[own, states, dims, flat, range, view, order] = a;
    (void)order; // of the view
    return family(own, b.family) && field("states", states, b.states) &&
           field("dims", dims, b.dims) && field("flat", flat, b.flat) &&
           (!flat || field("range", range, b.range)) &&
           field("view", view, b.view);
  }

  bool sameItem(const Segment &a, const Segment &b) {
    const auto &[own, states, side, shard, offset, size] = a;
    return family(own, b.family) && field("states", states, b.states) &&
           field("is of the destination", side == Side::Destination,
                 b.side == Side::Destination) &&
           field("shard", shard, b.shard) &&
           field("offset", offset, b.offset) && field("size", size, b.size);
  }

  bool sameItem(const Message &a, const Message &b) {
    const auto &[receive, peer, bytes, direct, slot, segment] = a;
    return field("is received", receive, b.receive) &&
           field("peer", peer, b.peer) &&
           this->bytes("bytes", bytes, b.bytes) &&
           field("is direct", direct, b.direct) &&
           (direct ? sameItem(segment, b.segment)
                   : field("slot", slot, b.slot));
  }

  static std::string callText(const std::optional<GroupCollective> &call) {
    if (!call)
      return "none";
    const auto &[kind, members, root, block, give, get] = *call;
    return std::string(collectiveName(kind)) + " of member set " +
           std::to_string(members) + " from " + std::to_string(root) +
           ", blocks of " + std::to_string(block) + " bytes at " +
           std::to_string(give) + " and " + std::to_string(get);
  }

  bool sameItem(const Instruction &a, const Instruction &b) {
    const auto &[op, wave, segments, slot, bytes, messages, collective] = a;
    return field("is", std::string(opcodeName(op)),
                 std::string(opcodeName(b.op))) &&
           field("wave", wave, b.wave) && field("slot", slot, b.slot) &&
           this->bytes("bytes", bytes, b.bytes) &&
           field("collective", callText(collective), callText(b.collective)) &&
           list("segment", segments, b.segments) &&
           list("message", messages, b.messages);
  }

  const FamilyNumbers &families;
};

/// Devices that either plan has a program of.
std::vector<uint32_t> devicesOf(const PlanReader &a, const PlanReader &b) {
  std::vector<uint32_t> all;
  std::set_union(a.devices().begin(), a.devices().end(), b.devices().begin(),
                 b.devices().end(), std::back_inserter(all));
  return all;
}

bool hasProgram(const PlanReader &plan, uint32_t device) {
  return std::binary_search(plan.devices().begin(), plan.devices().end(),
                            device);
}

Status comparePrograms(const PlanReader &a, const PlanReader &b,
                       DiffReport &report) {
  FamilyNumbers families(a.common(), b.common());
  report.section("programs of {} more devices differ");
  auto note = [&](uint32_t device, const ProgramDiff &diff) {
    std::string where = diff.where;
    report.compareItem(
        where, device,
        [where](const std::string &list, size_t count) {
          return (count > 1 ? "programs of " : "program of ") +
                 numbered("device", list, count) + where;
        },
        diff.left, diff.right);
  };
  for (uint32_t device : devicesOf(a, b)) {
    ProgramDiff diff(families);
    bool left = hasProgram(a, device), right = hasProgram(b, device);
    if (left != right) {
      diff.left = left ? "present" : "absent";
      diff.right = right ? "present" : "absent";
      note(device, diff);
      continue;
    }
    auto first = a.program(device), second = b.program(device);
    DTRT_RETURN_IF_ERROR(first);
    DTRT_RETURN_IF_ERROR(second);
    if (!diff.same(*first, *second))
      note(device, diff);
  }
  return {};
}

} // namespace

Result<bool> writeDifferences(const PlanReader &a, const PlanReader &b,
                              std::ostream &out, DiffLength length) {
  auto left = collectTraffic(a);
  DTRT_RETURN_IF_ERROR(left);
  auto right = collectTraffic(b);
  DTRT_RETURN_IF_ERROR(right);
  DiffReport report(length);
  compareCommon(a.common(), b.common(), report);
  compareTraffic(*left, *right, report);
  DTRT_RETURN_IF_ERROR(comparePrograms(a, b, report));
  report.write(out);
  return !report.any;
}

} // namespace dtrt
