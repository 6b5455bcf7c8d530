//===- SmallWorldsTest.cpp - All plans of three devices -------------------===//
//
// Every plan of up to three devices, two pieces and three waves is judged three
// times: by the certificate of the compiler, by the verifier from the bytes of
// the file that the compiler makes of it, and by the machine of SmallMachine.h,
// which visits every run. The three agree on each, so no legal plan is refused.
//
// Plans come in families, each of which is whole but for this:
//
//   symmetry      of plans that become one another by other numbers for devices
//                 or pieces, one is judged
//   ends, storage are tried on one device at a time, since no rule relates the
//                 slots or the storage of two; and on one of all plans in which
//                 that device has the same to do
//
//===----------------------------------------------------------------------===//

#include "SmallPlans.h"

#include "dt/Proof/WaitGraph.h"
#include "dtrt/format/ShardView.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

using namespace dt;
using namespace dt::testing;
using dtrt::Opcode;

namespace {

//===----------------------------------------------------------------------===//
// Judges
//===----------------------------------------------------------------------===//

/// One line of the table.
struct Tally {
  std::string family;
  size_t plans = 0, legal = 0, corrupt = 0, stuck = 0;
  size_t rules = 0; // run well, but break a rule that is not about bytes
  size_t legalRefused[2] = {0, 0}, illegalAccepted[2] = {0, 0};
  size_t states = 0;

  size_t disagreements() const {
    return legalRefused[0] + legalRefused[1] + illegalAccepted[0] +
           illegalAccepted[1];
  }
};

std::vector<Tally> &table() {
  static std::vector<Tally> all;
  return all;
}

void printTable() {
  std::printf("%-34s %8s %8s %8s %7s %7s %9s %9s %12s\n", "family", "plans",
              "legal", "corrupt", "stuck", "rules", "prover", "verifier",
              "states");
  Tally sum;
  auto print = [](const Tally &t) {
    std::printf("%-34s %8zu %8zu %8zu %7zu %7zu %4zu/%-4zu %4zu/%-4zu %12zu\n",
                t.family.c_str(), t.plans, t.legal, t.corrupt, t.stuck, t.rules,
                t.legalRefused[0], t.illegalAccepted[0], t.legalRefused[1],
                t.illegalAccepted[1], t.states);
  };
  for (const Tally &t : table()) {
    print(t);
    sum.plans += t.plans, sum.legal += t.legal, sum.corrupt += t.corrupt;
    sum.stuck += t.stuck, sum.rules += t.rules, sum.states += t.states;
    for (int judge = 0; judge < 2; ++judge) {
      sum.legalRefused[judge] += t.legalRefused[judge];
      sum.illegalAccepted[judge] += t.illegalAccepted[judge];
    }
  }
  sum.family = "all";
  print(sum);
  std::printf("prover, verifier: legal plans refused / others accepted\n");
}

class PrintsTable : public ::testing::Environment {
  void TearDown() override { printTable(); }
};
auto *environment = ::testing::AddGlobalTestEnvironment(new PrintsTable);

/// What the machine says of all runs, held back or not.
SmallVerdict judgeRuns(const std::vector<dtrt::RankProgram> &programs) {
  SmallVerdict verdict = exploreAll(programs);
  for (bool descending : {false, true}) {
    if (verdict.kind != SmallVerdict::Kind::Right)
      break;
    SmallVerdict held = exploreHeld(programs, descending);
    verdict.states += held.states;
    verdict.kind = held.kind;
    verdict.text = held.text;
  }
  return verdict;
}

/// Adds one plan to a line of the table. `refusals` are those of the prover and
/// of the verifier, empty where they accept.
void tally(Tally &line, const SmallVerdict &runs, bool keepsRules,
           const std::array<std::string, 2> &refusals,
           const std::function<std::string()> &describe) {
  using Kind = SmallVerdict::Kind;
  ++line.plans;
  line.states += runs.states;
  line.corrupt += runs.kind == Kind::Corrupt;
  line.stuck += runs.kind == Kind::Stuck;
  line.rules += runs.kind == Kind::Right && !keepsRules;
  bool isLegal = runs.kind == Kind::Right && keepsRules;
  line.legal += isLegal;
  for (int judge = 0; judge < 2; ++judge) {
    bool accepts = refusals[judge].empty();
    line.legalRefused[judge] += isLegal && !accepts;
    line.illegalAccepted[judge] += !isLegal && accepts;
    if (isLegal != accepts && line.disagreements() <= 10)
      ADD_FAILURE() << describe() << (judge ? "verifier: " : "prover: ")
                    << (accepts ? "accepts" : refusals[judge])
                    << "\nmachine: " << (isLegal ? "right" : runs.text)
                    << (keepsRules ? "" : ", breaks a rule");
  }
}

std::string describe(const SmallPlan &plan) {
  std::string out;
  auto add = [&](const std::string &text) { out += text + "\n"; };
  auto number = [](int value) { return std::to_string(value); };
  for (unsigned d = 0; d < kMostDevices; ++d)
    add("device " + number(int(d)) + " holds " + number(plan.held[d]) +
        ", wants " + number(plan.wanted[d]));
  for (const SmallArrival &a : plan.arrivals)
    add("piece " + number(a.piece) + ": " + number(a.from) + " -> " +
        number(a.to) + " in wave " + number(a.wave));
  for (const auto &[end, cell] : plan.slots)
    add(std::string(end.receive ? "receives" : "sends") + " on " +
        number(end.device) + ", peer " + number(end.peer) + ", wave " +
        number(end.wave) + ": cell " + number(cell));
  for (const SmallStorage &row : plan.creates)
    add("creates " + number(row.element) + " on " + number(row.device) +
        " before wave " + number(row.wave));
  for (const SmallStorage &row : plan.releases)
    add("releases " + number(row.element) + " on " + number(row.device) +
        " before wave " + number(row.wave));
  return out;
}

/// One message each way per port and wave: a rule of times. Ports are those of
/// a device inside its node and to others.
bool arePortsFree(const SmallPlan &plan) {
  std::set<std::array<int, 4>> used; // wave, device, level, receives
  std::set<std::array<int, 3>> messages;
  for (const SmallArrival &a : plan.arrivals) {
    if (a.wave < 0 || !messages.insert({a.wave, a.from, a.to}).second)
      continue;
    int level = a.from / plan.devicesPerNode != a.to / plan.devicesPerNode;
    if (!used.insert({a.wave, a.from, level, 0}).second ||
        !used.insert({a.wave, a.to, level, 1}).second)
      return false;
  }
  return true;
}

bool areSlotsWithinLimit(const SmallPlan &plan) {
  for (uint8_t device = 0; device < kMostDevices; ++device)
    for (const auto &[end, size] : plan.endsOf(device))
      if (auto given = plan.slots.find(end);
          given != plan.slots.end() && given->second + size > plan.limit)
        return false;
  return true;
}

/// Bytes that are of both sides of a device: of one whose elements do not
/// change, and neither come nor go.
uint64_t stayingBytes(const SmallPlan &plan, uint8_t device) {
  auto isHere = [&](const auto &row) { return row.device == device; };
  bool comesOrGoes =
      std::any_of(plan.creates.begin(), plan.creates.end(), isHere) ||
      std::any_of(plan.releases.begin(), plan.releases.end(), isHere);
  for (const SmallArrival &arrival : plan.arrivals)
    comesOrGoes |= arrival.to == device && arrival.from != device;
  if (plan.mode != dtrt::MemoryMode::Flat || comesOrGoes ||
      plan.held[device] != plan.wanted[device])
    return 0;
  return 4 * uint64_t(__builtin_popcount(plan.held[device]));
}

/// The machine's peaks are those that the certificate and the verifier count,
/// but that it has two places for what stays.
void checkPeaks(const SmallPlan &small, const BuiltPlan &built,
                const SmallVerdict &runs, const dtrt::PlanSummary &summary) {
  TransportPlan placed = built.transport();
  ASSERT_FALSE(placePieces(placed)) << describe(small);
  auto memory = measureMemory(placed, StayingShards(placed));
  uint64_t most = 0;
  for (uint32_t device = 0; device < runs.peaks.size(); ++device) {
    uint64_t peak = runs.peaks[device] - stayingBytes(small, uint8_t(device));
    most = std::max(most, peak);
    ASSERT_EQ(peak, uint64_t(memory[device].peak)) << describe(small);
    ASSERT_EQ(peak,
              dtrt::peakBytes(built.commonPart(), built.allPrograms()[device]))
        << describe(small);
  }
  ASSERT_EQ(most, summary.devicePeak) << describe(small);
}

/// Judges a plan and says whether all its runs are right.
bool judge(const SmallPlan &small, Tally &line) {
  BuiltPlan built(small);
  MaybeFault fault = built.certificate();
  auto file = verifiedFile(built.commonPart(), built.allPrograms());
  SmallVerdict runs = judgeRuns(built.allPrograms());
  tally(line, runs, arePortsFree(small) && areSlotsWithinLimit(small),
        {fault ? fault->text : "", file.ok() ? "" : file.status().message()},
        [&] { return describe(small); });
  bool isRight = runs.kind == SmallVerdict::Kind::Right;
  if (isRight && file.ok())
    checkPeaks(small, built, runs, *file);
  return isRight;
}

/// Ends a family: its line of the table, which has no disagreement.
void finish(Tally line) {
  EXPECT_EQ(line.disagreements(), 0u) << line.family;
  EXPECT_GT(line.plans, line.legal) << line.family;
  EXPECT_GT(line.legal, 0u) << line.family;
  table().push_back(std::move(line));
}

//===----------------------------------------------------------------------===//
// Routes of one piece
//===----------------------------------------------------------------------===//

/// How a piece comes to a device: 0 not at all, 1 as a copy, or in a wave from
/// another device.
using Way = uint8_t;
constexpr Way kCopy = 1;
Way wayFrom(unsigned device, int wave) {
  return Way(2 + kWaves * device + unsigned(wave));
}

/// Where a piece is, where it is wanted, and how it comes to each device: up to
/// twice, the first way being the higher.
struct Route {
  uint8_t held = 0, wanted = 0; // bits of devices
  std::array<std::array<Way, 2>, kMostDevices> ways = {};

  uint64_t code() const {
    uint64_t out = held << 3 | wanted;
    for (const auto &own : ways)
      out = out << 8 | own[0] << 4 | own[1];
    return out;
  }
};

using Permutation = std::array<unsigned, kMostDevices>;

std::vector<Permutation> permutations() {
  Permutation next = {0, 1, 2};
  std::vector<Permutation> out;
  do
    out.push_back(next);
  while (std::next_permutation(next.begin(), next.end()));
  return out;
}

/// The route when device d is called names[d].
Route renamed(const Route &route, const Permutation &names) {
  Route out;
  for (unsigned d = 0; d < kMostDevices; ++d) {
    out.held |= uint8_t((route.held >> d & 1) << names[d]);
    out.wanted |= uint8_t((route.wanted >> d & 1) << names[d]);
    auto &ways = out.ways[names[d]];
    for (int i = 0; i < 2; ++i) {
      Way way = route.ways[d][i];
      ways[i] = way <= kCopy
                    ? way
                    : wayFrom(names[(way - 2) / kWaves], (way - 2) % kWaves);
    }
    if (ways[0] < ways[1])
      std::swap(ways[0], ways[1]);
  }
  return out;
}

/// What routes there are.
struct RouteSpace {
  bool replicas = false; // several devices may hold the piece from the start
  bool unwanted = false; // it may come to where it is not wanted
  bool twice = false;    // it may come twice
};

std::vector<Route> allRoutes(RouteSpace space) {
  auto waysTo = [&](unsigned d) {
    std::vector<Way> all = {0, kCopy};
    for (unsigned from = 0; from < kMostDevices; ++from)
      for (int wave = 0; wave < kWaves && from != d; ++wave)
        all.push_back(wayFrom(from, wave));
    std::vector<std::array<Way, 2>> out;
    for (Way way : all)
      out.push_back({way, 0});
    for (Way second : all)
      for (Way first : all)
        if (space.twice && 0 < second && second < first)
          out.push_back({first, second});
    return out;
  };
  std::vector<Route> out;
  std::function<void(Route, unsigned)> extend = [&](Route route, unsigned d) {
    if (d == kMostDevices) {
      if (route.wanted)
        out.push_back(route);
      return;
    }
    bool isWanted = route.wanted >> d & 1;
    for (const auto &ways : waysTo(d)) {
      if (ways[0] && !isWanted && !space.unwanted)
        continue;
      route.ways[d] = ways;
      extend(route, d + 1);
    }
  };
  for (unsigned held = 1; held < 1 << kMostDevices; ++held)
    for (unsigned wanted = 1; wanted < 1 << kMostDevices; ++wanted)
      if (space.replicas || __builtin_popcount(held) == 1)
        extend({uint8_t(held), uint8_t(wanted), {}}, 0);
  return out;
}

void addRoute(const Route &route, SmallPlan &plan) {
  auto piece = uint8_t(plan.pieces++);
  for (uint8_t d = 0; d < kMostDevices; ++d) {
    plan.held[d] |= uint8_t((route.held >> d & 1) << piece);
    plan.wanted[d] |= uint8_t((route.wanted >> d & 1) << piece);
    for (Way way : route.ways[d]) {
      if (way == kCopy)
        plan.arrivals.push_back({piece, d, d, -1});
      else if (way > kCopy)
        plan.arrivals.push_back({piece, uint8_t((way - 2) / kWaves), d,
                                 int8_t((way - 2) % kWaves)});
    }
  }
}

SmallPlan planOf(const std::vector<const Route *> &routes) {
  SmallPlan plan;
  plan.pieces = 0;
  for (const Route *route : routes)
    addRoute(*route, plan);
  return plan;
}

/// Of routes that are one another by other names of devices, the first.
bool isFirstOfItsKind(const Route &route) {
  static const std::vector<Permutation> all = permutations();
  return std::all_of(all.begin(), all.end(), [&](const Permutation &names) {
    return route.code() <= renamed(route, names).code();
  });
}

bool isRightByItself(const Route &route) {
  BuiltPlan built(planOf({&route}));
  return judgeRuns(built.allPrograms()).kind == SmallVerdict::Kind::Right;
}

//===----------------------------------------------------------------------===//
// Routes of two pieces
//===----------------------------------------------------------------------===//

/// Routes with one source and one way each, and what they are under all names
/// of devices.
struct KnownRoute {
  Route route;
  std::vector<uint64_t> codes; // by permutation
  bool isRight = false;
};

const std::vector<KnownRoute> &knownRoutes() {
  static const std::vector<KnownRoute> all = [] {
    std::vector<KnownRoute> out;
    for (const Route &route : allRoutes({})) {
      out.push_back({route, {}, isRightByItself(route)});
      for (const Permutation &names : permutations())
        out.back().codes.push_back(renamed(route, names).code());
    }
    return out;
  }();
  return all;
}

/// Of pairs that are one another by other names, the first.
bool isFirstOfItsKind(const KnownRoute &a, const KnownRoute &b) {
  auto codeOf = [&](size_t i) { return std::minmax(a.codes[i], b.codes[i]); };
  auto own = codeOf(0);
  for (size_t i = 1; i < a.codes.size(); ++i)
    if (codeOf(i) < own)
      return false;
  return true;
}

/// Calls fn(plan) for the plans of two pieces. `right`: only those of which
/// both pieces go right by themselves.
template <typename Fn> void forEachPair(bool right, Fn fn) {
  const std::vector<KnownRoute> &all = knownRoutes();
  for (size_t a = 0; a < all.size(); ++a)
    for (size_t b = a; b < all.size(); ++b)
      if ((!right || (all[a].isRight && all[b].isRight)) &&
          isFirstOfItsKind(all[a], all[b]))
        fn(planOf({&all[a].route, &all[b].route}));
}

//===----------------------------------------------------------------------===//
// What one device has to do
//===----------------------------------------------------------------------===//

/// What is alike for a device in plans that are alike for it.
std::string shapeOf(const SmallPlan &plan, uint8_t device, bool withStorage) {
  std::string out;
  int last = -1;
  char group = 'a';
  for (const auto &[end, size] : plan.endsOf(device)) {
    group = char(group + (last >= 0 && end.wave != last));
    last = end.wave;
    out += std::string(1, group) + (end.receive ? "<" : ">");
    for (const SmallArrival &a : plan.arrivals)
      if (a.wave == end.wave && a.from == (end.receive ? end.peer : device) &&
          a.to == (end.receive ? device : end.peer))
        out += std::to_string(a.piece) +
               (plan.held[a.from] >> a.piece & 1 ? "s" : "f");
    out += " ";
  }
  if (withStorage) {
    out += "held " + std::to_string(plan.held[device]) + " wanted " +
           std::to_string(plan.wanted[device]) + " copied";
    for (const SmallArrival &a : plan.arrivals)
      if (a.wave < 0 && a.to == device)
        out += " " + std::to_string(a.piece);
  }
  return out;
}

/// Calls fn(plan, device) for one plan of each shape of a device, in plans that
/// are right.
template <typename Fn> size_t forEachShape(bool withStorage, Fn fn) {
  std::set<std::string> known;
  auto visit = [&](const SmallPlan &plan) {
    if (!arePortsFree(plan))
      return;
    for (uint8_t device = 0; device < kMostDevices; ++device)
      if (known.insert(shapeOf(plan, device, withStorage)).second)
        fn(plan, device);
  };
  for (const KnownRoute &known : knownRoutes())
    if (known.isRight)
      visit(planOf({&known.route}));
  forEachPair(/*right=*/true, visit);
  return known.size();
}

/// Calls fn(choice) for all choices of one of counts[i] each.
void forEachChoice(const std::vector<size_t> &counts,
                   const std::function<void(const std::vector<size_t> &)> &fn) {
  std::vector<size_t> choice(counts.size(), 0);
  while (true) {
    fn(choice);
    size_t i = 0;
    while (i < counts.size() && ++choice[i] == counts[i])
      choice[i++] = 0;
    if (i == counts.size())
      return;
  }
}

} // namespace

TEST(SmallWorlds, OnePiece) {
  Tally line = {"one piece"};
  for (const Route &route : allRoutes({true, true, false}))
    if (isFirstOfItsKind(route))
      judge(planOf({&route}), line);
  finish(line);
}

TEST(SmallWorlds, OnePieceThatMayComeTwice) {
  Tally line = {"one piece, may come twice"};
  for (const Route &route : allRoutes({false, false, true}))
    if (isFirstOfItsKind(route))
      judge(planOf({&route}), line);
  finish(line);
}

TEST(SmallWorlds, TwoPieces) {
  Tally line = {"two pieces"};
  forEachPair(/*right=*/false,
              [&](const SmallPlan &plan) { judge(plan, line); });
  finish(line);
}

// Ports of two levels: groups may have two messages each way.
TEST(SmallWorlds, TwoPiecesAndTwoNodes) {
  Tally line = {"two pieces, two nodes"};
  const std::vector<KnownRoute> &all = knownRoutes();
  for (size_t a = 0; a < all.size(); ++a)
    for (size_t b = a; b < all.size(); ++b)
      if (all[a].isRight && all[b].isRight) {
        SmallPlan plan = planOf({&all[a].route, &all[b].route});
        plan.devicesPerNode = 2;
        judge(plan, line);
      }
  finish(line);
}

// Every end is received or sent in place, or lies anywhere in four cells, or
// beyond the limit; of a device with five ends or six, anywhere in three cells.
TEST(SmallWorlds, Ends) {
  Tally line = {"staged and direct ends"};
  forEachShape(false, [&](SmallPlan plan, uint8_t device) {
    auto ends = plan.endsOf(device);
    bool isMany = ends.size() > 4;
    std::vector<std::vector<int>> cells;
    std::vector<size_t> counts;
    for (const auto &[end, size] : ends) {
      std::vector<int> own = {kDirect};
      for (int cell = 0; cell + size <= (isMany ? 3 : 4); ++cell)
        own.push_back(cell);
      if (!isMany)
        own.push_back(int(plan.limit) + 1 - size);
      counts.push_back(own.size());
      cells.push_back(std::move(own));
    }
    forEachChoice(counts, [&](const std::vector<size_t> &choice) {
      for (size_t i = 0; i < ends.size(); ++i)
        plan.slots[ends[i].first] = cells[i][choice[i]];
      judge(plan, line);
    });
  });
  finish(line);
}

// Flat mode: every element of a device's source goes and of its destination
// comes at any place of its program, or never; with all its messages staged, or
// all in place that can be.
TEST(SmallWorlds, Storage) {
  Tally line = {"storage that comes and goes"};
  forEachShape(true, [&](SmallPlan plan, uint8_t device) {
    plan.mode = MemoryMode::Flat;
    std::vector<int> places; // waves of the device's groups, and the end
    for (const auto &[end, size] : plan.endsOf(device))
      if (places.empty() || places.back() != end.wave)
        places.push_back(end.wave);
    places.push_back(kWaves);
    std::vector<uint8_t> held, wanted;
    for (uint8_t piece = 0; piece < plan.pieces; ++piece) {
      if (plan.held[device] >> piece & 1)
        held.push_back(piece);
      if (plan.wanted[device] >> piece & 1)
        wanted.push_back(piece);
    }
    std::vector<size_t> counts(held.size(), places.size() + 1);
    counts.resize(held.size() + wanted.size(), places.size() + 2);
    auto tryAll = [&] {
      forEachChoice(counts, [&](const std::vector<size_t> &choice) {
        plan.releases.clear();
        plan.creates.clear();
        for (size_t i = 0; i < held.size(); ++i)
          if (size_t at = choice[i])
            plan.releases.push_back({device, held[i], places[at - 1]});
        for (size_t i = 0; i < wanted.size(); ++i)
          if (size_t at = choice[held.size() + i])
            plan.creates.push_back(
                {device, wanted[i], at == 1 ? -1 : places[at - 2]});
        judge(plan, line);
      });
    };
    tryAll();
    for (const auto &[end, size] : plan.endsOf(device))
      if (size == 1)
        plan.slots[end] = kDirect;
    if (!plan.slots.empty())
      tryAll();
  });
  finish(line);
}

//===----------------------------------------------------------------------===//
// Programs whose ends of messages stand anywhere
//===----------------------------------------------------------------------===//

namespace {

/// A message whose ends stand in waves of their own; kWaves: it lacks one.
struct LooseMessage {
  uint8_t from = 0, to = 0, sent = 0, received = 0;
  unsigned code() const {
    return ((from * kMostDevices + to) * 4u + sent) * 4u + received;
  }
};
using LoosePlan = std::vector<LooseMessage>;

std::vector<unsigned> codesOf(const LoosePlan &plan, const Permutation &names) {
  std::vector<unsigned> out;
  for (LooseMessage message : plan) {
    message.from = uint8_t(names[message.from]);
    message.to = uint8_t(names[message.to]);
    out.push_back(message.code());
  }
  std::sort(out.begin(), out.end());
  return out;
}

bool isFirstOfItsKind(const LoosePlan &plan) {
  static const std::vector<Permutation> all = permutations();
  auto own = codesOf(plan, all[0]);
  return std::all_of(all.begin(), all.end(), [&](const Permutation &names) {
    return own <= codesOf(plan, names);
  });
}

/// Message k carries element k, from its place to its place.
std::vector<dtrt::RankProgram> programsOf(const LoosePlan &plan) {
  std::vector<dtrt::RankProgram> programs(kMostDevices);
  auto shardOf = [&](std::vector<dtrt::ShardRecord> &shards, int64_t element) {
    if (shards.empty())
      shards.push_back({0, 1, {{}}, false, {}});
    auto &intervals = shards[0].dims[0];
    if (!intervals.empty() && intervals.back().hi == element)
      ++intervals.back().hi;
    else
      intervals.push_back({element, element + 1});
  };
  for (uint32_t d = 0; d < kMostDevices; ++d) {
    dtrt::RankProgram &program = programs[d];
    program.device = d;
    program.sourceRank = program.destinationRank = d;
    std::array<dtrt::Instruction, kWaves> groups;
    for (size_t k = 0; k < plan.size(); ++k)
      for (bool receive : {false, true}) {
        const LooseMessage &loose = plan[k];
        if ((receive ? loose.to : loose.from) != d)
          continue;
        shardOf(receive ? program.destination : program.source, int64_t(k));
        int wave = receive ? loose.received : loose.sent;
        if (wave == kWaves)
          continue;
        dtrt::Message message;
        message.receive = receive;
        message.peer = receive ? loose.from : loose.to;
        message.bytes = 4;
        message.direct = true;
        message.segment = {
            0,
            1,
            receive ? dtrt::Side::Destination : dtrt::Side::Source,
            0,
            {int64_t(k)},
            {1}};
        groups[wave].messages.push_back(message);
      }
    for (int wave = 0; wave < kWaves; ++wave)
      if (!groups[wave].messages.empty()) {
        groups[wave].op = Opcode::Group;
        groups[wave].wave = wave;
        program.instructions.push_back(groups[wave]);
      }
  }
  return programs;
}

/// One message each way per device and wave.
bool arePortsFree(const LoosePlan &plan) {
  std::set<std::array<int, 3>> used; // wave, device, receives
  for (const LooseMessage &message : plan)
    if ((message.sent < kWaves &&
         !used.insert({message.sent, message.from, 0}).second) ||
        (message.received < kWaves &&
         !used.insert({message.received, message.to, 1}).second))
      return false;
  return true;
}

/// What a plan is in the execution model: a message stands in one wave at both
/// of its ends. That it is alone there for its pair is a matter of ports here.
bool keepsRules(const LoosePlan &plan) {
  return arePortsFree(plan) &&
         std::all_of(plan.begin(), plan.end(), [](const LooseMessage &m) {
           return m.sent == m.received && m.sent < kWaves;
         });
}

/// What the prover says of programs: of how they wait. What messages carry, and
/// ports, it judges at the transport level.
std::string proverRefusal(const std::vector<dtrt::RankProgram> &programs,
                          const SmallVerdict &runs) {
  std::vector<GroupMessage> messages;
  std::vector<DeviceGroups> devices;
  for (const dtrt::RankProgram &program : programs) {
    devices.push_back({program.device, {}});
    for (const dtrt::Instruction &group : program.instructions) {
      devices.back().groups.emplace_back();
      for (const dtrt::Message &message : group.messages) {
        devices.back().groups.back().push_back(messages.size());
        messages.push_back(
            {program.device, message.peer, message.receive, group.wave});
      }
    }
  }
  bool waits = !findWait(messages, devices).empty();
  // On a transport that holds nothing back it is exact by itself.
  if (runs.kind != SmallVerdict::Kind::Corrupt) {
    EXPECT_EQ(waits, runs.kind == SmallVerdict::Kind::Stuck);
  }
  if (waits)
    return "ranks wait on each other";
  for (auto [receive, send] : meetings(messages))
    if (messages[receive].wave != messages[send].wave)
      return "ends in different waves";
  return runs.kind == SmallVerdict::Kind::Corrupt ? "not asked" : "";
}

} // namespace

// Messages whose two ends stand in any waves, or lack one: programs that no
// transport level makes, and that wait on each other.
TEST(SmallWorlds, Programs) {
  Tally line = {"programs, ends in any waves"};
  std::function<void(LoosePlan &, size_t, unsigned, bool)> extend =
      [&](LoosePlan &plan, size_t most, unsigned least, bool mayLack) {
        // Of four messages none lacks an end; of fewer any may.
        bool isNew = mayLack ? !plan.empty() : plan.size() == most;
        if (isNew && isFirstOfItsKind(plan)) {
          auto programs = programsOf(plan);
          SmallVerdict free = exploreAll(programs);
          std::string prover = proverRefusal(programs, free);
          auto common = smallCommon(kMostDevices, unsigned(plan.size()), 8, 64);
          auto file = verifiedFile(common, programs);
          if (prover.empty() && !arePortsFree(plan))
            prover = "ports";
          tally(line, judgeRuns(programs), keepsRules(plan),
                {prover, file.ok() ? "" : file.status().message()}, [&] {
                  std::string out;
                  for (const LooseMessage &m : plan)
                    out += std::to_string(m.from) + " -> " +
                           std::to_string(m.to) + ": wave " +
                           std::to_string(m.sent) + " to wave " +
                           std::to_string(m.received) + "\n";
                  return out;
                });
        }
        if (plan.size() == most)
          return;
        for (uint8_t from = 0; from < kMostDevices; ++from)
          for (uint8_t to = 0; to < kMostDevices; ++to)
            for (uint8_t sent = 0; sent <= kWaves - !mayLack; ++sent)
              for (uint8_t received = 0; received <= kWaves - !mayLack;
                   ++received) {
                LooseMessage message = {from, to, sent, received};
                if (from == to || message.code() < least ||
                    (sent == kWaves && received == kWaves))
                  continue;
                plan.push_back(message);
                extend(plan, most, message.code(), mayLack);
                plan.pop_back();
              }
      };
  LoosePlan plan;
  extend(plan, 3, 0, /*mayLack=*/true);
  extend(plan, 4, 0, /*mayLack=*/false);
  finish(line);
}
