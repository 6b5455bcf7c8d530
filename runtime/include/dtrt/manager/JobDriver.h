//===- JobDriver.h - A process's part in a job, through a store -*- C++ -*-===//
//
// Carries out what a `JobMember` wants: its calls of the store, one at a time,
// and its waits, which end by the one timeout or by `cancel`. Between calls it
// says how long there is nothing to do. The trainer's side does the work of an
// attempt, in its own time, and says when it is over.
//
// Keys, below ROOT:
//
//   job                  the record (JobRecord.h)
//   world/NAME           a world
//   ATTEMPT/ready|...    counters of votes
//   alive/PROCESS        a counter that its process adds to with every beat
//
// Whether a process is still there is told by counting, not by clocks: every
// member adds to its own counter and looks at that of the next one in its
// world, and takes it for lost when it stood still for so many beats of its
// own. A process that was stopped itself has made no beats.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_MANAGER_JOBDRIVER_H
#define DTRT_MANAGER_JOBDRIVER_H

#include "dtrt/manager/JobMember.h"
#include "dtrt/store/Pause.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

namespace dtrt {

/// All times of a job, from one. Each is shorter than what encloses it.
struct JobTimes {
  /// Fails where `timeout`, in seconds, leaves no time for what is in it.
  static Result<JobTimes> from(Seconds timeout);

  Seconds timeout{300}; // what the user gives; c10d's own has to be longer
  Seconds wait{180};    // for other processes, in each state
  Seconds answer{60};   // of the store
  Seconds beat{3};
  /// So many beats without a sign of life are a loss.
  uint64_t silentBeats = 10;
};

/// What the trainer's side is asked to do. None of these waits: the work goes
/// on elsewhere and ends with `JobDriver::ended` or `failed`.
class JobWork {
public:
  virtual ~JobWork() = default;
  /// `record`: its target is the world to be made, its world the one to leave.
  virtual void prepare(const JobRecord &record) = 0;
  virtual void transfer(const JobRecord &record) = 0;
  virtual void verify(const JobRecord &record) = 0;
  /// The new world is the world now; the old one may be released.
  virtual void adopt(const JobRecord &record) = 0;
  /// The old world goes on; what the attempt has made is not needed.
  virtual void discard(uint64_t attempt, const Status &why) = 0;
  /// What was asked for cannot be. A failed attempt is told by `discard`.
  virtual void refused(const Status &why) = 0;
  /// All have heard how the attempt has ended: keys of the trainer's own that
  /// belong to it may go, where a process that has died has left some.
  virtual void swept(uint64_t attempt) { (void)attempt; }
  virtual void stopped(JobEnd end, const Status &why) = 0;
  /// `record` or `state` of the driver are not what they were; on any thread.
  virtual void noticed() {}
};

class JobDriver {
public:
  /// `work` must outlive the driver.
  JobDriver(std::shared_ptr<Store> store, const ProcessName &self,
            const JobTimes &times, JobWork &work,
            std::string root = "dynatrain", uint64_t lead = 1);

  // From any thread.
  void ask(const JobRequest &request);
  /// So many steps of the job are over.
  void atBoundary(uint64_t step);
  /// The work that was asked for last. `backTo`: `JobEvent::backTo`.
  void ended(JobAction::What work, uint64_t attempt,
             std::optional<uint64_t> backTo = std::nullopt);
  void failed(uint64_t attempt, const Status &why);
  /// Ends a call of the store, and all of this process's part.
  void cancel(const Status &why);
  /// Whether the trainer may begin another step.
  bool mayStep() const;
  JobMember::State state() const;
  JobRecord record() const;
  /// `JobMember::queued`.
  std::optional<JobRequest> queued() const;
  /// How often the store has answered, or failed to, what the member asked.
  uint64_t answers() const { return numAnswers; }
  /// Whether all that the member wants has been carried out.
  bool isQuiet() const;
  /// Whether keys of an attempt that is over have yet to be removed.
  bool sweeps() const;

  /// Does what can be done now, of which at most one step waits for the store.
  /// Returns when it has to be called next; earlier does no harm.
  Deadline turn();
  /// Calls `turn` again and again, until this process has no part in the job.
  void run();

private:
  using Wait = StoreClient::Wait;

  void give(const JobEvent &event);
  void carryOut(const JobAction &action);
  void callStore(const JobAction &action);
  Result<JobRecord> parse(const std::string &text);
  Result<JobRecord> load();
  Result<JobRecord> replace(const JobAction &action);
  Result<JobWorldRef> loadWorld(const std::string &name);
  void adopt(const JobAction &action);
  void sweep(const JobAction &action);
  Deadline passTime(Deadline now);
  /// Whether it waits for others, who then have to be seen soon.
  Seconds untilNextLook(bool waits);
  const ProcessName &nextAlive(const JobRecord &record) const;
  Status beat();
  void watch(const std::optional<std::string> &sign);
  std::string key(const std::string &name) const { return root + "/" + name; }
  std::string voteKey(uint64_t attempt, JobVote vote) const {
    return key(std::to_string(attempt) + "/" + jobVoteName(vote));
  }
  Wait answer() const { return {deadlineIn(times.answer)}; }

  StoreClient client;
  const ProcessName self;
  const std::string root;
  const JobTimes times;
  JobWork &trainer;

  mutable std::mutex mutex;        // of what follows
  std::condition_variable changed; // actions
  JobMember member;
  std::deque<JobAction> actions; // to be carried out
  bool isActing = false;         // carries one out
  bool isSweeping = false;       // that one removes keys
  std::atomic<uint64_t> numAnswers{0};

  // Of the thread that turns.
  std::map<std::string, JobWorldRef> worlds; // that were read or written
  std::string lastText;                      // of the record, and what it says
  JobRecord lastRecord;
  uint64_t waiting = 0; // which wait of the member's
  Pause pause{1};
  Seconds idleLook{0}; // where it waits for nothing
  Deadline late{}, nextLook{}, nextBeat{};
  ProcessName watched;
  std::string lastSign;
  uint64_t silence = 0; // beats
};

} // namespace dtrt

#endif // DTRT_MANAGER_JOBDRIVER_H
