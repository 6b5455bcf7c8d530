//===- JobBinding.h - A process's part in an elastic job --------*- C++ -*-===//
//
// Runs a `JobDriver` on a thread of its own, over a store of c10d. What it asks
// of the trainer waits in a queue until the trainer comes to take it, at a
// boundary between two steps: no thread here ever needs Python.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TORCH_JOBBINDING_H
#define DTRT_TORCH_JOBBINDING_H

#include "JobStore.h"

#include "dtrt/manager/JobDriver.h"

#include <pybind11/pybind11.h>
#include <thread>

namespace dtrt {

/// Something that the trainer's side is asked to do.
struct JobTask {
  enum class What {
    Prepare,
    Transfer,
    Verify,
    Adopt,
    Discard,
    Refused,
    Swept, // keys of `attempt` are to be removed
    Stopped,
  };
  What what = What::Prepare;
  uint64_t attempt = 0;
  JobRecord record; // Prepare to Adopt
  Status why;       // Discard, Refused, Stopped
  JobEnd end = JobEnd::None;
};

class LiveJob : private JobWork {
public:
  /// Fails where `timeout`, in seconds, is too short.
  LiveJob(c10::intrusive_ptr<c10d::Store> store, const std::string &name,
          double timeout, const std::string &root, uint64_t lead);
  ~LiveJob() override;

  // From any thread; none of these waits.
  void ask(const JobRequest &request) { driver.ask(request); }
  void ended(JobAction::What work, uint64_t attempt,
             std::optional<uint64_t> backTo) {
    driver.ended(work, attempt, backTo);
  }
  void failed(uint64_t attempt, const Status &why) {
    driver.failed(attempt, why);
  }
  JobMember::State state() const { return driver.state(); }
  JobRecord record() const { return driver.record(); }
  std::optional<JobRequest> queued() const { return driver.queued(); }
  const JobTimes &times() const { return limits; }
  /// Of keys of an attempt; stopped when that is discarded.
  c10::intrusive_ptr<c10d::Store> store(uint64_t attempt);
  /// This process needs the store of an attempt no more.
  void leave(uint64_t attempt);

  /// So many steps are over. Whether the trainer may go on at once.
  bool atBoundary(uint64_t step);
  /// Waits for something to do, in the order in which it was asked for;
  /// nothing: the trainer may take a step, or `seconds` have passed, or `wake`.
  std::optional<JobTask> next(Seconds seconds);
  void wake();
  /// From now on a byte is written to this file whenever `record` or `state`
  /// tell something else; -1: to none.
  void notify(int file);
  /// Waits until the store has been asked anew how the job stands, at most
  /// `seconds`, and what follows from it can be taken.
  void listen(Seconds seconds);
  /// Ends this process's part: an attempt that is under way fails with `why`;
  /// one that is decided has up to `seconds` to reach all.
  void close(const Status &why, Seconds seconds);

private:
  void prepare(const JobRecord &record) override;
  void transfer(const JobRecord &record) override;
  void verify(const JobRecord &record) override;
  void adopt(const JobRecord &record) override;
  void discard(uint64_t attempt, const Status &why) override;
  void refused(const Status &why) override;
  void swept(uint64_t attempt) override;
  void stopped(JobEnd end, const Status &why) override;
  void noticed() override;
  void give(JobTask task);
  void stopStores(uint64_t upTo, const Status &why);

  c10::intrusive_ptr<c10d::Store> trainers;
  const std::string root;
  const JobTimes limits;
  std::mutex mutex; // of what follows
  std::condition_variable changed;
  std::deque<JobTask> tasks;
  bool woken = false;
  int noticeFile = -1;
  std::map<uint64_t, c10::intrusive_ptr<JobStore>> stores; // by attempt
  uint64_t over = 0; // this attempt and all before have ended, because of
  Status overWhy;
  JobDriver driver;
  std::thread thread; // last: it uses the others
};

/// Adds the classes to the extension module.
void bindJob(pybind11::module_ &module);

} // namespace dtrt

#endif // DTRT_TORCH_JOBBINDING_H
