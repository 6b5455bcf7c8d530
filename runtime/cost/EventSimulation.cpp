//===- EventSimulation.cpp - A transition, event by event -----------------===//

#include "dtrt/cost/EventSimulation.h"

#include "dtrt/cost/FairShares.h"
#include "dtrt/cost/LinkRates.h"
#include "dtrt/types/DeviceIndex.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <tuple>
#include <unordered_map>

namespace dtrt {

SpentSeconds &SpentSeconds::operator+=(const SpentSeconds &other) {
  wire += other.wire;
  latency += other.latency;
  launch += other.launch;
  copies += other.copies;
  sharing += other.sharing;
  slow += other.slow;
  jitter += other.jitter;
  return *this;
}

namespace {

using Kind = DeviceStep::Kind;

constexpr uint32_t kNone = UINT32_MAX;
/// Looks at who shares a resource with whom: a few per message in plans that
/// keep the port rule.
constexpr uint64_t kLooks = 16 << 20, kLooksPerActivity = 1024;

/// A number in [-1, 1) that depends on seed and item alone: splitmix64, whose
/// outputs pass for independent (Steele, Lea and Flood, OOPSLA 2014).
double drawn(uint64_t seed, uint64_t item) {
  auto mix = [](uint64_t z) {
    z += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  };
  uint64_t bits = mix(mix(seed) ^ item);
  return double(bits >> 11) * 0x1p-52 - 1;
}

//===----------------------------------------------------------------------===//
// How long things take by themselves
//===----------------------------------------------------------------------===//

/// A message or a copy if nothing else were there.
struct Alone {
  double full = 0;   // seconds at full rate
  double jitter = 1; // of that, what was drawn
  double slow = 1;   // how many times slower its device or link is
  /// Of its port's time, what its channels can use at most.
  double most = 1;
};

class Durations {
public:
  Durations(const SimulatedPlan &plan, const Cluster &cluster,
            const SimulationOptions &options)
      : plan(plan), cluster(cluster), options(options), rates(cluster),
        slowness(plan.programs().size(), 1) {
    for (const SlowDevice &slow : options.slowDevices)
      for (size_t i = 0; i < slowness.size(); ++i)
        if (plan.programs()[i].device == slow.device)
          slowness[i] *= slow.factor;
    for (const SlowLink &slow : options.slowLinks)
      slowLinks.emplace(std::make_pair(slow.from, slow.to), 1.0)
          .first->second *= slow.factor;
  }

  double slow(uint32_t device) const { return slowness[device]; }
  Alone message(uint32_t number) const {
    const SimulatedPlan::Message &m = plan.messages()[number];
    int64_t from = deviceOf(m.source), to = deviceOf(m.destination);
    Alone alone;
    alone.full = double(m.bytes) / rates.bytesPerSecond(from, to);
    alone.most =
        rates.bytesPerSecond(from, to) / rates.linkBytesPerSecond(from, to);
    alone.jitter = jitterOf(number);
    alone.slow = std::max(slowness[m.source], slowness[m.destination]);
    auto link = slowLinks.find({from, to});
    if (link != slowLinks.end())
      alone.slow = std::max(alone.slow, link->second);
    return alone;
  }
  /// Copies are numbered by themselves: the `number`th of its device.
  Alone copy(uint32_t device, uint32_t number, int64_t bytes) const {
    return {cluster.packSeconds(bytes),
            jitterOf((uint64_t(device) + 1) << 32 | number), slowness[device]};
  }

private:
  int64_t deviceOf(uint32_t number) const {
    return plan.programs()[number].device;
  }
  double jitterOf(uint64_t item) const {
    return 1 + options.jitter * drawn(options.seed, item);
  }

  const SimulatedPlan &plan;
  const Cluster &cluster;
  const SimulationOptions &options;
  const LinkRates rates;
  std::vector<double> slowness; // by number of device
  std::map<std::pair<int64_t, int64_t>, double> slowLinks;
};

//===----------------------------------------------------------------------===//
// What happens
//===----------------------------------------------------------------------===//

/// A message or a copy, from its beginning to its end.
struct Activity {
  double offered = -1; // message: by the first of its ends
  double begin = 0, end = -1;
  uint32_t before = kNone;   // whose end let it begin
  uint32_t firstEnd = kNone; // message: who offered it first
};

/// Who is told when a copy has ended.
enum class CopyRole : uint8_t { Inline, BesideGroup, LocalLane };

struct Copy {
  Kind kind = Kind::Local;
  CopyRole role = CopyRole::Inline;
  uint32_t device = 0, number = 0; // of its device
  int32_t wave = -1;
  int64_t bytes = 0;
};

/// Time in which at least one of several is under way.
struct Busy {
  uint32_t open = 0;
  double since = 0, seconds = 0;
  void begin(double now) {
    if (open++ == 0)
      since = now;
  }
  void end(double now) {
    if (--open == 0)
      seconds += now - since;
  }
};

struct DeviceState {
  size_t at = 0;              // step
  uint32_t last = kNone;      // the activity that let it come there
  bool isOffered = false;     // its group
  uint32_t openMessages = 0;  // likewise
  bool hasCopyBeside = false; // of its group, under way
  size_t besideAt = 0;        // the next of these
  std::vector<size_t> local;  // steps of the local lane, from `localAt` on
  size_t localAt = 0;
  bool waitsForLocal = false;
  uint32_t copies = 0; // so far
  Busy carrying, copying;
  double waiting = 0, keptWaiting = 0, end = 0;
  std::unordered_map<uint32_t, double> waitedFor; // by number of device
  bool localIsBusy() const { return localAt < local.size(); }
};

struct Event {
  /// Of those of one time, in this order.
  enum class Kind : uint8_t { Ended, LatencyOver, Offered };
  double time = 0;
  Kind kind = Kind::Ended;
  uint32_t item = 0; // user of a share, message, device
  uint32_t version = 0;
  bool operator<(const Event &other) const { // std::priority_queue: last first
    return std::make_tuple(time, kind, item, version) >
           std::make_tuple(other.time, other.kind, other.item, other.version);
  }
};

class Engine {
public:
  Engine(const SimulatedPlan &plan, const Cluster &cluster,
         const SimulationOptions &options)
      : plan(plan), cluster(cluster), durations(plan, cluster, options),
        latency(options.latencyUs * 1e-6), launch(options.launchUs * 1e-6),
        activities(plan.messages().size()), devices(plan.programs().size()),
        shares(numberPorts()) {}

  Status run();
  SimulationResult result() const;

private:
  /// The resources of each port, NIC and copy engine.
  enum Port : uint32_t { NicOut, NicIn, IslandOut, IslandIn, CopyEngine };
  static constexpr uint32_t kPorts = 5;

  size_t numberPorts();
  bool isInterNode(uint32_t message) const;
  uint32_t outOf(uint32_t message) const;
  uint32_t into(uint32_t message) const;
  bool isMessage(uint32_t activity) const {
    return activity < plan.messages().size();
  }
  const SimulatedPlan::Step &step(uint32_t device) const {
    return plan.steps()[devices[device].at];
  }
  Status stuck(uint32_t device) const;

  void advance(uint32_t device);
  bool beginBeside(uint32_t device, uint32_t before);
  void offer(uint32_t device);
  void endGroup(uint32_t device, uint32_t activity);
  void beginMessage(uint32_t message, uint32_t device);
  void beginCopy(uint32_t device, Kind kind, CopyRole role, int32_t wave,
                 int64_t bytes, uint32_t before);
  void beginLocal(uint32_t device, uint32_t before);
  void flow(uint32_t activity, const Alone &alone, uint32_t a, uint32_t b);
  void setRates();
  void ended(uint32_t activity);
  void messageEnded(uint32_t activity, uint32_t device);
  void copyEnded(uint32_t activity);

  SpentSeconds spentOn(uint32_t activity) const;
  PathStep pathStep(uint32_t activity) const;
  DeviceSeconds deviceSeconds(uint32_t device) const;
  std::vector<WaveSeconds> waves(const std::vector<PathStep> &path) const;

  const SimulatedPlan &plan;
  const Cluster &cluster;
  const Durations durations;
  const double latency, launch;
  std::vector<uint32_t> nicIn;      // by device: the number of its NIC
  std::vector<uint32_t> nicOut;     // by message; 0 inside a node
  std::vector<Activity> activities; // messages, then copies
  std::vector<Copy> copies;
  std::vector<DeviceState> devices;
  FairShares shares;
  /// What flows, by its number in `shares`.
  struct Flow {
    uint32_t activity = kNone;
    double left = 0, rate = 0, since = 0;
    uint32_t version = 0;
  };
  std::vector<Flow> flows;
  std::priority_queue<Event> events;
  double now = 0;
};

/// NICs may be of devices that have no program, so they have numbers of their
/// own, after which come those of devices.
size_t Engine::numberPorts() {
  DeviceIndex index;
  for (const SimulatedPlan::Program &program : plan.programs())
    nicIn.push_back(index(cluster.port(program.device, true)));
  const auto &programs = plan.programs();
  for (const SimulatedPlan::Message &message : plan.messages()) {
    int64_t from = programs[message.source].device;
    int64_t to = programs[message.destination].device;
    bool inter = !cluster.sameNode(from, to);
    nicOut.push_back(inter ? index(cluster.nicOut(from, to)) : 0);
  }
  return kPorts * std::max(programs.size(), size_t(index.size()));
}

bool Engine::isInterNode(uint32_t message) const {
  const SimulatedPlan::Message &m = plan.messages()[message];
  return !cluster.sameNode(plan.programs()[m.source].device,
                           plan.programs()[m.destination].device);
}

uint32_t Engine::outOf(uint32_t message) const {
  if (isInterNode(message))
    return nicOut[message] * kPorts + NicOut;
  return plan.messages()[message].source * kPorts + IslandOut;
}

uint32_t Engine::into(uint32_t message) const {
  uint32_t device = plan.messages()[message].destination;
  return isInterNode(message) ? nicIn[device] * kPorts + NicIn
                              : device * kPorts + IslandIn;
}

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

/// Goes on with a device until it has to wait.
void Engine::advance(uint32_t device) {
  DeviceState &state = devices[device];
  for (; state.at < plan.programs()[device].last; ++state.at) {
    const SimulatedPlan::Step &next = step(device);
    state.waitsForLocal = next.afterLocal && state.localIsBusy();
    if (state.waitsForLocal)
      return;
    switch (next.kind) {
    case Kind::Local:
      state.local.push_back(state.at);
      if (state.localAt + 1 == state.local.size())
        beginLocal(device, state.last);
      break;
    case Kind::Pack:
    case Kind::Unpack:
      beginCopy(device, next.kind, CopyRole::Inline, next.wave, next.bytes,
                state.last);
      return;
    case Kind::Group:
      state.isOffered = false;
      state.besideAt = 0;
      state.hasCopyBeside = beginBeside(device, state.last);
      events.push({now + launch * durations.slow(device), Event::Kind::Offered,
                   device, 0});
      return;
    }
  }
}

/// The next of what is copied while a group is launched and under way; false
/// where there is no more.
bool Engine::beginBeside(uint32_t device, uint32_t before) {
  DeviceState &state = devices[device];
  const SimulatedPlan::Step &group = step(device);
  const std::pair<Kind, int64_t> order[] = {{Kind::Unpack, group.unpackBytes},
                                            {Kind::Local, group.localBytes},
                                            {Kind::Pack, group.packBytes}};
  while (state.besideAt < std::size(order)) {
    auto [kind, bytes] = order[state.besideAt++];
    if (bytes == 0)
      continue;
    beginCopy(device, kind, CopyRole::BesideGroup, group.wave, bytes, before);
    return true;
  }
  return false;
}

void Engine::offer(uint32_t device) {
  DeviceState &state = devices[device];
  const SimulatedPlan::Step &group = step(device);
  state.isOffered = true;
  state.openMessages = uint32_t(group.last - group.first);
  for (size_t end = group.first; end < group.last; ++end)
    beginMessage(plan.ends()[end], device);
  if (state.openMessages == 0 && !state.hasCopyBeside)
    endGroup(device, state.last);
}

void Engine::endGroup(uint32_t device, uint32_t activity) {
  devices[device].last = activity;
  ++devices[device].at;
  advance(device);
}

/// One end of a message is offered; with the other it begins.
void Engine::beginMessage(uint32_t message, uint32_t device) {
  Activity &activity = activities[message];
  if (activity.offered < 0) {
    activity.offered = now;
    activity.firstEnd = device;
    return;
  }
  activity.begin = now;
  activity.before = devices[device].last;
  devices[device].carrying.begin(now);
  devices[activity.firstEnd].carrying.begin(now);
  events.push({now + plan.messages()[message].steps * latency,
               Event::Kind::LatencyOver, message, 0});
}

void Engine::beginLocal(uint32_t device, uint32_t before) {
  const DeviceState &state = devices[device];
  beginCopy(device, Kind::Local, CopyRole::LocalLane, -1,
            plan.steps()[state.local[state.localAt]].bytes, before);
}

void Engine::beginCopy(uint32_t device, Kind kind, CopyRole role, int32_t wave,
                       int64_t bytes, uint32_t before) {
  uint32_t number = devices[device].copies++;
  uint32_t activity = uint32_t(activities.size());
  copies.push_back({kind, role, device, number, wave, bytes});
  activities.emplace_back();
  activities.back().begin = now;
  activities.back().before = before;
  devices[device].copying.begin(now);
  flow(activity, durations.copy(device, number, bytes),
       device * kPorts + CopyEngine, kNone);
}

//===----------------------------------------------------------------------===//
// What flows
//===----------------------------------------------------------------------===//

void Engine::flow(uint32_t activity, const Alone &alone, uint32_t a,
                  uint32_t b) {
  uint32_t user = shares.add(a, b, alone.most / alone.slow);
  if (user >= flows.size())
    flows.resize(user + 1);
  Flow &own = flows[user];
  own.activity = activity;
  own.left = alone.full * alone.most * alone.jitter;
  own.rate = 0;
  own.since = now;
  setRates();
}

/// Where a share has changed, the end is another.
void Engine::setRates() {
  for (uint32_t user : shares.changed()) {
    Flow &flow = flows[user];
    double rate = shares.share(user);
    if (rate == flow.rate)
      continue;
    flow.left = std::max(0.0, flow.left - flow.rate * (now - flow.since));
    flow.since = now;
    flow.rate = rate;
    events.push(
        {now + flow.left / rate, Event::Kind::Ended, user, ++flow.version});
  }
}

void Engine::ended(uint32_t user) {
  uint32_t activity = flows[user].activity;
  activities[activity].end = now;
  ++flows[user].version;
  shares.remove(user);
  setRates();
  if (!isMessage(activity))
    return copyEnded(activity);
  const SimulatedPlan::Message &message = plan.messages()[activity];
  messageEnded(activity, message.source);
  messageEnded(activity, message.destination);
}

void Engine::messageEnded(uint32_t activity, uint32_t device) {
  DeviceState &state = devices[device];
  state.carrying.end(now);
  state.end = now;
  if (--state.openMessages > 0)
    return;
  const Activity &done = activities[activity];
  const SimulatedPlan::Message &message = plan.messages()[activity];
  if (done.firstEnd == device && done.begin > done.offered) {
    uint32_t peer =
        message.source == device ? message.destination : message.source;
    state.waiting += done.begin - done.offered;
    state.waitedFor[peer] += done.begin - done.offered;
    devices[peer].keptWaiting += done.begin - done.offered;
  }
  if (!state.hasCopyBeside)
    endGroup(device, activity);
}

void Engine::copyEnded(uint32_t activity) {
  const Copy copy = copies[activity - plan.messages().size()];
  DeviceState &state = devices[copy.device];
  state.copying.end(now);
  state.end = now;
  switch (copy.role) {
  case CopyRole::Inline:
    return endGroup(copy.device, activity);
  case CopyRole::LocalLane:
    ++state.localAt;
    if (state.localIsBusy())
      return beginLocal(copy.device, activity);
    if (!state.waitsForLocal)
      return;
    state.last = activity;
    return advance(copy.device);
  case CopyRole::BesideGroup:
    state.hasCopyBeside = beginBeside(copy.device, activity);
    if (state.hasCopyBeside)
      return;
    if (state.isOffered && state.openMessages == 0)
      endGroup(copy.device, activity);
  }
}

Status Engine::stuck(uint32_t device) const {
  const SimulatedPlan::Step &group = step(device);
  for (size_t end = group.first; end < group.last; ++end) {
    uint32_t number = plan.ends()[end];
    if (activities[number].end >= 0)
      continue;
    const SimulatedPlan::Message &message = plan.messages()[number];
    uint32_t peer =
        message.source == device ? message.destination : message.source;
    return makeError("device ", plan.programs()[device].device,
                     " waits for ever in wave ", group.wave, " for device ",
                     plan.programs()[peer].device);
  }
  return makeError("device ", plan.programs()[device].device,
                   " does not come to the end of its program");
}

Status Engine::run() {
  for (uint32_t device = 0; device < devices.size(); ++device)
    devices[device].at = plan.programs()[device].first;
  for (uint32_t device = 0; device < devices.size(); ++device)
    advance(device);
  while (!events.empty()) {
    Event event = events.top();
    events.pop();
    if (event.kind == Event::Kind::Ended &&
        flows[event.item].version != event.version)
      continue;
    now = event.time;
    if (shares.looks() > kLooks + kLooksPerActivity * activities.size())
      return makeError("more messages share ports at once than ",
                       shares.looks(), " looks can follow");
    switch (event.kind) {
    case Event::Kind::Ended:
      ended(event.item);
      break;
    case Event::Kind::LatencyOver:
      flow(event.item, durations.message(event.item), outOf(event.item),
           into(event.item));
      break;
    case Event::Kind::Offered:
      offer(event.item);
      break;
    }
  }
  for (uint32_t device = 0; device < devices.size(); ++device)
    if (devices[device].at < plan.programs()[device].last)
      return stuck(device);
  return {};
}

//===----------------------------------------------------------------------===//
// What came of it
//===----------------------------------------------------------------------===//

/// From the end of the activity before it. Only groups are launched, so what
/// lies between is a launch, of a slow device perhaps.
SpentSeconds Engine::spentOn(uint32_t number) const {
  const Activity &activity = activities[number];
  SpentSeconds spent;
  double gap = activity.begin -
               (activity.before == kNone ? 0 : activities[activity.before].end);
  spent.launch = std::min(gap, launch);
  spent.slow = gap - spent.launch;
  Alone alone;
  if (isMessage(number)) {
    alone = durations.message(number);
    spent.latency = plan.messages()[number].steps * latency;
    spent.wire = alone.full;
  } else {
    const Copy &copy = copies[number - plan.messages().size()];
    alone = durations.copy(copy.device, copy.number, copy.bytes);
    spent.copies = alone.full;
  }
  double drawn = alone.full * alone.jitter;
  spent.jitter = drawn - alone.full;
  spent.slow += drawn * (alone.slow - 1);
  spent.sharing = std::max(0.0, activity.end - activity.begin - spent.latency -
                                    drawn * alone.slow);
  return spent;
}

PathStep Engine::pathStep(uint32_t number) const {
  PathStep out;
  out.begin = activities[number].begin;
  out.end = activities[number].end;
  out.spent = spentOn(number);
  if (isMessage(number)) {
    const SimulatedPlan::Message &message = plan.messages()[number];
    out.wave = message.wave;
    out.device = plan.programs()[message.source].device;
    out.peer = plan.programs()[message.destination].device;
    return out;
  }
  const Copy &copy = copies[number - plan.messages().size()];
  out.kind = copy.kind;
  out.wave = copy.wave;
  out.device = plan.programs()[copy.device].device;
  return out;
}

DeviceSeconds Engine::deviceSeconds(uint32_t device) const {
  const DeviceState &state = devices[device];
  DeviceSeconds out;
  out.device = plan.programs()[device].device;
  out.carrying = state.carrying.seconds;
  out.copying = state.copying.seconds;
  out.waiting = state.waiting;
  out.keptWaiting = state.keptWaiting;
  out.end = state.end;
  for (auto [number, seconds] : state.waitedFor) {
    int64_t peer = plan.programs()[number].device;
    if (std::make_pair(-seconds, peer) <
        std::make_pair(-out.waitedForSeconds, out.waitedFor)) {
      out.waitedFor = peer;
      out.waitedForSeconds = seconds;
    }
  }
  return out;
}

/// Messages are sorted by wave.
std::vector<WaveSeconds>
Engine::waves(const std::vector<PathStep> &path) const {
  std::vector<WaveSeconds> out;
  std::unordered_map<int32_t, size_t> at;
  for (uint32_t i = 0; i < plan.messages().size(); ++i) {
    const SimulatedPlan::Message &message = plan.messages()[i];
    const Activity &activity = activities[i];
    if (out.empty() || out.back().wave != message.wave) {
      at[message.wave] = out.size();
      out.emplace_back();
      out.back().wave = message.wave;
      out.back().begin = activity.begin;
    }
    WaveSeconds &wave = out.back();
    wave.begin = std::min(wave.begin, activity.begin);
    wave.end = std::max(wave.end, activity.end);
    ++wave.messages;
    wave.bytes += message.bytes;
  }
  for (const PathStep &step : path)
    if (auto found = at.find(step.wave); found != at.end())
      out[found->second].onPath += step.spent;
  return out;
}

SimulationResult Engine::result() const {
  SimulationResult out;
  uint32_t last = kNone;
  for (uint32_t i = 0; i < activities.size(); ++i)
    if (last == kNone || activities[i].end > activities[last].end)
      last = i;
  out.seconds = last == kNone ? 0 : activities[last].end;
  for (uint32_t at = last; at != kNone; at = activities[at].before) {
    out.path.push_back(pathStep(at));
    out.spent += out.path.back().spent;
  }
  std::reverse(out.path.begin(), out.path.end());
  out.waves = waves(out.path);
  for (uint32_t device = 0; device < devices.size(); ++device)
    out.devices.push_back(deviceSeconds(device));
  return out;
}

} // namespace

Result<SimulationResult> simulateEvents(const SimulatedPlan &plan,
                                        const Cluster &cluster,
                                        const SimulationOptions &options) {
  Engine engine(plan, cluster, options);
  DTRT_RETURN_IF_ERROR(engine.run());
  return engine.result();
}

} // namespace dtrt
