//===- ProgramVerifier.h - Is one device's program right? -------*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_PROGRAMVERIFIER_H
#define DTRT_LIB_VERIFY_PROGRAMVERIFIER_H

#include "BoxSet.h"
#include "Carried.h"
#include "ContentHash.h"
#include "Cover.h"
#include "Multicasts.h"
#include "ShardTable.h"
#include "StateGroups.h"
#include "StorageLifetimes.h"
#include "dtrt/cost/Simulation.h"

#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>

namespace dtrt {

/// One end of a message, for pairing with the other.
struct UnpairedEnd {
  int32_t wave = 0;
  uint32_t source = 0; // devices
  uint32_t destination = 0;
  uint32_t instruction = 0;
  uint64_t bytes = 0;
  Digest content = {};
  bool direct = false;     // neither packed nor unpacked at this end
  bool forward = false;    // sends what the group before has brought
  bool collective = false; // of a send: a part of a collective, no message
};

/// In the order of what pairs are looked for by: no program has two ends of one
/// kind that are alike in it.
inline auto pairKey(const UnpairedEnd &end) {
  return std::make_tuple(end.wave, end.source, end.destination);
}
void sortEnds(std::vector<UnpairedEnd> &ends);

/// What one device has of a library's collective.
struct CollectivePart {
  int32_t wave = 0;
  uint32_t device = 0;
  uint32_t instruction = 0;
  GroupCollective call;
};

/// What the programs seen so far add up to.
struct ProgramTotals {
  std::vector<UnpairedEnd> sends, receives;
  std::vector<TimedCopy> copies; // by program
  std::vector<CollectivePart> collectives;
  PassedOn passedOn;
  /// Of each program that sends little enough to be remembered.
  std::vector<std::shared_ptr<const Carried>> carried;
  ShardTable shards;
  uint64_t bytesDestination = 0;
  uint64_t bytesLocal = 0;
  uint64_t bytesInPlace = 0;
  uint64_t bytesRelayed = 0;
  uint64_t bytesWire = 0;
  uint64_t bytesInterNode = 0;
  uint64_t stagingPeak = 0;
  uint64_t devicePeak = 0;
  uint64_t sourceMax = 0;
  uint64_t destinationMax = 0;
  uint64_t mostAbove = 0; // the larger of a device's source and destination
  uint64_t sourceRanks = 0, destinationRanks = 0;
  FeatureSet features = 0;

  void add(ProgramTotals &&other);
  /// All but ends of messages, what is passed on or carried, and shards.
  void addNumbers(const ProgramTotals &other);
};

/// Simulates one program, in program order.
class ProgramVerifier {
public:
  ProgramVerifier(const PlanCommon &common, const RankProgram &program,
                  ProgramTotals &totals);
  Status verify();
  /// The one that it failed at; as many as there are after the last.
  uint32_t instruction() const { return current; }

private:
  /// Bytes in staging: packed and not yet overwritten, or received and not yet
  /// unpacked. Keyed by start.
  struct Staged {
    uint64_t end = 0;
    const Segment *packed = nullptr; // null: received
    size_t receive = 0;              // which, in `arrivals`
    uint32_t instruction = 0;
    bool used = false;
    bool relayed = false; // `packed` has come, and is to be sent as it is
  };
  /// A message received into staging; its segments by place in the message.
  struct Arrival {
    UnpairedEnd end;
    uint64_t slot = 0;
    uint64_t unpacked = 0;
    std::map<uint64_t, const Segment *> segments;
  };

  Status step(const Instruction &instruction);
  Status stepCopy(const Instruction &instruction, uint32_t ended);
  Status stepBeside();
  Status stepPack(const Instruction &instruction);
  Status stepUnpack(const Instruction &instruction);
  Status stepRelay(const Instruction &instruction);
  Status stepGroup(const Instruction &instruction);
  Status checkPairs(const Instruction &instruction) const;
  Status stepCollective(const Instruction &instruction);
  bool entersNode(const Instruction &instruction, uint32_t peer) const;
  Status send(const Instruction &instruction, const Message &message);
  Status receive(const Instruction &instruction, const Message &message);
  Result<Digest> stagedContent(const Message &message);
  bool isRelayed(const Message &message) const;
  static bool place(const Segment &segment, uint64_t at, Arrival &arrival);
  Status unpackSegment(uint64_t slot, uint64_t bytes, const Segment &segment);
  Status clearStaging(uint64_t slot, uint64_t bytes);

  Status read(const Segment &segment) { return readUntil(segment, current); }
  Status readUntil(const Segment &segment, uint32_t instruction);
  Status write(const Segment &segment, bool zero);
  Status finish();
  Status finishStaging();
  Status checkCoverage(uint32_t shard, unsigned state, int64_t real);
  Status describeFault(uint32_t shard, unsigned state, int64_t real,
                       const CoverFault &fault);
  Status checkMemory();
  /// `state`: the first of its group.
  BoxSet &written(uint32_t shard, unsigned state) {
    return writes[shard * 64 + state];
  }
  const Family &familyOf(const Segment &segment) const {
    return common.families[segment.family];
  }

  const PlanCommon &common;
  const RankProgram &program;
  ProgramTotals &totals;
  std::vector<uint64_t> staying; // stayingMasks
  Steps steps;
  uint32_t current = 0;                    // index of the instruction
  std::vector<std::vector<bool>> forwards; // by instruction and message
  std::map<uint64_t, Staged> staging;
  std::vector<Arrival> arrivals;
  ContentHash content; // of one message after the other
  StorageLifetimes lifetimes;
  StateGroups together; // destination states that are written together
  std::unordered_map<uint64_t, BoxSet> writes; // shard * 64 + first state
  std::unordered_map<uint64_t, int64_t> dataVolume;
  uint64_t stagingUsed = 0;
  Carried carried;
  std::vector<uint32_t> beside; // copies that the next group waits for
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_PROGRAMVERIFIER_H
