//===- SmallMachine.cpp - Every run of a small plan -----------------------===//

#include "SmallMachine.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

using namespace dtrt;

namespace dt::testing {

namespace {

constexpr int64_t kCellBytes = 4;
constexpr size_t kNone = SIZE_MAX;
constexpr uint8_t kNothing = 0xff; // no element

using Elements = uint32_t; // a bit for each

struct Cells {
  uint32_t first = 0, last = 0;
  bool empty() const { return first == last; }
};

/// An element of one side's shard.
struct Place {
  uint8_t element = 0;
  Side side = Side::Destination;
};
using Places = std::vector<Place>;

/// One end of a message.
struct End {
  bool receive = false;
  uint32_t peer = 0;
  Cells cells;            // empty: direct
  Places places;          // of a direct end
  uint32_t length = 0;    // in cells
  size_t message = kNone; // that it is an end of
};

/// One step of a program.
struct Op {
  enum class Kind { Copy, Create, Release, Pack, Unpack, Begin, End };
  Kind kind = Kind::Copy;
  int group = -1; // of Pack, Unpack, Begin and End: its number
  Cells cells;
  Places places;         // in packed order; of a Copy those that it reads
  std::vector<End> ends; // Begin
  uint32_t before = 0;   // ops that have to come first
  uint32_t place = 0;    // in program order
  /// Of the destination, also by direct ends.
  Elements reads = 0, writes = 0;
};

/// What becomes of a cell of staging.
enum class Use : uint8_t { Idle, Packed, Expected, Received };

/// Of one device.
struct Memory {
  std::array<Use, kMostCells> use = {};
  std::array<uint8_t, kMostCells> content;
  Elements written = 0;
  Elements released = 0;         // of the source
  Elements there = ~Elements(0); // of the destination's storage
  bool operator==(const Memory &o) const {
    return use == o.use && content == o.content && written == o.written &&
           released == o.released && there == o.there;
  }
};

uint64_t mix(uint64_t hash) {
  hash *= 0x9e3779b97f4a7c15ull;
  return hash ^ hash >> 29;
}

/// What has been run: ops of each device, and messages.
struct Key {
  std::array<uint32_t, kMostDevices> ops = {};
  uint32_t messages = 0;
  bool operator==(const Key &o) const {
    return ops == o.ops && messages == o.messages;
  }
  size_t hash() const {
    uint64_t hash = messages;
    for (uint32_t ops : ops)
      hash = mix(hash ^ ops);
    return size_t(hash);
  }
};

struct State {
  Key key;
  std::array<Memory, kMostDevices> memory;
};

/// The states of one machine in order of discovery, found by their keys: open
/// addressing. A hundred million are visited, mostly by machines of hundreds:
/// what one has used serves the next.
template <typename State> class StateTable {
  static constexpr size_t kFewest = 256; // slots

public:
  void clear() {
    states.clear();
    slots.assign(kFewest, 0);
  }
  size_t size() const { return states.size(); }
  const State &operator[](size_t index) const { return states[index]; }
  /// The state that has this key already; null: it is new, and has been added.
  const State *add(const State &state) {
    if (2 * states.size() >= slots.size())
      grow();
    uint32_t &slot = slots[find(state.key)];
    if (slot)
      return &states[slot - 1];
    states.push_back(state);
    slot = uint32_t(states.size());
    return nullptr;
  }

private:
  template <typename Key> size_t find(const Key &key) const {
    size_t i = key.hash() & (slots.size() - 1);
    while (slots[i] && !(states[slots[i] - 1].key == key))
      i = (i + 1) & (slots.size() - 1);
    return i;
  }
  void grow() {
    slots.assign(2 * slots.size(), 0);
    for (size_t i = 0; i < states.size(); ++i)
      slots[find(states[i].key)] = uint32_t(i + 1);
  }

  std::vector<State> states;
  std::vector<uint32_t> slots; // index + 1, or 0
};

/// The two ends of a message, as (op, index of the end) of their devices.
struct Meeting {
  uint32_t from = 0, to = 0;
  size_t sendOp = kNone, sendEnd = 0, receiveOp = kNone, receiveEnd = 0;
};

struct Device {
  std::vector<Op> ops;
  Elements sourceHeld = 0, wanted = 0;
  uint64_t arena = 0;
};

//===----------------------------------------------------------------------===//
// Reading programs
//===----------------------------------------------------------------------===//

void addPlaces(const Segment &segment, Places &out) {
  for (int64_t i = 0; i < segment.size[0]; ++i)
    out.push_back({uint8_t(segment.offset[0] + i), segment.side});
}

Elements bitOf(Place place) { return Elements(1) << place.element; }

Elements maskOf(const Places &places) {
  Elements out = 0;
  for (Place place : places)
    out |= bitOf(place);
  return out;
}

Elements maskOf(const Places &places, Side side) {
  Elements out = 0;
  for (Place place : places)
    out |= place.side == side ? bitOf(place) : 0;
  return out;
}

Cells cellsOf(uint64_t slot, uint64_t bytes) {
  return {uint32_t(slot / kCellBytes), uint32_t((slot + bytes) / kCellBytes)};
}

class Reader {
public:
  Reader(const RankProgram &program, Device &out)
      : program(program), out(out) {}

  void read() {
    for (const ShardRecord &shard : program.source)
      for (const Interval &range : shard.dims[0])
        for (int64_t i = range.lo; i < range.hi; ++i)
          out.sourceHeld |= Elements(1) << i;
    for (const ShardRecord &shard : program.destination)
      for (const Interval &range : shard.dims[0])
        for (int64_t i = range.lo; i < range.hi; ++i)
          out.wanted |= Elements(1) << i;
    out.arena = program.stagingBytes;
    for (const Instruction &instruction : program.instructions)
      add(instruction);
    for (size_t i = 0; i < out.ops.size(); ++i)
      out.ops[i].place = uint32_t(i);
    for (Op &op : out.ops)
      for (const Op &earlier : out.ops)
        if (earlier.place < op.place && follows(earlier, op))
          op.before |= 1u << earlier.place;
  }

private:
  Op &addOp(Op::Kind kind) {
    out.ops.emplace_back();
    out.ops.back().kind = kind;
    return out.ops.back();
  }

  void add(const Instruction &instruction) {
    switch (instruction.op) {
    case Opcode::Copy:
      for (size_t i = 0; i + 1 < instruction.segments.size(); i += 2) {
        Op &op = addOp(Op::Kind::Copy);
        addPlaces(instruction.segments[i], op.places);
        op.writes = maskOf(op.places);
        op.reads = maskOf(op.places, Side::Destination);
      }
      return;
    case Opcode::Create:
    case Opcode::Release:
      for (const Segment &segment : instruction.segments)
        addStorage(instruction.op == Opcode::Create, segment);
      return;
    case Opcode::Pack:
    case Opcode::Unpack:
      return addStaged(instruction);
    case Opcode::Group:
      return addGroup(instruction);
    case Opcode::Zero:
    case Opcode::Relay:
      return; // small plans have no padding, and nothing that is relayed
    }
  }

  /// Storage is named by its place in the shard.
  void addStorage(bool creates, const Segment &segment) {
    Op &op = addOp(creates ? Op::Kind::Create : Op::Kind::Release);
    const auto &shards = creates ? program.destination : program.source;
    int64_t lo = shards[segment.shard].dims[0][0].lo;
    for (int64_t i = 0; i < segment.size[0]; ++i)
      op.places.push_back({uint8_t(lo + segment.offset[0] + i), segment.side});
  }

  void addStaged(const Instruction &instruction) {
    bool packs = instruction.op == Opcode::Pack;
    Op &op = addOp(packs ? Op::Kind::Pack : Op::Kind::Unpack);
    op.group = packs ? numGroups : numGroups - 1;
    op.cells = cellsOf(instruction.slot, instruction.bytes);
    for (const Segment &segment : instruction.segments)
      addPlaces(segment, op.places);
    (packs ? op.reads : op.writes) = maskOf(op.places, Side::Destination);
  }

  void addGroup(const Instruction &instruction) {
    Op begin;
    begin.kind = Op::Kind::Begin;
    begin.group = numGroups;
    for (const Message &message : instruction.messages) {
      End end;
      end.receive = message.receive;
      end.peer = message.peer;
      end.length = uint32_t(message.bytes / kCellBytes);
      if (!message.direct) {
        end.cells = cellsOf(message.slot, message.bytes);
      } else {
        addPlaces(message.segment, end.places);
        (end.receive ? begin.writes : begin.reads) |=
            maskOf(end.places, Side::Destination);
      }
      begin.ends.push_back(std::move(end));
    }
    out.ops.push_back(begin);
    Op &end = addOp(Op::Kind::End);
    end.group = numGroups++;
    end.writes = out.ops[out.ops.size() - 2].writes;
  }

  /// Whether a later op has to come after an earlier one.
  bool follows(const Op &earlier, const Op &later) const {
    using Kind = Op::Kind;
    // Forwards: also what a group brings to its place.
    if (earlier.kind != Kind::Begin && (earlier.writes & later.reads))
      return true;
    // A pack comes after the begin of the group before its own, if there is
    // one, and after all that came before that.
    if (later.kind == Kind::Pack && later.group > 0) {
      if (earlier.kind == Kind::Unpack)
        return earlier.group < later.group - 2;
      const Op *begin = beginOf(later.group - 1);
      return earlier.place <= begin->place;
    }
    // An unpack comes before the end of the group after its own.
    if (earlier.kind == Kind::Unpack) {
      const Op *begin = beginOf(earlier.group + 1);
      return !begin || later.place > begin->place;
    }
    return true;
  }

  const Op *beginOf(int group) const {
    for (const Op &op : out.ops)
      if (op.kind == Op::Kind::Begin && op.group == group)
        return &op;
    return nullptr;
  }

  const RankProgram &program;
  Device &out;
  int numGroups = 0;
};

//===----------------------------------------------------------------------===//
// The machine
//===----------------------------------------------------------------------===//

class Machine {
public:
  explicit Machine(const std::vector<RankProgram> &programs) {
    devices.resize(programs.size());
    for (size_t d = 0; d < programs.size(); ++d)
      Reader(programs[d], devices[d]).read();
    match();
  }

  SmallVerdict explore() {
    State start;
    for (size_t d = 0; d < devices.size(); ++d) {
      start.memory[d].content.fill(kNothing);
      for (const Op &op : devices[d].ops)
        if (op.kind == Op::Kind::Create)
          start.memory[d].there &= ~maskOf(op.places);
    }
    verdict.peaks.assign(devices.size(), 0);
    known.clear();
    push(start);
    while (!open.empty() && isRight()) {
      State state = known[open.back()]; // which moves when others are added
      open.pop_back();
      visit(state);
    }
    verdict.states = known.size();
    return verdict;
  }

private:
  /// The k-th send of an ordered pair meets its k-th receive.
  void match() {
    std::map<std::pair<uint32_t, uint32_t>, std::array<size_t, 2>> counts;
    std::map<std::pair<uint32_t, uint32_t>, std::vector<size_t>> of;
    for (uint32_t d = 0; d < devices.size(); ++d)
      for (size_t o = 0; o < devices[d].ops.size(); ++o)
        for (size_t e = 0; e < devices[d].ops[o].ends.size(); ++e) {
          End &end = devices[d].ops[o].ends[e];
          auto pair = end.receive ? std::make_pair(end.peer, d)
                                  : std::make_pair(d, end.peer);
          size_t k = counts[pair][end.receive]++;
          if (k == of[pair].size()) {
            of[pair].push_back(messages.size());
            messages.push_back({pair.first, pair.second});
          }
          end.message = of[pair][k];
          Meeting &meeting = messages[end.message];
          (end.receive ? meeting.receiveOp : meeting.sendOp) = o;
          (end.receive ? meeting.receiveEnd : meeting.sendEnd) = e;
        }
  }

  void push(const State &state) {
    const State *other = known.add(state);
    if (!other)
      open.push_back(uint32_t(known.size() - 1));
    else if (other->memory != state.memory)
      corrupt("two orders of the same work leave different memory");
  }

  void corrupt(std::string text) {
    verdict.kind = SmallVerdict::Kind::Corrupt;
    verdict.text = std::move(text);
  }

  bool isRight() const { return verdict.kind == SmallVerdict::Kind::Right; }

  void visit(const State &state) {
    notePeaks(state);
    bool moved = false;
    for (uint32_t d = 0; d < devices.size() && isRight(); ++d)
      for (size_t o = 0; o < devices[d].ops.size() && isRight(); ++o)
        if (canRun(state, d, o)) {
          moved = true;
          State next = state;
          next.key.ops[d] |= 1u << o;
          run(next, d, devices[d].ops[o]);
          if (isRight())
            push(next);
        }
    for (size_t m = 0; m < messages.size() && isRight(); ++m)
      if (canMeet(state, m)) {
        moved = true;
        State next = state;
        next.key.messages |= 1u << m;
        meet(next, messages[m]);
        if (isRight())
          push(next);
      }
    if (!moved && isRight())
      finish(state);
  }

  bool canRun(const State &state, uint32_t d, size_t o) const {
    const Op &op = devices[d].ops[o];
    uint32_t done = state.key.ops[d];
    if ((done >> o & 1) || (op.before & ~done))
      return false;
    if (op.kind != Op::Kind::End)
      return true;
    for (const End &end : devices[d].ops[o - 1].ends)
      if (!(state.key.messages >> end.message & 1))
        return false;
    return true;
  }

  bool canMeet(const State &state, size_t m) const {
    const Meeting &meeting = messages[m];
    return !(state.key.messages >> m & 1) && meeting.sendOp != kNone &&
           meeting.receiveOp != kNone &&
           (state.key.ops[meeting.from] >> meeting.sendOp & 1) &&
           (state.key.ops[meeting.to] >> meeting.receiveOp & 1);
  }

  void run(State &state, uint32_t d, const Op &op) {
    Memory &memory = state.memory[d];
    switch (op.kind) {
    case Op::Kind::Copy:
      return copy(memory, d, op);
    case Op::Kind::Create:
      if (memory.there & maskOf(op.places))
        return corrupt("creates what is there");
      memory.there |= maskOf(op.places);
      return;
    case Op::Kind::Release:
      if (memory.released & maskOf(op.places))
        return corrupt("releases what is gone");
      memory.released |= maskOf(op.places);
      return;
    case Op::Kind::Pack:
      return pack(memory, d, op);
    case Op::Kind::Unpack:
      return unpack(memory, d, op);
    case Op::Kind::Begin:
      for (const End &end : op.ends)
        begin(memory, d, end);
      return;
    case Op::Kind::End:
      for (const End &end : devices[d].ops[op.place - 1].ends)
        if (!end.receive)
          for (uint32_t c = end.cells.first; c < end.cells.last; ++c) {
            memory.use[c] = Use::Idle;
            memory.content[c] = kNothing;
          }
      return;
    }
  }

  /// The element that lies at a place; `kNothing` where none does.
  uint8_t read(const Memory &memory, uint32_t d, Place place) {
    Elements valid = place.side == Side::Source
                         ? devices[d].sourceHeld & ~memory.released
                         : memory.written;
    if (valid & bitOf(place))
      return place.element;
    corrupt("reads what is not there");
    return kNothing;
  }

  void write(Memory &memory, uint32_t d, uint8_t element, uint8_t value) {
    Elements bit = Elements(1) << element;
    if (!(devices[d].wanted & bit) || !(memory.there & bit))
      return corrupt("writes where no storage is");
    if (memory.written & bit)
      return corrupt("writes twice");
    if (value != element)
      return corrupt("writes another element");
    memory.written |= bit;
  }

  void copy(Memory &memory, uint32_t d, const Op &op) {
    for (Place place : op.places)
      write(memory, d, place.element, read(memory, d, place));
  }

  /// Makes cells those of one use.
  bool occupy(Memory &memory, uint32_t d, Cells cells, Use use) {
    if (uint64_t(cells.last) * kCellBytes > devices[d].arena) {
      corrupt("uses staging beyond its arena");
      return false;
    }
    for (uint32_t c = cells.first; c < cells.last; ++c) {
      if (memory.use[c] != Use::Idle) {
        corrupt("overwrites staging that is in use");
        return false;
      }
      memory.use[c] = use;
    }
    return true;
  }

  void pack(Memory &memory, uint32_t d, const Op &op) {
    if (!occupy(memory, d, op.cells, Use::Packed))
      return;
    uint32_t cell = op.cells.first;
    for (Place place : op.places)
      memory.content[cell++] = read(memory, d, place);
  }

  void unpack(Memory &memory, uint32_t d, const Op &op) {
    uint32_t cell = op.cells.first;
    for (Place place : op.places) {
      if (memory.use[cell] != Use::Received)
        return corrupt("unpacks what nothing brought");
      write(memory, d, place.element, memory.content[cell]);
      memory.use[cell] = Use::Idle;
      memory.content[cell++] = kNothing;
    }
  }

  void begin(Memory &memory, uint32_t d, const End &end) {
    if (end.cells.empty() && end.places.size() != end.length)
      return corrupt("has a direct end of another size");
    if (end.receive) {
      occupy(memory, d, end.cells, Use::Expected);
      for (Place place : end.places)
        if (!(devices[d].wanted & memory.there & bitOf(place)))
          corrupt("receives where no storage is");
      return;
    }
    for (uint32_t c = end.cells.first; c < end.cells.last; ++c)
      if (memory.use[c] != Use::Packed)
        corrupt("sends what nothing packed");
    for (Place place : end.places)
      read(memory, d, place);
  }

  void meet(State &state, const Meeting &meeting) {
    const End &send =
        devices[meeting.from].ops[meeting.sendOp].ends[meeting.sendEnd];
    const End &receive =
        devices[meeting.to].ops[meeting.receiveOp].ends[meeting.receiveEnd];
    if (send.length != receive.length)
      return corrupt("meets a message of another size");
    Memory &from = state.memory[meeting.from], &to = state.memory[meeting.to];
    for (uint32_t i = 0; i < send.length && isRight(); ++i) {
      uint8_t value = send.cells.empty()
                          ? read(from, meeting.from, send.places[i])
                          : from.content[send.cells.first + i];
      if (receive.cells.empty()) {
        write(to, meeting.to, receive.places[i].element, value);
        continue;
      }
      to.content[receive.cells.first + i] = value;
      to.use[receive.cells.first + i] = Use::Received;
    }
  }

  /// No step is left: that is the end, or a rank waits for ever.
  void finish(const State &state) {
    for (uint32_t d = 0; d < devices.size(); ++d) {
      if (state.key.ops[d] != (uint64_t(1) << devices[d].ops.size()) - 1) {
        verdict.kind = SmallVerdict::Kind::Stuck;
        verdict.text = "device " + std::to_string(d) + " waits for ever";
        return;
      }
      const Memory &memory = state.memory[d];
      if (memory.written != devices[d].wanted)
        return corrupt("device " + std::to_string(d) + " lacks elements");
      for (Use use : memory.use)
        if (use != Use::Idle)
          return corrupt("device " + std::to_string(d) + " has staging left");
    }
  }

  void notePeaks(const State &state) {
    for (uint32_t d = 0; d < devices.size(); ++d) {
      const Memory &memory = state.memory[d];
      uint64_t elements =
          uint64_t(
              __builtin_popcount(devices[d].sourceHeld & ~memory.released)) +
          uint64_t(__builtin_popcount(devices[d].wanted & memory.there));
      verdict.peaks[d] =
          std::max(verdict.peaks[d], elements * kCellBytes + devices[d].arena);
    }
  }

  std::vector<Device> devices;
  std::vector<Meeting> messages;
  static thread_local StateTable<State> known;
  std::vector<uint32_t> open; // of known, depth first: faults show early
  SmallVerdict verdict;
};

thread_local StateTable<State> Machine::known;

//===----------------------------------------------------------------------===//
// Groups on a transport that holds back what it may
//===----------------------------------------------------------------------===//

/// An end of a message in a group; a level is offered when all below are done.
struct HeldEnd {
  bool receive = false;
  uint32_t peer = 0;
  size_t message = kNone;
};
using HeldGroup = std::vector<HeldEnd>;
using Levels = std::vector<unsigned>;

class HeldMachine {
public:
  HeldMachine(const std::vector<RankProgram> &programs, bool descending)
      : descending(descending), ranks(uint32_t(programs.size())) {
    groups.resize(ranks);
    for (uint32_t r = 0; r < ranks; ++r)
      for (const Instruction &instruction : programs[r].instructions)
        if (instruction.op == Opcode::Group) {
          groups[r].emplace_back();
          for (const Message &message : instruction.messages)
            addEnd(r, message);
        }
    for (uint32_t r = 0; r < ranks; ++r)
      for (const HeldGroup &group : groups[r])
        orders[r].push_back(&knownOrders(r, group));
  }

  SmallVerdict explore() {
    known.clear();
    push({});
    while (!open.empty()) {
      State state = known[open.back()]; // which moves when others are added
      open.pop_back();
      if (!visit(state)) {
        verdict.kind = SmallVerdict::Kind::Stuck;
        verdict.text = "a rank waits for ever";
        break;
      }
    }
    verdict.states = known.size();
    return verdict;
  }

private:
  struct Progress {
    std::array<uint8_t, kMostDevices> group = {}; // the next, or the one begun
    std::array<uint8_t, kMostDevices> order = {}; // 0: not begun, else which
    uint32_t done = 0;
    bool operator==(const Progress &o) const {
      return group == o.group && order == o.order && done == o.done;
    }
    size_t hash() const {
      uint64_t hash = done;
      for (uint32_t r = 0; r < kMostDevices; ++r)
        hash = mix(hash ^ (group[r] << 8 | order[r]));
      return size_t(hash);
    }
  };
  struct State {
    Progress key;
  };

  void addEnd(uint32_t r, const Message &message) {
    HeldEnd end = {message.receive, message.peer, kNone};
    auto pair =
        end.receive ? std::make_pair(end.peer, r) : std::make_pair(r, end.peer);
    size_t k = counts[pair][end.receive]++;
    if (k == of[pair].size()) {
      of[pair].push_back(pairs.size());
      pairs.push_back(pair);
    }
    end.message = of[pair][k];
    groups[r].back().push_back(end);
  }

  /// At what distance the round is: ranks meet at distances 1, 2, ... of a
  /// ring, or at falling ones.
  unsigned roundOf(uint32_t r, const HeldEnd &end) const {
    unsigned distance =
        (end.receive ? r + ranks - end.peer : end.peer + ranks - r) % ranks;
    return descending ? ranks - distance : distance;
  }

  /// What a scan over the rounds takes in one go, as levels: one of each pair
  /// in each pass.
  Levels scan(uint32_t r, const HeldGroup &group,
              const std::vector<size_t> &left) const {
    Levels out;
    for (size_t i = 0; i < left.size(); ++i) {
      const HeldEnd &end = group[left[i]];
      unsigned pass = 0;
      for (size_t k = 0; k < i; ++k)
        pass += group[left[k]].receive == end.receive &&
                group[left[k]].peer == end.peer;
      out.push_back(pass * ranks + roundOf(r, end));
    }
    return out;
  }

  /// Groups of many plans are alike.
  const std::vector<Levels> &knownOrders(uint32_t r,
                                         const HeldGroup &group) const {
    static thread_local std::map<std::vector<uint32_t>, std::vector<Levels>>
        known;
    std::vector<uint32_t> shape = {r, ranks, descending};
    for (const HeldEnd &end : group)
      shape.push_back(2 * end.peer + end.receive);
    auto [at, isNew] = known.try_emplace(std::move(shape));
    if (isNew)
      at->second = ordersOf(r, group);
    return at->second;
  }

  /// All orders in which a group may be taken: it is cut anywhere, and the
  /// scan starts again after a cut.
  std::vector<Levels> ordersOf(uint32_t r, const HeldGroup &group) const {
    std::set<Levels> found;
    Levels levels(group.size(), 0);
    std::vector<size_t> all(group.size());
    for (size_t i = 0; i < all.size(); ++i)
      all[i] = i;
    cut(r, group, all, 0, levels, found);
    return {found.begin(), found.end()};
  }

  void cut(uint32_t r, const HeldGroup &group, const std::vector<size_t> &left,
           unsigned base, Levels &levels, std::set<Levels> &found) const {
    if (left.empty()) {
      found.insert(levels);
      return;
    }
    Levels own = scan(r, group, left);
    std::set<unsigned> ends(own.begin(), own.end());
    for (unsigned last : ends) { // all up to a level, then a cut
      std::vector<size_t> rest;
      for (size_t i = 0; i < left.size(); ++i)
        if (own[i] <= last)
          levels[left[i]] = base + own[i];
        else
          rest.push_back(left[i]);
      cut(r, group, rest, base + 100, levels, found);
    }
  }

  void push(const State &state) {
    if (!known.add(state))
      open.push_back(uint32_t(known.size() - 1));
  }

  bool isOffered(const State &state, uint32_t r, size_t message) const {
    if (state.key.order[r] == 0)
      return false;
    const HeldGroup &group = groups[r][state.key.group[r]];
    const Levels &levels =
        (*orders[r][state.key.group[r]])[state.key.order[r] - 1];
    for (size_t e = 0; e < group.size(); ++e) {
      if (group[e].message != message)
        continue;
      for (size_t k = 0; k < group.size(); ++k)
        if (levels[k] < levels[e] && !(state.key.done >> group[k].message & 1))
          return false;
      return true;
    }
    return false;
  }

  /// False where ranks are left and none can go on.
  bool visit(const State &state) {
    bool moved = false, ended = true;
    for (uint32_t r = 0; r < ranks; ++r) {
      if (state.key.group[r] == groups[r].size())
        continue;
      ended = false;
      State next = state;
      if (state.key.order[r] == 0) {
        moved = true;
        for (size_t order = 0; order < orders[r][state.key.group[r]]->size();
             ++order) {
          next.key.order[r] = uint8_t(order + 1);
          push(next);
        }
        continue;
      }
      bool isDone = true;
      for (const HeldEnd &end : groups[r][state.key.group[r]])
        isDone = isDone && (state.key.done >> end.message & 1);
      if (!isDone)
        continue;
      moved = true;
      ++next.key.group[r];
      next.key.order[r] = 0;
      push(next);
    }
    for (size_t m = 0; m < pairs.size(); ++m)
      if (!(state.key.done >> m & 1) && isOffered(state, pairs[m].first, m) &&
          isOffered(state, pairs[m].second, m)) {
        moved = true;
        State next = state;
        next.key.done |= 1u << m;
        push(next);
      }
    return moved || ended;
  }

  bool descending;
  uint32_t ranks;
  std::vector<std::vector<HeldGroup>> groups;
  std::array<std::vector<const std::vector<Levels> *>, kMostDevices> orders;
  std::vector<std::pair<uint32_t, uint32_t>> pairs; // of messages
  std::map<std::pair<uint32_t, uint32_t>, std::array<size_t, 2>> counts;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<size_t>> of;
  static thread_local StateTable<State> known;
  std::vector<uint32_t> open; // of known
  SmallVerdict verdict;
};

thread_local StateTable<HeldMachine::State> HeldMachine::known;

} // namespace

SmallVerdict exploreAll(const std::vector<RankProgram> &programs) {
  return Machine(programs).explore();
}

SmallVerdict exploreHeld(const std::vector<RankProgram> &programs,
                         bool descending) {
  return HeldMachine(programs, descending).explore();
}

} // namespace dt::testing
