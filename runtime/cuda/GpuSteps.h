//===- GpuSteps.h - A program as work for streams ---------------*- C++ -*-===//
//
// Neighbouring packs of a program become one step, one launch, and so do
// unpacks, copies and zeros. Every step belongs to a lane, a stream that takes
// its steps in the order of the program; a step names the steps of other lanes
// that must have ended before it. In mode flat memory comes and goes between
// them: that is the host's work, a step of no lane.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_CUDA_GPUSTEPS_H
#define DTRT_LIB_CUDA_GPUSTEPS_H

#include "dtrt/core/BoxCopy.h"
#include "dtrt/core/BoxTable.h"
#include "dtrt/core/MessageRegions.h"
#include "dtrt/core/Transport.h"

#include <array>

namespace dtrt {

/// What depends on nothing of the wire has a lane of its own, so that nothing
/// of the wire waits for it.
enum class GpuLane : uint8_t { Wire, Packing, Unpacking, Local };
constexpr size_t kNumGpuLanes = 4;
constexpr size_t kNoStep = SIZE_MAX;

/// Staging bytes that a step reads or writes.
struct StagingUse {
  uint64_t lo = 0, hi = 0;
  bool writes = false;
};

struct GpuStep {
  size_t first = 0; // instruction
  Opcode op = Opcode::Group;
  GpuLane lane = GpuLane::Wire;
  size_t group = 0; // how many groups come before it
  BoxTable boxes;
  std::vector<TransportMessage> messages;
  std::vector<StagingUse> uses;
  bool readsDestination = false;
  bool writesDestination = false;
  uint64_t bytes = 0; // copied or zeroed
  /// Of a create or a release: what comes or goes.
  std::vector<Segment> storage;
  bool isOfHost() const {
    return op == Opcode::Create || op == Opcode::Release;
  }
  /// By lane: the last step that must have ended; kNoStep: none.
  std::array<size_t, kNumGpuLanes> after;
};

struct GpuSteps {
  std::vector<GpuStep> list;
  size_t groups = 0;
  uint64_t stagingPeak = 0; // the highest staging byte of a message
  /// By instruction and message; empty where the transport needs none.
  std::vector<std::vector<MessageRegions>> regions;
};

/// The steps of a storage's program, whose messages lie in `arena`, and have
/// these regions (regionsOf), or none. Nothing is read or written.
Result<GpuSteps> stepsOf(LocalStorage &storage, std::byte *arena,
                         std::vector<std::vector<MessageRegions>> regions);

} // namespace dtrt

#endif // DTRT_LIB_CUDA_GPUSTEPS_H
