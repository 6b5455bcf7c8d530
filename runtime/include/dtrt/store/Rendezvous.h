//===- Rendezvous.h - All ranks agree, or all learn why not -----*- C++ -*-===//
//
// One rank's part in an attempt (Attempt.h), through the store:
//
//   gather   finds the attempt that the other ranks are at, or opens one
//   agree    every rank hands in a record; rank 0 judges them all, and every
//            rank gets its verdict
//   commit   once all ranks are done it is decided, once and for all, and no
//            rank leaves before all have read that
//   abort    any rank, at any time before that decision
//
// A rank that does not come in time, or that has stopped with an error, is
// named in the error of every other rank. Nothing here waits without a limit,
// and `cancel` ends every wait at once.
//
// Keys are `ROOT/attempt`, the record, which stays; and `ROOT/ID/...`, which
// every rank removes as it leaves. What a rank that has died has left there is
// removed by the rank that has aborted, in `cleanUp`, or by the next attempt.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_STORE_RENDEZVOUS_H
#define DTRT_STORE_RENDEZVOUS_H

#include "dtrt/store/Attempt.h"
#include "dtrt/store/StoreClient.h"

#include <atomic>
#include <mutex>
#include <set>

namespace dtrt {

/// Where ranks agree in the course of an attempt.
enum class Step { Here, Nccl, Arena, Connected, Waves, Begun, Done, Report };

/// How an attempt has ended, or that it has not.
struct Decision {
  Attempt::State state = Attempt::State::Open;
  /// Committed: what rank 0 has made of the ranks' notes.
  std::string note;
  /// Aborted: the error as this rank tells it.
  Status why;
};

class Rendezvous {
public:
  /// `timeout`: how long a call waits for other ranks, until it has found out
  /// who is missing.
  Rendezvous(std::shared_ptr<Store> store, uint32_t rank, uint32_t size,
             Seconds timeout, std::string root = "dynatrain");

  /// The records in rank order; what it returns goes to every rank.
  using Judge =
      std::function<Result<std::string>(const std::vector<std::string> &)>;

  /// Finds the other ranks. They must have the same kind, tag and terms: a rank
  /// that differs ends the attempt for all at once.
  Result<std::string> gather(const Arrival &arrival, const std::string &record,
                             const Judge &judge);
  bool hasGathered() const { return gathered; }
  /// Instead of `gather`, for a rank that cannot take part: all ranks get
  /// `why`, those who have yet to come too.
  void refuse(const Arrival &arrival, const Status &why);
  Result<std::string> agree(Step step, const std::string &record,
                            const Judge &judge);

  /// The judge sees the notes of all ranks, none of which can commit without
  /// the others. Fails with Undecided where the decision cannot be learnt; a
  /// second call asks again. Returns when all ranks have read the decision, or
  /// do not read it in time.
  Result<Decision> commit(const std::string &note, const Judge &judge);
  /// Ends the attempt for all ranks and returns how it has ended: another rank
  /// may have been first, and a commit stands. From any thread.
  Result<Decision> abort(const Status &why);
  /// Ends the waits of this rank, and tells no other; `abort` must follow.
  void cancel(const Status &why) { client.cancel(why); }

  /// Fails when the attempt has been aborted, with the reason.
  Status checkStopped();
  /// What `failure` of this rank comes from: the reason of the rank that
  /// stopped first; of a timeout, or if asked to, ranks that give no sign of
  /// life. A rank tells all why it stops before it closes its connections, so
  /// that a lost connection is a cause only where nobody gave another. Where
  /// the store does not answer it may be the cause: the text has both.
  Status causeOf(const Status &failure, bool callsRoll = false);
  /// Whether a decision to commit can have been made without this rank knowing.
  bool mayBeCommitted() const { return saidDone; }

  /// Whether no rank is left that may still read that the attempt was aborted;
  /// true where it was not. A process that hosts the store waits for it.
  bool allHaveLeft();
  /// Whether it was this rank that has aborted the attempt.
  bool hasDecidedAbort() const { return hasAborted; }
  /// Removes what ranks that will not leave any more have left in the store,
  /// if it was this rank that has aborted the attempt.
  void cleanUp();

  /// A key and its value for something else that ranks do in this attempt.
  /// Fails once this rank has left it.
  Status share(const std::string &key, const std::string &value);
  /// Its value, once some rank has shared it; nothing: none has by the
  /// deadline.
  Result<std::optional<std::string>> await(const std::string &key,
                                           Deadline deadline);
  /// The same, without waiting.
  Result<std::optional<std::string>> find(const std::string &key);

  uint32_t rank() const { return self; }
  uint32_t size() const { return world; }
  Seconds timeout() const { return limit; }
  /// Of a wait after which there is time to find out who is missing.
  Seconds patience() const;

private:
  using Wait = StoreClient::Wait;
  using Heed = StoreClient::Heed;

  /// The store's record as it was read.
  struct Record {
    std::string text; // empty: there is none
    std::optional<Attempt> attempt;
    bool isOf(const std::string &id) const {
      return attempt && attempt->id == id;
    }
  };

  // The store's keys.
  std::string idOf() const;
  std::string recordKey() const { return root + "/attempt"; }
  std::string attemptKey(const std::string &of, const std::string &name) const;
  std::string keyOf(const std::string &name) const;
  Wait waitUntil(Deadline deadline) const;
  Wait coming() const;
  Wait regardless(double share = 1) const;
  Status put(const std::string &name, const std::string &value, Wait wait);
  Status removeKey(const std::string &name);
  bool removeOwn();
  void sweep(const std::string &ended);
  void sweepAborted(const std::string &ended);

  // The record.
  Result<Record> readRecord(Wait wait);
  Result<bool> replace(const Record &old, const Attempt &next, Wait wait);
  Result<Decision> look(Wait wait);
  Result<Decision> lookPast(const Record &record, Wait wait);
  void answerRoll();

  // Coming.
  Status join(const Arrival &given, const std::optional<std::string> &said);
  Result<bool> tryJoin(const Arrival &arrival,
                       const std::optional<std::string> &said);
  Result<bool> open(const Record &old, Attempt next);
  void take(const std::string &taken);
  Result<bool> enter(const std::string &said);
  Result<bool> turnBack(const Record &old, ArrivalStep &step);
  Status keepUnread(const Attempt &committed, Wait wait);
  Status dropRead(const Attempt &committed, Wait wait);

  // Waiting for the others.
  Result<std::optional<std::string>> awaitKey(const std::string &name,
                                              Deadline deadline);
  Result<std::optional<std::vector<std::string>>> collect(Step step,
                                                          Deadline deadline);
  Result<std::string> judgeAll(Step step, const Judge &judge,
                               Deadline deadline);
  Result<std::string> hearVerdict(Step step, const Judge &judge,
                                  Deadline deadline);
  Result<std::vector<uint32_t>> absent(const std::string &of, Step step,
                                       Wait wait);
  Result<bool> callRoll();
  Result<std::vector<uint32_t>> silent(std::vector<uint32_t> suspects);
  Status timeoutOf(const std::vector<uint32_t> &missing,
                   const char *others) const;
  Status late(Step step);

  // The decision.
  Result<Decision> sayDone(const std::string &note, const Judge &judge);
  Result<Decision> decide(const Judge &judge, Deadline deadline);
  Result<Decision> awaitDecision(Deadline deadline);
  Result<Decision> decideAbort(const Status &why);
  bool wasAborted(Wait wait);
  void leaveCommitted(Deadline end);
  void leaveAborted();

  StoreClient client;
  const uint32_t self;
  const uint32_t world;
  const Seconds limit;
  const std::string root;

  std::atomic<bool> saidDone{false};
  std::atomic<bool> gathered{false};   // all ranks have come
  std::atomic<bool> overtaken{false};  // by an attempt that is still open
  std::atomic<bool> answered{false};   // the roll
  std::atomic<bool> hasAborted{false}; // it was this rank's decision
  mutable std::mutex mutex;            // of what follows
  std::string id;                      // of the attempt; empty: in none yet
  std::set<std::string> own; // names of the keys that this rank has set
  bool hasLeft = false;      // and has removed them
};

/// "ranks 0-2 and 5".
std::string rankNames(const std::vector<uint32_t> &ranks);

} // namespace dtrt

#endif // DTRT_STORE_RENDEZVOUS_H
