//===- Executor.h - Running one device's program ----------------*- C++ -*-===//

#ifndef DTRT_CORE_EXECUTOR_H
#define DTRT_CORE_EXECUTOR_H

#include "dtrt/core/ExecutionPlan.h"
#include "dtrt/core/MessageRegions.h"
#include "dtrt/core/Packing.h"
#include "dtrt/core/Transport.h"

namespace dtrt {

/// When an instruction ran, in seconds of the steady clock. One that runs while
/// a group is under way lies within the group's.
struct StepTime {
  Opcode op = Opcode::Copy;
  int32_t wave = -1;
  uint64_t bytes = 0; // of a group, both ways
  double begin = 0;
  double end = 0;
};

struct ExecutionStats {
  uint64_t bytesSent = 0;
  uint64_t bytesReceived = 0;
  /// Of those sent: not packed, as their receivers read them in this device's
  /// shards.
  uint64_t bytesReadByPeers = 0;
  /// By copies of the program, without what stays in mode flat
  /// (StayingStates.h); tensors that are given for both sides included.
  uint64_t bytesCopied = 0;
  uint64_t bytesZeroed = 0;
  uint64_t messages = 0;
  /// Time in groups: on the wire, and waiting for peers to be ready for it;
  /// without what the rank does meanwhile.
  double groupSeconds = 0;
  /// Highest staging byte in use at any time: the arena that was needed.
  uint64_t stagingPeak = 0;
  /// Most bytes held at any time: live members of both sides and the arena.
  uint64_t devicePeak = 0;
  /// Wave of the group that was begun last, -1: none; and whether it has not
  /// ended, as where it has failed.
  int32_t wave = -1;
  bool isInGroup = false;
  /// Where `timeSteps` has asked for it; in the order in which they ended,
  /// without those that had nothing to do.
  std::vector<StepTime> steps;
};

/// What runs one device's program, wherever its shards are.
class ProgramRunner {
public:
  virtual ~ProgramRunner() = default;
  virtual Status run() = 0;
  virtual const ExecutionStats &stats() const = 0;
  /// Runs to come note `ExecutionStats::steps`, where the host can tell: what
  /// only starts work elsewhere notes nothing.
  virtual void timeSteps() {}
  /// Devices that the program talks to, ascending.
  virtual std::vector<uint32_t> peers() const = 0;
  /// Where messages that are not direct lie; null where there are none.
  virtual std::byte *staging() const = 0;
};

/// The devices that a program's messages go to or come from, ascending.
std::vector<uint32_t> peersOf(const RankProgram &program);

/// A device's part in a collective of so many members, whose blocks lie in the
/// arena.
CollectiveCall collectiveCall(size_t members, uint32_t device,
                              const GroupCollective &from, std::byte *arena);

/// `prepare` computes all views and allocates the staging arena; `run` only
/// moves bytes.
class Executor : public ProgramRunner {
public:
  /// Storage and transport must outlive the executor. What the transport only
  /// knows once it has connected is used when it has.
  static Result<Executor> prepare(LocalStorage &storage, Transport &transport,
                                  const ExecutionOptions &options = {});

  Status run() override;
  /// Lets the next run go over another end, of the same kind, of this device.
  void use(Transport &other) { transport = &other; }
  const ExecutionStats &stats() const override { return statistics; }
  void timeSteps() override { timesSteps = true; }
  std::vector<uint32_t> peers() const override;
  std::byte *staging() const override { return arena; }

private:
  struct Step {
    const Instruction *instruction = nullptr;
    std::vector<PreparedSegment> segments; // or of direct messages, in order
    std::vector<PreparedCopy> copies;
    uint64_t bytesCopied = 0; // of the copies, without what is there already
    std::vector<TransportMessage> messages;
    MessageView view; // Pack, Unpack: the segments as a message
  };

  Executor(LocalStorage &storage, Transport &transport)
      : storage(&storage), transport(&transport) {}
  static Result<Executor> prepareAll(LocalStorage &storage,
                                     Transport &transport,
                                     const ExecutionOptions &options);
  Result<Step> prepareStep(const Instruction &instruction,
                           const std::vector<uint64_t> &staying) const;
  Status prepareSegments(const std::vector<Segment> &segments,
                         Step &step) const;
  Status findRegions();
  Status runSteps();
  Status runStep(size_t index);
  Status runInstruction(size_t index);
  Status runCopy(const Step &step);
  Status runZero(const Step &step);
  Status runPack(const Step &step);
  Status runUnpack(const Step &step);
  Status runGroup(size_t index);
  Status runMessages(size_t index);
  Status runCollective(size_t index);
  void setViews(const PeerShards *peers);
  Status allocateStaging();
  void touchStaging(uint64_t slot, uint64_t bytes);

  LocalStorage *storage;
  Transport *transport;
  std::vector<Step> steps;
  ExecutionPlan execution;
  std::vector<std::vector<MessageRegions>> regions; // by step and message
  std::unique_ptr<std::byte[]> owned; // the arena, unless the transport's
  std::byte *arena = nullptr;
  ExecutionStats statistics;
  bool timesSteps = false;
};

} // namespace dtrt

#endif // DTRT_CORE_EXECUTOR_H
