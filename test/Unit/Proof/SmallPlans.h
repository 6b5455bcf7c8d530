//===- SmallPlans.h - Plans of three devices, and who judges ---*- C++ -*-===//

#ifndef DT_TEST_SMALLPLANS_H
#define DT_TEST_SMALLPLANS_H

#include "SmallMachine.h"
#include "dt/Proof/PlanRules.h"
#include "dtrt/types/Status.h"

#include <array>
#include <map>
#include <tuple>

namespace dt::testing {

/// A piece comes to a device: from itself, or in a wave.
struct SmallArrival {
  uint8_t piece = 0, from = 0, to = 0;
  int8_t wave = -1; // -1: a copy
};

/// One end of a message.
struct SmallEnd {
  int wave = 0;
  uint8_t device = 0, peer = 0;
  bool receive = false;
  friend bool operator<(const SmallEnd &a, const SmallEnd &b) {
    return std::tie(a.wave, a.device, a.peer, a.receive) <
           std::tie(b.wave, b.device, b.peer, b.receive);
  }
};

/// Storage of an element that comes or goes before a wave (-1: before copies;
/// kWaves: after all).
struct SmallStorage {
  uint8_t device = 0, element = 0;
  int wave = 0;
};

constexpr int kWaves = 3, kDirect = -1;

/// What the transport level says: a piece is one element of one tensor.
struct SmallPlan {
  unsigned pieces = 1;
  std::array<uint8_t, kMostDevices> held = {}, wanted = {}; // bits of pieces
  std::vector<SmallArrival> arrivals;
  /// First cell of an end, or kDirect. Others have cells of their own.
  std::map<SmallEnd, int> slots;
  std::vector<SmallStorage> creates, releases;
  dtrt::MemoryMode mode = dtrt::MemoryMode::Rollback;
  int64_t limit = kMostCells - 2; // of staging, in cells
  int64_t devicesPerNode = 8;

  /// The ends of a device in program order, with their sizes in cells.
  std::vector<std::pair<SmallEnd, int>> endsOf(uint8_t device) const;
};

/// The compiler's own form of a plan, and the programs that it makes of it.
class BuiltPlan {
public:
  explicit BuiltPlan(const SmallPlan &small);
  BuiltPlan(const BuiltPlan &) = delete;

  /// What the certificate says.
  MaybeFault certificate();
  const TransportPlan &transport() const { return plan; }
  const dtrt::PlanCommon &commonPart() const { return common; }
  const std::vector<dtrt::RankProgram> &allPrograms() const { return programs; }

private:
  void addShards();
  void addSteps();
  void addStorage(const std::vector<SmallStorage> &rows, int wave,
                  PlanStep::Kind kind);
  void addPieces(int wave);
  void addSlots(PlanStep &step);

  const SmallPlan &small;
  std::vector<Holding> source, destination;
  std::array<int, kMostDevices> nextCell = {};
  TransportPlan plan;
  dtrt::PlanCommon common;
  std::vector<dtrt::RankProgram> programs;
};

/// The common part of a plan of devices 0, 1, ... in both worlds: one tensor of
/// `elements` elements of four bytes.
dtrt::PlanCommon smallCommon(unsigned devices, unsigned elements,
                             int64_t devicesPerNode, uint64_t limitBytes);

/// What the verifier says of the file that has these programs; with the summary
/// that it finds, where it accepts it.
dtrt::Result<dtrt::PlanSummary>
verifiedFile(const dtrt::PlanCommon &common,
             const std::vector<dtrt::RankProgram> &programs);

} // namespace dt::testing

#endif // DT_TEST_SMALLPLANS_H
