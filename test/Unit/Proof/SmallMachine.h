//===- SmallMachine.h - Every run of a small plan ---------------*- C++ -*-===//
//
// The machine of docs/ExecutionModel.md for plans of up to three devices whose
// every run is visited, in whatever order ranks, packs, unpacks and messages
// take their turns. It reads programs and knows nothing of how they are
// checked: a run ends with all bytes where they belong, or it gets stuck, or a
// byte goes wrong.
//
// Local work takes its turn any time after what it has to follow:
//
//   groups     in order, one at a time
//   pack       may come while the group before its own runs, before the work
//              that stands between
//   unpack     may come while the group after its own runs, after the work that
//              stands between
//   forwards   what reads a place of the destination comes after what has to
//              write it there
//   the rest   at its place
//
// That executors keep the order of what shares a byte of staging is not
// supposed: slots are safe by themselves, or the plan is wrong.
//
// Messages meet when both ends have begun. NCCL may hold a message back until
// those of lower rounds are done, wherever it cuts a group: what holds back
// most is looked at beside what holds back nothing. What is in between has
// steps that the latter has and stops nowhere where the former does not.
//
// One element is one cell of four bytes.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_SMALLMACHINE_H
#define DT_TEST_SMALLMACHINE_H

#include "dtrt/format/PlanModel.h"

#include <string>
#include <vector>

namespace dt::testing {

constexpr unsigned kMostDevices = 3, kMostElements = 8, kMostCells = 18;

struct SmallVerdict {
  enum class Kind { Right, Stuck, Corrupt };
  Kind kind = Kind::Right;
  std::string text;  // of the first fault
  size_t states = 0; // visited
  /// Most bytes that a device held at any time: shards and its arena.
  std::vector<uint64_t> peaks;
};

/// Visits every state that programs of devices 0, 1, ... may come to: of one
/// family of one dim and one state of four bytes. What is in memory follows
/// from what has been run, by which states are told apart; where it does not,
/// that is a fault.
SmallVerdict exploreAll(const std::vector<dtrt::RankProgram> &programs);

/// The same for groups alone, on a transport that holds back all that it may:
/// in the order of the rounds of a ring, ascending or descending, cut anywhere.
SmallVerdict exploreHeld(const std::vector<dtrt::RankProgram> &programs,
                         bool descending);

} // namespace dt::testing

#endif // DT_TEST_SMALLMACHINE_H
