//===- GuardedDevice.h - A device whose bytes have states -------*- C++ -*-===//
//
// Interprets one program with real bytes. Staging bytes are idle, packed or
// received, and only idle ones may be overwritten; destination bytes count
// their deliveries; released sources are poisoned and may not be read.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TEST_GUARDEDDEVICE_H
#define DTRT_TEST_GUARDEDDEVICE_H

#include "dtrt/core/ArenaStorage.h"
#include "dtrt/core/Packing.h"
#include "dtrt/core/Transport.h"

#include <map>
#include <random>
#include <tuple>

namespace dtrt::test {

/// One message of the group that the device is in. `direct`: its segment.
struct GuardedMessage {
  bool receive = false;
  uint32_t peer = 0;
  uint64_t bytes = 0;
  uint64_t slot = 0;
  std::byte *data = nullptr;
  const Segment *direct = nullptr;
};

/// All errors start with "corrupt:", but those of preparation.
class GuardedDevice {
public:
  /// Packs and unpacks are moved at random as far as an executor may overlap
  /// them with groups. The common part must outlive the device.
  static Result<std::unique_ptr<GuardedDevice>>
  create(const PlanCommon &common, RankProgram program, std::mt19937_64 &rng);

  /// Runs up to the next group and posts its messages; false at the end.
  Result<bool> runToGroup();
  const std::vector<GuardedMessage> &messages() const { return posted; }
  /// The bytes of a message to this device, now that both ends are there.
  Status arrive(const GuardedMessage &from, const GuardedMessage &to);
  /// All messages of the group have met their other ends.
  Status endGroup();
  /// Whether every destination byte arrived, once, with the right value.
  Status finish() const;

private:
  enum State : uint8_t { Idle, Packed, Received };

  GuardedDevice(const PlanCommon &common, RankProgram program)
      : common(common), program(std::move(program)) {}
  Status allocate();
  Status step(const Instruction &instruction);
  Status stage(const Instruction &instruction, bool isPack);
  Status relay(const Instruction &instruction);
  Status post(const Instruction &group);
  Status copyLocal(const Instruction &instruction);
  bool isAbsent(const PreparedSegment &segment, const StatePart &part,
                int64_t member, std::byte *buffer) const;
  void change(const Segment &range, bool isThere);
  Status read(const PreparedSegment &segment);
  Status deliver(const PreparedSegment &segment);
  Status occupy(uint64_t slot, uint64_t bytes, State state);
  Status expect(uint64_t slot, uint64_t bytes, State state) const;
  template <typename... Parts> Status corrupt(Parts &&...parts) const;

  const PlanCommon &common;
  const RankProgram program;
  std::unique_ptr<ArenaStorage> storage;
  std::vector<const Instruction *> order; // as it runs
  size_t next = 0;                        // in `order`
  const Instruction *current = nullptr;
  std::vector<GuardedMessage> posted;
  std::vector<std::byte> staging;
  std::vector<uint8_t> states; // of staging bytes
  /// Per byte of (side, shard, state, member): released or not created yet.
  std::map<std::tuple<Side, uint32_t, unsigned, int64_t>, std::vector<bool>>
      absent;
  /// Per byte of (destination shard, state, member).
  std::map<std::tuple<uint32_t, unsigned, int64_t>, std::vector<uint8_t>>
      deliveries;
};

} // namespace dtrt::test

#endif // DTRT_TEST_GUARDEDDEVICE_H
