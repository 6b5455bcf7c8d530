//===- Reschedule.cpp - Around the waves of an old plan -------------------===//

#include "dt/Scheduling/Reschedule.h"

#include "KeptWaves.h"
#include "dt/Scheduling/BestSchedule.h"

using namespace dt;

namespace {

/// A plan may take this much longer than one from zero, so that more of an old
/// one stays.
constexpr double kWorthKeeping = 1.05;

} // namespace

std::optional<std::string> dt::reschedule(const WaveProblem &problem,
                                          const WaveOptions &options,
                                          KeptSchedule &kept) {
  if (options.around) {
    auto error = scheduleKept(problem, options, kept);
    kept.bytesInWave =
        bytesInOldWaves(problem, *options.old, kept.schedule.moves);
    return error;
  }
  bool isKept = !scheduleKept(problem, options, kept);
  double seconds = isKept ? problem.seconds(kept.schedule.moves) : 0;
  if (isKept && seconds <= kWorthKeeping * options.lowerBound)
    return std::nullopt;
  WaveSchedule other;
  if (auto error = scheduleBest(problem, options, other))
    return isKept ? std::nullopt : error;
  if (!isKept || seconds > kWorthKeeping * problem.seconds(other.moves))
    kept = {std::move(other), 0};
  return std::nullopt;
}

int64_t dt::bytesInOldWaves(const WaveProblem &problem, const OldMoves &old,
                            const std::vector<ScheduledMove> &moves) {
  OldMoveIndex known(old);
  int64_t bytes = 0;
  for (const ScheduledMove &piece : moves)
    for (const OldMove &part : known.partsOf(piece.move))
      if (part.wave == piece.wave)
        bytes += part.move.box.volume() * problem.elementBytes[part.move.flow];
  return bytes;
}
