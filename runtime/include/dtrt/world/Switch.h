//===- Switch.h - One transition of a live job ------------------*- C++ -*-===//
//
// Every rank of the job makes a `Switch` and takes it through its phases:
//
//   prepare   all ranks compare plan, tag, layouts and tensors; then they
//             connect and compute all addresses. The trainer may go on
//             meanwhile.
//   transfer  the bytes move; nothing is allocated.
//   commit    one decision for all ranks, once all have all their bytes.
//
// An error says rank, phase and cause, and reaches every rank, those too that
// have yet to come: none hangs. Source tensors are only read, so that after
// `abort`, or any error but Undecided, the old world is as it was. Not so in
// mode flat, where memory of the source that can go is gone when it has been
// read: there the point of no return is the moment when all ranks have begun to
// transfer. Until then nothing is lost.
//
// `cancel` and `abort` may be called from any thread; the phases follow one
// another.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_WORLD_SWITCH_H
#define DTRT_WORLD_SWITCH_H

#include "dtrt/core/Executor.h"
#include "dtrt/core/LiveStorage.h"
#include "dtrt/core/PeerShards.h"
#include "dtrt/core/TensorBinding.h"
#include "dtrt/store/Rendezvous.h"
#include "dtrt/transport/Secret.h"

#include <mutex>

namespace dtrt {

/// Where a rank stands among those that take part.
struct World {
  uint32_t rank = 0;
  uint32_t size = 1;
  /// Plan device of each rank; empty: the plan's devices in ascending order.
  std::vector<uint32_t> devices;
  /// Of each phase: when it has passed, every rank has an error that names
  /// those that are missing.
  Seconds timeout{300};
  /// What the trainer calls this switch; the same on all ranks.
  std::string tag = "null";
  std::shared_ptr<Store> store;
};

/// The device of each rank; fails when the world does not fit the plan.
Result<std::vector<uint32_t>> devicesOf(const PlanReader &plan,
                                        const World &world);

class Switch {
public:
  enum class Outcome { Open, Committed, Aborted, Undecided };

  /// The plan must outlive the switch.
  static Result<std::unique_ptr<Switch>> create(const PlanReader &plan,
                                                const World &world);
  /// For a rank that cannot take part: all ranks get `why`.
  static void refuse(const PlanReader &plan, const World &world,
                     const Status &why);
  /// Aborts a switch that has not ended.
  ~Switch();

  /// All ranks compare what they have. `note` is any text (UTF-8) of the
  /// caller; the first one that is not empty, in rank order, comes back on
  /// every rank.
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
  Status cannotConnect(const Status &why);
  /// Collective; between two steps of training, once, before `transfer`, which
  /// does it otherwise: what a transport's first messages cost.
  Status warmUp();
  /// After `connect`, in mode flat: that pools have all pages that this rank
  /// will need at once (PagePool.h). `transfer` does it before any rank begins;
  /// who decides earlier that there is no way back calls it before that.
  Status makeSure();
  /// `note` as in `compare`, of this moment; `commit` hands it to all ranks.
  Status transfer(const std::string &note = "");
  /// The note of the lowest rank that gave one to `transfer`; else that of
  /// `compare`. Where it fails with Undecided the outcome is open to this rank:
  /// the tensors of both sides must stay, and a second call asks again.
  Result<std::string> commit();
  /// For a caller that finds a fault of its own in a phase: ends the switch.
  /// Returns the error that names rank and phase.
  Status fail(const char *phase, const Status &why);
  /// The other ranks get `why` in their next call, or in the one they are in.
  /// A switch that is committed stays so.
  Outcome abort(const Status &why);
  /// Ends the call that is under way in another thread; `abort` must follow.
  void cancel(const Status &why);

  Outcome outcome() const;
  const ExecutionStats &stats() const { return runner->stats(); }
  /// After `connect`: `ProgramRunner::timeSteps`.
  void timeSteps() { runner->timeSteps(); }
  const std::vector<uint32_t> &devices() const { return rankDevices; }
  /// Time that the instructions took, without the ranks' agreement.
  double seconds() const { return elapsed; }
  /// After `compare`: what the ranks of this switch, and nobody else, have.
  const Secret &secret() const { return shared; }
  /// For what connects the ranks; lives as long as anybody wants.
  std::shared_ptr<Rendezvous> ranks() const { return rendezvous; }
  /// For transports: ends early enough to find out who is missing.
  Seconds patience() const { return rendezvous->patience(); }

private:
  enum class Phase {
    New,
    Compared,
    Connected,
    Transferred,
    Undecided,
    Committed,
    Failed
  };
  class Watch;

  Switch(const PlanReader &plan, const World &world);
  Status enter(const char *name, Phase expected);
  Status leave(const char *name, Phase reached, const Status &status);
  Status named(const char *name, const Status &why) const;
  Status withLosses(const Status &why) const;
  Status end(const Status &why);
  Status readVerdict(const std::string &verdict);
  Status meet(const MakeRunner &make);
  Status runProgram();
  Status runWarmUp();
  Status beginTogether();

  const PlanReader *plan;
  Arrival arrival;
  std::shared_ptr<Rendezvous> rendezvous;
  std::vector<uint32_t> rankDevices;
  RankProgram program;
  Secret shared;
  std::string preparedNote, transferNote;
  std::unique_ptr<LiveStorage> storage;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<PeerShards> peerShards; // in memory of the transport's
  std::unique_ptr<ProgramRunner> runner;  // before the transport goes
  std::unique_ptr<Watch> watching;        // from `compare` to the end
  bool warm = false;
  std::atomic<bool> hasLost{false}; // of the source, with the first byte
  bool hasArrived = false;          // all that this rank gets
  double elapsed = 0;
  mutable std::mutex mutex; // of what follows, and of setting the transport
  Phase phase = Phase::New;
  Status cancelled; // why, once it is
  Status stopped;   // why, once failed
};

} // namespace dtrt

#endif // DTRT_WORLD_SWITCH_H
