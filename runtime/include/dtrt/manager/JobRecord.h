//===- JobRecord.h - A job's world, and who decides it ----------*- C++ -*-===//
//
// A job has one record in its store. It says which world the job is in, and
// which attempt to leave it is under way or was the last:
//
//                 anybody             the last to be ready
//   (any ended) ----------> Preparing --------------------> Transferring
//                            |    ^ |                        |    |    |
//                            |    '-' a newer request:       |    |    | flat:
//                            |        the next attempt       |    |    v the
//                            |                               |    |  Passed
//                            | anybody                       |    | last to
//                            v                               v    |    | begin
//                         Aborted <--------------------------'----)----'
//                                       anybody                   v
//                         Released <-------------------- Committed
//                                   the last to read that   the last to be done
//
// Every change is one compare-and-set of the whole record. So each attempt has
// one decision, which is written once: Committed, or Aborted, or that the next
// attempt has been opened in the same world. Numbers of attempts grow and are
// never used again.
//
// Names of processes and layouts of a world are in a record of its own, which
// never changes, so that this one stays small however large the world is. Where
// few processes come and go, this one says which: who knows the world that is
// left need not read the next one, which in a large job are most of its bytes.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_MANAGER_JOBRECORD_H
#define DTRT_MANAGER_JOBRECORD_H

#include "dtrt/types/Status.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dtrt {

/// One start of one process: a process that is started again has another name.
using ProcessName = std::string;

/// Who is in a world, and as what. Never changes under its name.
struct JobWorld {
  std::string name;                 // of its record; empty: nobody's world
  std::vector<ProcessName> members; // by rank
  std::string layout;

  bool has(const ProcessName &process) const;
  std::string text() const;
  static Result<JobWorld> parse(const std::string &name,
                                const std::string &text);
};

/// Many records name one world. Never null.
using JobWorldRef = std::shared_ptr<const JobWorld>;
/// The world without members, before the first one.
const JobWorldRef &nobodysWorld();

/// What somebody wants of the next world.
struct JobRequest {
  std::vector<ProcessName> join, leave;
  /// Processes that are gone: nothing is awaited of them.
  std::vector<ProcessName> lost;
  std::string layout; // empty: as it is
  /// Of the job from now on, as whoever founds it says: its plans are of mode
  /// flat; and there are snapshots, to go back to.
  bool flat = false;
  bool recalls = false;

  /// What makes `next` of `world`, where few words say that.
  static std::optional<JobRequest> between(const JobWorld &world,
                                           const JobWorld &next);
  /// This request, and then the next.
  JobRequest followedBy(const JobRequest &next) const;
  /// The world as this request makes it; without a name.
  JobWorld appliedTo(const JobWorld &world) const;
};

enum class JobPhase {
  Preparing,    // parties get ready, and training goes on
  Transferring, // all are ready: the boundary is fixed
  Passed,       // flat: all have begun, the old world goes
  Committed,
  Released, // and all parties have read that
  Aborted,
};

const char *jobPhaseName(JobPhase phase);

struct JobRecord {
  // The world that the job is in.
  uint64_t epoch = 0; // its number; 0: before the first world
  JobWorldRef world = nobodysWorld();
  uint64_t firstStep = 0;
  uint64_t bornOf = 0; // the attempt that has made it

  // The attempt that is under way, or was the last.
  uint64_t attempt = 0; // 0: there was none
  JobPhase phase = JobPhase::Released;
  JobWorldRef target = nobodysWorld();
  /// What makes the target of `world`; nothing: that takes too many words.
  std::optional<JobRequest> change;
  std::vector<ProcessName> lost;
  /// How many processes take part: `isParty`.
  uint64_t parties = 0;
  /// As `JobRequest` has them.
  bool flat = false;
  bool recalls = false;
  /// Preparing: no party that is ready goes beyond this step without asking.
  /// Later: the step to switch at.
  uint64_t horizon = 0;

  // What is left of the one before.
  std::string leaving; // Committed: the name of the world that was left

  // Aborted.
  ProcessName by;
  ErrorCode code = ErrorCode::Cancelled;
  std::string why;

  /// An attempt has ended after its point of no return: what the world's
  /// members held is gone, until they have something again.
  bool gone = false;

  bool isOpen() const { return phase <= JobPhase::Passed; }
  /// Of the attempt under way: the members of both worlds, but for the lost.
  bool isParty(const ProcessName &process) const;
  bool isLost(const ProcessName &process) const;
  /// Whether the attempt has a point of no return. None has what copies are the
  /// source of, which stay; nor what founds a job.
  bool passes() const { return flat && epoch != 0 && lost.empty() && !gone; }
  bool operator==(const JobRecord &other) const;

  /// The next attempt, in the place of one that has ended or only prepares;
  /// of the latter it takes over what was wanted.
  JobRecord opened(const JobRequest &request, const ProcessName &by) const;
  JobRecord withHorizon(uint64_t step) const;
  JobRecord aborted(const ProcessName &by, const Status &why) const;
  /// What follows when all parties have voted for it: Transferring, Passed,
  /// Committed, Released.
  JobRecord advanced() const;

  /// Worlds are in it by name: equal texts are equal records.
  std::string text() const;
  using LoadWorld = std::function<Result<JobWorldRef>(const std::string &name)>;
  /// An empty text is the record of a job that has not begun.
  static Result<JobRecord> parse(const std::string &text,
                                 const LoadWorld &load);
};

} // namespace dtrt

#endif // DTRT_MANAGER_JOBRECORD_H
