//===- Limits.h - What a transition may ask for at most ---------*- C++ -*-===//
//
// A request of a few bytes can say a great deal: 2^32 shards, a tensor of 2^60
// bytes in messages of 4. So everything that is enumerated has a limit, which
// is compared before it is: nothing is built that is thrown away. The limits
// are far above the largest transitions of today and far below what would fill
// a machine or overflow an integer; docs/Request.md lists them.
//
//===----------------------------------------------------------------------===//

#ifndef DT_GEOMETRY_LIMITS_H
#define DT_GEOMETRY_LIMITS_H

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace dt {

/// Bytes of a request, of a model file and of a module.
constexpr int64_t kMaxInputBytes = int64_t(1) << 30;
/// Values (numbers, texts, lists, objects) of a JSON file.
constexpr size_t kMaxJsonValues = size_t(1) << 25;
/// How deep JSON and brackets of a module nest: readers are recursive.
constexpr size_t kMaxJsonDepth = 64, kMaxBracketDepth = 256;

/// Bytes of the name of a tensor, a state or an axis.
constexpr size_t kMaxNameBytes = 1024;
/// States of a tensor: one bit each in a 64-bit mask.
constexpr size_t kMaxStates = 64;
/// Rules of a request, and entries of its `derive` and `drop`, which are
/// compared with every tensor.
constexpr size_t kMaxRules = 4096;
/// Plans that one request may ask for.
constexpr size_t kMaxSetPlans = 4096;
/// Tensors of a model, members of families counted one by one.
constexpr int64_t kMaxTensors = int64_t(1) << 18;
/// Bytes that a tensor, all of its states together, may have, and that all
/// devices of one side may hold: sums of a few still fit 63 bits.
constexpr int64_t kMaxBytes = int64_t(1) << 60;
/// Bytes of a page that a request asks for.
constexpr int64_t kMinPageBytes = 64;
constexpr int64_t kMaxPageBytes = int64_t(1) << 30;
/// Whether it may: a power of two within these.
constexpr bool isPage(int64_t bytes) {
  return bytes >= kMinPageBytes && bytes <= kMaxPageBytes &&
         (bytes & (bytes - 1)) == 0;
}

/// Axes of a mesh.
constexpr size_t kMaxAxes = 64;
/// Ranks of a world.
constexpr int64_t kMaxRanks = int64_t(1) << 17;
/// Links of a cluster that differ, which are looked through for each pair.
constexpr size_t kMaxLinks = 4096;
/// Number of a device or a node, and devices of a node.
constexpr int64_t kMaxDevice = INT32_MAX;
/// Ranks of a world, once for each tensor, or family of tensors, that lies on
/// it: what evaluating a layout looks at.
constexpr int64_t kMaxPlacedRanks = int64_t(1) << 26;
/// Columns and ranges of rows in the text of a module.
constexpr size_t kMaxColumns = 64, kMaxRanges = 64;
/// Regions that the devices of one side hold, and rows of explicit shards.
constexpr int64_t kMaxRegions = int64_t(1) << 22;
/// Pieces of a transition: regions that are held and wanted by the same devices
/// throughout, counted for each device that wants them.
constexpr int64_t kMaxPieces = int64_t(1) << 24;
/// The same, counted for each device that holds them and so may send them.
constexpr int64_t kMaxChoices = int64_t(1) << 28;

/// Intervals of a tensor that is a view of a param.
constexpr int64_t kMaxViewIntervals = int64_t(1) << 16;

/// Messages of a transition.
constexpr int64_t kMaxMessages = int64_t(1) << 22;
/// Cuts of what one port of one device sends or receives, where each message
/// is as large as the staging limit allows.
constexpr int64_t kMaxPortCuts = int64_t(1) << 16;
/// Blocks of tensors that flat mode puts in order, counted for each piece, and
/// for each device whose memory they change: so many for each piece of each
/// tensor that moves or is copied, at least the second, and never more than the
/// last.
constexpr int64_t kFlatEffectsPerPiece = 1024;
constexpr int64_t kLeastFlatEffects = int64_t(1) << 20;
constexpr int64_t kMaxFlatEffects = int64_t(1) << 26;
constexpr int64_t mostFlatEffects(int64_t pieces) {
  return std::clamp(pieces * kFlatEffectsPerPiece, kLeastFlatEffects,
                    kMaxFlatEffects);
}
/// Number of a wave or a hop.
constexpr int64_t kMaxWave = INT32_MAX;

/// Rates in GBps (1e9 bytes/s), and a latency in microseconds: from a thousand
/// bytes to 1e15 bytes a second, and up to a second.
constexpr double kMinGBps = 1e-6, kMaxGBps = 1e6, kMaxLatencyUs = 1e6;
/// Of a call of a library that takes less than a ring.
constexpr double kMinCallUs = 1e-3;

/// Counts down what a search may still find. Searches that are given one stop
/// when it is used up, and what they have found by then is not all.
class WorkLimit {
public:
  explicit WorkLimit(int64_t most) : left(most) {}
  /// False when there are more than the limit.
  bool take(int64_t count = 1) {
    left = count > left ? -1 : left - count;
    return left >= 0;
  }
  bool isExceeded() const { return left < 0; }

private:
  int64_t left;
};

} // namespace dt

#endif // DT_GEOMETRY_LIMITS_H
