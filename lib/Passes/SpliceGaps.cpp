//===- SpliceGaps.cpp - No wave in which nothing is sent ------------------===//

#include "SpliceGaps.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace dt {

namespace {

/// The pieces of a message, by number.
using Pieces = std::vector<size_t>;

class GapFiller {
public:
  GapFiller(std::vector<bool> isUsed,
            const std::function<int32_t(const Move &)> &firstWave,
            std::vector<ScheduledMove> &moves);

  FilledGaps run();

private:
  bool fill(int32_t gap);
  bool mayGo(const Pieces &message, int32_t wave) const;

  std::vector<bool> isUsed; // by what stays
  const std::function<int32_t(const Move &)> &firstWave;
  std::vector<ScheduledMove> &moves;
  std::map<int32_t, std::vector<Pieces>> messages; // by wave
};

GapFiller::GapFiller(std::vector<bool> isUsed,
                     const std::function<int32_t(const Move &)> &firstWave,
                     std::vector<ScheduledMove> &moves)
    : isUsed(std::move(isUsed)), firstWave(firstWave), moves(moves) {
  std::map<std::tuple<int32_t, int64_t, int64_t>, Pieces> all;
  for (size_t i = 0; i < moves.size(); ++i)
    all[{moves[i].wave, moves[i].move.source, moves[i].move.destination}]
        .push_back(i);
  for (auto &[message, pieces] : all)
    messages[std::get<0>(message)].push_back(std::move(pieces));
}

/// What has come to its sender in this route stays where it is.
bool GapFiller::mayGo(const Pieces &message, int32_t wave) const {
  return std::all_of(message.begin(), message.end(), [&](size_t piece) {
    const Move &move = moves[piece].move;
    return move.hop == 0 && firstWave(move) <= wave;
  });
}

/// With the last message that may go there.
bool GapFiller::fill(int32_t gap) {
  for (auto wave = messages.rbegin();
       wave != messages.rend() && wave->first > gap; ++wave) {
    auto &here = wave->second;
    auto found = std::find_if(here.begin(), here.end(), [&](const Pieces &own) {
      return mayGo(own, gap);
    });
    if (found == here.end())
      continue;
    for (size_t piece : *found)
      moves[piece].wave = gap;
    messages[gap].push_back(std::move(*found));
    int32_t from = wave->first;
    here.erase(found);
    if (here.empty())
      messages.erase(from);
    return true;
  }
  return false;
}

/// What leaves a wave may leave a gap there, later than this one: it is come to
/// later.
FilledGaps GapFiller::run() {
  auto last = [&] {
    int32_t wave = messages.empty() ? -1 : messages.rbegin()->first;
    auto used = std::find(isUsed.rbegin(), isUsed.rend(), true);
    return std::max(wave, int32_t(isUsed.rend() - used) - 1);
  };
  FilledGaps out;
  for (int32_t wave = 0; wave < last(); ++wave) {
    bool isStill = size_t(wave) < isUsed.size() && isUsed[size_t(wave)];
    if (isStill || messages.count(wave))
      continue;
    if (!fill(wave)) {
      out.someLeft = true;
      break;
    }
    out.hasMoved = true;
  }
  return out;
}

} // namespace

FilledGaps fillGaps(std::vector<bool> isUsed,
                    const std::function<int32_t(const Move &)> &firstWave,
                    std::vector<ScheduledMove> &moves) {
  return GapFiller(std::move(isUsed), firstWave, moves).run();
}

} // namespace dt
