//===- Switch.h - One transition of a live job ------------------*- C++ -*-===//
//
// Every rank of the job makes a `Switch` and takes it through its phases:
//
//   prepare   all ranks compare plan, layouts and tensors; then they connect
//             and compute all addresses. The trainer may go on meanwhile.
//   transfer  the bytes move; nothing is allocated.
//   commit    all ranks have all their bytes, or all get an error.
//
// An error says rank, phase and peer, and reaches every rank: none hangs.
// Source tensors are only read, so that after `abort`, or any error, the old
// world is as it was. Not so in mode flat, where memory of the source that can
// go is gone when it has been read: there the point of no return is the moment
// when all ranks have begun to transfer. Until then nothing is lost.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_SWITCH_H
#define DTRT_SWITCH_H

#include "dtrt/Executor.h"
#include "dtrt/LiveStorage.h"
#include "dtrt/Rendezvous.h"

#include <functional>

namespace dtrt {

/// Where a rank stands among those that take part.
struct World {
  uint32_t rank = 0;
  uint32_t size = 1;
  /// Plan device of each rank; empty: the plan's devices in ascending order.
  std::vector<uint32_t> devices;
  Seconds timeout{300};
  /// Starts all keys in the store; differs between transitions.
  std::string prefix = "dynatrain/0";
  std::shared_ptr<Store> store;
};

/// The device of each rank; fails when the world does not fit the plan.
Result<std::vector<uint32_t>> devicesOf(const PlanReader &plan,
                                        const World &world);

class Switch {
public:
  /// The plan must outlive the switch.
  static Result<std::unique_ptr<Switch>> create(const PlanReader &plan,
                                                const World &world);
  /// For a rank that cannot take part: all ranks get `why`.
  static Status refuse(const PlanReader &plan, const World &world,
                       const Status &why);
  ~Switch();

  /// All ranks compare what they have. `note` is any text of the caller; the
  /// first one that is not empty, in rank order, comes back on every rank.
  Result<std::string> compare(const std::vector<TensorBinding> &tensors,
                              const std::string &note);
  using MakeRunner = std::function<Result<std::unique_ptr<ProgramRunner>>(
      LocalStorage &, Transport &)>;
  /// Connects, then computes everything that `transfer` needs. `make` makes
  /// what runs the program where the tensors are; without one they are the
  /// host's.
  Status connect(std::unique_ptr<Transport> transport,
                 const MakeRunner &make = {});
  /// Instead of `connect`, where there is nothing to connect with: finds out
  /// who is missing. Always an error.
  Status cannotConnect(const std::string &why);
  Status transfer();
  Status commit();
  /// For a caller that finds a fault of its own in a phase: ends the switch.
  /// Returns the error that names rank and phase.
  Status fail(const char *phase, const Status &why);
  /// The other ranks get `why` in their next call, or in the one they are in.
  void abort(const Status &why);

  const ExecutionStats &stats() const { return runner->stats(); }
  const std::vector<uint32_t> &devices() const { return rankDevices; }
  /// Time that the instructions took, without the ranks' agreement.
  double seconds() const { return elapsed; }

private:
  enum class Phase { New, Compared, Connected, Transferred, Committed, Failed };

  Switch(const PlanReader &plan, const World &world);
  Status enter(const char *phase, Phase expected);
  Status leave(const char *phase, Phase reached, const Status &status);
  Status meet(const MakeRunner &make);
  Status runProgram();
  Status beginTogether();
  Status withLoss(const Status &status) const;

  const PlanReader *plan;
  Rendezvous rendezvous;
  std::vector<uint32_t> rankDevices;
  RankProgram program;
  std::unique_ptr<LiveStorage> storage;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<ProgramRunner> runner; // before the transport goes
  Phase phase = Phase::New;
  double elapsed = 0;
};

} // namespace dtrt

#endif // DTRT_SWITCH_H
