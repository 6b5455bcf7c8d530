//===- Attempt.h - One try of all ranks to do something together *- C++ -*-===//
//
// The ranks of a world share one record in their store: the attempt that they
// are at. It is opened by the first rank that comes, and ends by a decision,
// `Committed` or `Aborted`. Every change of the record is one compare-and-set,
// so that there is one decision, the same for every rank:
//
//             the first rank          rank 0, which has seen that all are done
//   (nothing) ---------------> Open ------------------------------> Committed
//                               |                                       |
//                               | any rank                              |
//                               v            the next attempt           v
//                            Aborted ----------------------------->   Open
//
// This file knows what a rank that comes has to do, and no store:
// `Rendezvous` carries it out.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_STORE_ATTEMPT_H
#define DTRT_STORE_ATTEMPT_H

#include "dtrt/types/Status.h"

#include <cstdint>
#include <vector>

namespace dtrt {

/// Something that all ranks of an attempt must have alike.
struct Term {
  std::string name; // in words, as "plan"
  std::string value;
};

/// Why an attempt has ended.
struct Stop {
  uint32_t rank = 0; // that ended it
  ErrorCode code = ErrorCode::Cancelled;
  std::string why;
  GoneRanks gone{}; // as that rank knows

  /// The error as a rank sees it.
  Status toldTo(uint32_t reader) const;
};

struct Attempt {
  enum class State { Open, Committed, Aborted };

  std::string id; // no two attempts have one
  std::string kind;
  uint32_t opener = 0; // a rank
  std::string tag;
  std::vector<Term> terms;
  State state = State::Open;
  /// Open: some rank wants to know who is there.
  bool callsRoll = false;
  /// Committed: what the ranks have agreed on.
  std::string note;
  /// Aborted.
  Stop stop;
  /// Aborted: ranks that had not come, and have not been told yet.
  std::vector<uint32_t> missing;
  /// The attempt that this one has taken the place of, and its end: for its
  /// ranks that have not read that.
  std::string beforeId;
  std::optional<Stop> before;

  std::string text() const;
  static Result<Attempt> parse(const std::string &text);

  Attempt aborted(const Stop &stop, std::vector<uint32_t> missing) const;
  Attempt committed(const std::string &note) const;
};

/// A rank that wants to take part in an attempt.
struct Arrival {
  std::string kind;
  uint32_t rank = 0;
  /// What its trainer calls it; ranks with another tag are at another place of
  /// their work.
  std::string tag;
  std::vector<Term> terms;
};

/// What a rank that comes does about the record.
struct ArrivalStep {
  enum class What {
    Join,  // takes part in it
    Open,  // writes `record`, and takes part in that
    Leave, // writes `record`, if there is one, and fails with `why`
  };
  What what = What::Join;
  std::optional<Attempt> record;
  Status why;
};

/// `found`: the record as it is. `cameBefore`: it says that this rank is there
/// already, which then is another process or an earlier call. The id of a
/// record to open is left to the caller, and so are the missing ranks.
ArrivalStep arrive(const std::optional<Attempt> &found, const Arrival &arrival,
                   bool cameBefore);

} // namespace dtrt

#endif // DTRT_STORE_ATTEMPT_H
