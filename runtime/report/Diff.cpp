//===- Diff.cpp - What differs between two plans, by meaning --------------===//
//
// Two plans are the same when all is the same that a reader is told, but for
// who made the plan and from which request: compiler, solver, hash of the
// request and minor of the format. How a section stores it has no meaning.
// Numbers that sum things up come first, then each device's program up to its
// first difference.
//
//===----------------------------------------------------------------------===//

#include "dtrt/Report.h"
#include "dtrt/ShardView.h"
#include "dtrt/Text.h"

#include <algorithm>
#include <charconv>
#include <ostream>

namespace dtrt {

namespace {

/// Edges, waves, devices or links that are listed one by one.
constexpr size_t kMaxListed = 10;

/// Exact: different numbers have different texts.
template <typename T> std::string textOf(const T &value) {
  std::ostringstream text;
  text << value;
  return text.str();
}
std::string textOf(double value) {
  char text[32]; // the shortest that reads as this number has 24
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}
std::string textOf(bool value) { return value ? "yes" : "no"; }
std::string textOf(const Range &range) {
  return "[" + std::to_string(range.lo) + ":" + std::to_string(range.hi) + ")";
}
std::string textOf(const LeadingDim &dim);
std::string textOf(const StateInfo &state);
template <typename T> std::string textOf(const std::vector<T> &list) {
  std::string text = "[";
  for (size_t i = 0; i < list.size(); ++i)
    text += (i > 0 ? ", " : "") + textOf(list[i]);
  return text + "]";
}

/// What is compared, and how it reads.
struct Row {
  std::string name, value;
};
using Rows = std::vector<Row>;

class Differences {
public:
  explicit Differences(std::ostream &out) : out(out) {}

  void compare(const std::string &what, const std::string &a,
               const std::string &b) {
    if (a == b)
      return;
    any = true;
    std::string left = shortened(a), right = shortened(b);
    if (left == right) // they differ further on
      out << what << ": they differ behind " << left << "\n";
    else
      out << what << ": " << left << " -> " << right << "\n";
  }

  void compareRows(const Rows &a, const Rows &b) {
    for (size_t i = 0; i < a.size(); ++i)
      compare(a[i].name, a[i].value, b[i].value);
  }

  /// Of many lines names the first that differs.
  void compareText(const std::string &what, const std::string &a,
                   const std::string &b) {
    auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
    size_t line = size_t(std::count(a.begin(), at, '\n'));
    size_t start = a.rfind('\n', size_t(at - a.begin()) - 1) + 1;
    if (at == a.begin())
      start = 0;
    auto lineOf = [&](const std::string &text) {
      size_t end = text.find('\n', start);
      return end == std::string::npos ? text.substr(start) + " (the end)"
                                      : text.substr(start, end - start);
    };
    compare(what + ", line " + std::to_string(line + 1), lineOf(a), lineOf(b));
  }

  /// Compares two maps from keys to numbers; absent means zero.
  template <typename Map, typename Name, typename Value>
  void compareMaps(const char *what, const Map &a, const Map &b, Name name,
                   Value value) {
    size_t differing = 0;
    auto report = [&](const auto &key, uint64_t left, uint64_t right) {
      if (left != right && ++differing <= kMaxListed)
        compare(what + name(key), textOf(left), textOf(right));
    };
    for (const auto &[key, left] : a) {
      auto right = b.find(key);
      report(key, value(left), right == b.end() ? 0 : value(right->second));
    }
    for (const auto &[key, right] : b)
      if (!a.count(key))
        report(key, 0, value(right));
    if (differing > kMaxListed)
      out << what << "of " << differing - kMaxListed << " more differ\n";
  }

  bool any = false;

private:
  std::ostream &out;
};

//===----------------------------------------------------------------------===//
// The common part. Structured bindings name every field of a struct, so that a
// new one does not compile before it is compared.
//===----------------------------------------------------------------------===//

std::string textOf(const StateInfo &state) {
  const auto &[name, source, destination, madeFrom, inSource, inDestination] =
      state;
  std::string text =
      name + ":" + dtypeName(source) + "->" + dtypeName(destination);
  if (madeFrom >= 0)
    text += " made from " + std::to_string(madeFrom);
  if (!inSource)
    text += " not in the source";
  return inDestination ? text : text + " not in the destination";
}

std::string textOf(const LeadingDim &dim) {
  const auto &[first, step, count] = dim;
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
                    Differences &differences) {
  std::map<std::string, uint64_t> left, right;
  std::map<std::string, std::string> texts;
  for (auto [common, map] : {std::make_pair(&a, &left), {&b, &right}})
    for (const Family &family : common->families) {
      std::string key = keyOf(family);
      ++(*map)[key];
      texts.emplace(std::move(key), textOf(family));
    }
  differences.compareMaps(
      "tensors ", left, right,
      [&](const std::string &key) { return shortened(texts[key]); },
      [](uint64_t count) { return count; });
}

void addRows(const Cluster &cluster, Rows &rows) {
  const auto &[perNode, intra, inter, latency, pack, packLaunch, links,
               perNic] = cluster;
  rows.push_back({"devices per node", textOf(perNode)});
  rows.push_back({"devices per NIC", textOf(perNic)});
  rows.push_back({"GBps inside a node", textOf(intra)});
  rows.push_back({"GBps between nodes", textOf(inter)});
  rows.push_back({"latency in us", textOf(latency)});
  rows.push_back({"GBps of packs", textOf(pack)});
  rows.push_back({"start of a pack in us", textOf(packLaunch)});
  rows.push_back({"links", textOf(links.size())});
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
void compareLinks(const Cluster &a, const Cluster &b,
                  Differences &differences) {
  size_t differing = 0;
  for (size_t i = 0; i < std::min(a.links.size(), b.links.size()); ++i) {
    std::string left = textOf(a.links[i]), right = textOf(b.links[i]);
    if (left != right && ++differing <= kMaxListed)
      differences.compare("link " + std::to_string(i), left, right);
  }
}

void addRows(const PlanSummary &summary, Rows &rows) {
  const auto &[bytesDestination, bytesLocal, bytesWire, bytesWireLowerBound,
               bytesInterNode, bytesInterNodeLowerBound, timePredicted,
               timeLowerBound, mode, stagingLimit, stagingPeak, devicePeak,
               deviceLimit, sourceMax, destinationMax, waves, messages,
               collectives, coverage, deadlockFree, memorySafe, solver,
               granularity] = summary;
  (void)solver; // who proved it
  rows.push_back({"destination bytes", textOf(bytesDestination)});
  rows.push_back({"local bytes", textOf(bytesLocal)});
  rows.push_back({"wire bytes", textOf(bytesWire)});
  rows.push_back({"lower bound of wire bytes", textOf(bytesWireLowerBound)});
  rows.push_back({"inter-node bytes", textOf(bytesInterNode)});
  rows.push_back(
      {"lower bound of inter-node bytes", textOf(bytesInterNodeLowerBound)});
  rows.push_back({"waves", textOf(waves)});
  rows.push_back({"messages", textOf(messages)});
  rows.push_back({"collectives", textOf(collectives)});
  rows.push_back({"staging limit", textOf(stagingLimit)});
  rows.push_back({"staging peak", textOf(stagingPeak)});
  rows.push_back({"device limit", textOf(deviceLimit)});
  rows.push_back({"device peak", textOf(devicePeak)});
  rows.push_back({"most source bytes", textOf(sourceMax)});
  rows.push_back({"most destination bytes", textOf(destinationMax)});
  rows.push_back({"predicted seconds", textOf(timePredicted)});
  rows.push_back({"lower bound of seconds", textOf(timeLowerBound)});
  rows.push_back({"memory mode", memoryModeName(mode, granularity)});
  rows.push_back({"proof of coverage", coverage});
  rows.push_back({"proof of freedom from deadlock", deadlockFree});
  rows.push_back({"proof of memory", memorySafe});
}

Rows rowsOf(const PlanCommon &common) {
  const auto &[compilerVersion, requestHash, sourceFingerprint,
               destinationFingerprint, sourceWorld, destinationWorld,
               sourceDevices, destinationDevices, families, cluster, summary,
               sourceLayout, destinationLayout] = common;
  (void)compilerVersion, (void)requestHash;    // who made it, and from what
  (void)families;                              // compareTensors
  (void)sourceLayout, (void)destinationLayout; // compareText
  Rows rows = {
      {"source world", textOf(sourceWorld)},
      {"destination world", textOf(destinationWorld)},
      {"source layout", sourceFingerprint},
      {"destination layout", destinationFingerprint},
      {"source devices", textOf(sourceDevices)},
      {"destination devices", textOf(destinationDevices)},
  };
  addRows(cluster, rows);
  addRows(summary, rows);
  return rows;
}

void compareTraffic(const PlanTraffic &a, const PlanTraffic &b,
                    Differences &differences) {
  differences.compareMaps(
      "bytes ", a.edges, b.edges,
      [](const auto &edge) {
        return "from " + std::to_string(edge.first) + " to " +
               std::to_string(edge.second);
      },
      [](uint64_t bytes) { return bytes; });
  differences.compareMaps(
      "bytes ", a.waves, b.waves,
      [](int32_t wave) { return "in wave " + std::to_string(wave); },
      [](const WaveTraffic &wave) { return wave.bytes; });
  auto onDevice = [](uint32_t device) {
    return "on device " + std::to_string(device);
  };
  differences.compareMaps(
      "memory peak ", a.devices, b.devices, onDevice,
      [](const DeviceTraffic &device) { return device.peakBytes; });
  differences.compareMaps(
      "local bytes ", a.devices, b.devices, onDevice,
      [](const DeviceTraffic &device) { return device.copied; });
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
           field("staging bytes", stagingBytes, b.stagingBytes) &&
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
    const auto &[own, states, dims, flat, range] = a;
    return family(own, b.family) && field("states", states, b.states) &&
           field("dims", dims, b.dims) && field("flat", flat, b.flat) &&
           (!flat || field("range", range, b.range));
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
           field("peer", peer, b.peer) && field("bytes", bytes, b.bytes) &&
           field("is direct", direct, b.direct) &&
           (direct ? sameItem(segment, b.segment)
                   : field("slot", slot, b.slot));
  }

  bool sameItem(const Instruction &a, const Instruction &b) {
    const auto &[op, wave, segments, slot, bytes, messages] = a;
    return field("is", std::string(opcodeName(op)),
                 std::string(opcodeName(b.op))) &&
           field("wave", wave, b.wave) && field("slot", slot, b.slot) &&
           field("bytes", bytes, b.bytes) &&
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
                       std::ostream &out, Differences &differences) {
  FamilyNumbers families(a.common(), b.common());
  size_t differing = 0;
  auto report = [&](uint32_t device, const ProgramDiff &diff) {
    differences.any = true;
    if (++differing <= kMaxListed)
      differences.compare("program of device " + std::to_string(device) +
                              diff.where,
                          diff.left, diff.right);
  };
  for (uint32_t device : devicesOf(a, b)) {
    ProgramDiff diff(families);
    bool left = hasProgram(a, device), right = hasProgram(b, device);
    if (left != right) {
      diff.left = left ? "present" : "absent";
      diff.right = right ? "present" : "absent";
      report(device, diff);
      continue;
    }
    auto first = a.program(device), second = b.program(device);
    DTRT_RETURN_IF_ERROR(first);
    DTRT_RETURN_IF_ERROR(second);
    if (!diff.same(*first, *second))
      report(device, diff);
  }
  if (differing > kMaxListed)
    out << "programs of " << differing - kMaxListed << " more devices differ\n";
  return {};
}

} // namespace

Result<bool> writeDifferences(const PlanReader &a, const PlanReader &b,
                              std::ostream &out) {
  auto left = collectTraffic(a);
  DTRT_RETURN_IF_ERROR(left);
  auto right = collectTraffic(b);
  DTRT_RETURN_IF_ERROR(right);
  Differences differences(out);
  compareTensors(a.common(), b.common(), differences);
  differences.compareRows(rowsOf(a.common()), rowsOf(b.common()));
  differences.compareText("source layout in words", a.common().sourceLayout,
                          b.common().sourceLayout);
  differences.compareText("destination layout in words",
                          a.common().destinationLayout,
                          b.common().destinationLayout);
  compareLinks(a.common().cluster, b.common().cluster, differences);
  compareTraffic(*left, *right, differences);
  DTRT_RETURN_IF_ERROR(comparePrograms(a, b, out, differences));
  return !differences.any;
}

} // namespace dtrt
