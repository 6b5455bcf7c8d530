//===- Advice.h - What a job should become next -----------------*- C++ -*-===//

#ifndef DT_ADVISE_ADVICE_H
#define DT_ADVISE_ADVICE_H

#include "dt/Advise/Destinations.h"

namespace dt::advise {

struct AdviceOptions {
  size_t rows = 8; // of the answer
  /// Layouts that are looked at closely: partitions, bytes.
  size_t finalists = 24;
  /// Above 0: also the fewest devices whose step takes at most this many times
  /// the best one's.
  double packWithin = 0;
};

struct AdviceRow {
  Destination destination;
  std::string name;    // "tp8-pp4-dp3"
  std::string request; // file name, once written
  int64_t movedBytes = 0;
  double transitionSeconds = 0;
  bool isCompiled = false;    // else bytes are counted, seconds estimated
  int64_t transitionPeak = 0; // bytes on a device while it lasts; compiled only
  MemoryMode mode = MemoryMode::Rollback; // of the request
  double evenStep = 0; // the same sizes with layers by count; 0: does not fit
  std::optional<int64_t> paysAfterSteps;
  bool isPacked = false; // the fewest devices within AdviceOptions::packWithin
  std::vector<int64_t> givenBack; // devices that it leaves free
};

struct Advice {
  /// Today's layout, where all of its devices are left.
  std::optional<Destination> today;
  /// What requests name as their source: today's layout, or the replicas of it
  /// that lost no device.
  Sizes source;
  /// Bytes of state that only lost devices hold: they have to be readable yet,
  /// or come from snapshots.
  int64_t lostBytes = 0;
  std::vector<AdviceRow> rows; // best first
  std::vector<std::string> notes;
};

/// Ranks layouts by what the next job.horizon steps and the change to them take
/// together; fails when no layout fits. Transitions are not compiled yet.
std::optional<Advice> advise(const Job &job, const AdviceOptions &options,
                             const Progress &progress, std::string &error);

/// Ranks anew, once transitions are known better, and says after how many steps
/// each pays: against today's layout where that still runs, else against the
/// row with the quickest transition.
void rankRows(const Job &job, Advice &advice);

} // namespace dt::advise

#endif // DT_ADVISE_ADVICE_H
