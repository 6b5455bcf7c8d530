//===- Overlaps.cpp - Which boxes of two lists meet -----------------------===//
//
// Recursive bisection: cut space by a plane, send every box to the sides that
// it reaches, and stop where few candidates are left. Planes are chosen on a
// sample, so that a node costs little more than moving its indices.
//
//===----------------------------------------------------------------------===//

#include "dt/Geometry/Overlaps.h"

#include <algorithm>
#include <array>
#include <limits>

namespace dt {

namespace {

/// Boxes tested by brute force per box of a node: cheaper than cutting on.
constexpr size_t kBruteForceFactor = 24;
/// Boxes of each list that the choice of a plane looks at.
constexpr size_t kSampleSize = 24;
/// A cut must leave each side at most this share of the candidate pairs.
constexpr double kLargestUsefulShare = 0.97;
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

struct SplitPlane {
  int dim = -1; // -1: no plane is worth it
  int64_t at = 0;
};

/// The extents of some boxes in one dim.
struct Sample {
  std::array<Interval, kSampleSize> extents;
  size_t count = 0;

  void add(Interval extent) { extents[count++] = extent; }
  const Interval *begin() const { return extents.data(); }
  const Interval *end() const { return begin() + count; }
};

class Bisection {
public:
  Bisection(BoxList a, BoxList b, WorkLimit *limit, bool limitsMoves)
      : a(a), b(b), limit(limit), limitsMoves(limitsMoves) {}

  std::vector<IndexPair> run() {
    if (a.size() == 0 || b.size() == 0)
      return {};
    rank = a[0].rank();
    bounds = Box(rank);
    for (unsigned dim = 0; dim < rank; ++dim)
      bounds[dim] = {kMin, kMax};
    for (uint32_t i = 0; i < a.size(); ++i)
      stack.push_back(i);
    for (uint32_t i = 0; i < b.size(); ++i)
      stack.push_back(i);
    visit(0, a.size(), stack.size());
    return std::move(pairs);
  }

private:
  /// A node's boxes of `a` are stack[begin, middle), those of `b`
  /// stack[middle, end); its part of space is `bounds`.
  void visit(size_t begin, size_t middle, size_t end) {
    size_t numA = middle - begin;
    size_t numB = end - middle;
    if (numA == 0 || numB == 0 || isSpent(numA + numB))
      return;
    SplitPlane plane;
    if (numA * numB > kBruteForceFactor * (numA + numB))
      plane = choosePlane(begin, middle, end);
    if (plane.dim < 0)
      return testAll(begin, middle, end);
    Interval whole = bounds[plane.dim];
    visitSide(begin, middle, end, plane, {whole.lo, plane.at});
    visitSide(begin, middle, end, plane, {plane.at, whole.hi});
    bounds[plane.dim] = whole;
  }

  void visitSide(size_t begin, size_t middle, size_t end, SplitPlane plane,
                 Interval side) {
    bounds[plane.dim] = side;
    size_t start = stack.size();
    select(a, begin, middle, plane.dim, side);
    size_t sideMiddle = stack.size();
    select(b, middle, end, plane.dim, side);
    visit(start, sideMiddle, stack.size());
    stack.resize(start);
  }

  void select(BoxList boxes, size_t begin, size_t end, unsigned dim,
              Interval side) {
    for (size_t i = begin; i < end; ++i) {
      uint32_t index = stack[i];
      Interval extent = boxes[index][dim];
      if (extent.lo < side.hi && side.lo < extent.hi)
        stack.push_back(index);
    }
  }

  /// Boxes that reach both sides of every plane are moved often without a pair
  /// to show for it: a limit on pairs is one on moves, too.
  bool isSpent(size_t moves) {
    constexpr size_t kMovesPerBox = 1024;
    if (!limit)
      return false;
    moved += moves;
    if (limitsMoves &&
        moved > kMovesPerBox * (a.size() + b.size() + pairs.size()))
      limit->take(kMax);
    return limit->isExceeded();
  }

  /// A pair whose boxes both reach several nodes belongs to the node that has
  /// the low corner of their intersection.
  void testAll(size_t begin, size_t middle, size_t end) {
    for (size_t i = begin; i < middle; ++i) {
      const Box &left = a[stack[i]];
      for (size_t j = middle; j < end; ++j)
        if (meetHere(left, b[stack[j]])) {
          if (limit && !limit->take())
            return;
          pairs.emplace_back(stack[i], stack[j]);
        }
    }
  }

  /// Most do not meet at all.
  bool meetHere(const Box &left, const Box &right) const {
    for (unsigned dim = 0; dim < rank; ++dim)
      if (left[dim].hi <= right[dim].lo || right[dim].hi <= left[dim].lo)
        return false;
    for (unsigned dim = 0; dim < rank; ++dim) {
      Interval both = intersect(left[dim], right[dim]);
      if (both.empty() || both.lo < bounds[dim].lo || both.lo >= bounds[dim].hi)
        return false;
    }
    return true;
  }

  SplitPlane choosePlane(size_t begin, size_t middle, size_t end) const {
    SplitPlane best;
    size_t strideA = (middle - begin + kSampleSize - 1) / kSampleSize;
    size_t strideB = (end - middle + kSampleSize - 1) / kSampleSize;
    double bestShare = kLargestUsefulShare;
    for (unsigned dim = 0; dim < rank; ++dim) {
      Sample sampleA, sampleB;
      for (size_t i = begin; i < middle; i += strideA)
        sampleA.add(intersect(a[stack[i]][dim], bounds[dim]));
      for (size_t i = middle; i < end; i += strideB)
        sampleB.add(intersect(b[stack[i]][dim], bounds[dim]));
      int64_t at = 0;
      if (!middleCut(sampleA, sampleB, at))
        continue;
      double share = candidateShare(sampleA, sampleB, at);
      if (share < bestShare) {
        bestShare = share;
        best = {int(dim), at};
      }
    }
    return best;
  }

  /// The median of the lower ends; of those above the least, if that is it.
  static bool middleCut(const Sample &sampleA, const Sample &sampleB,
                        int64_t &at) {
    std::array<int64_t, 2 * kSampleSize> starts;
    auto end = starts.begin();
    for (const Sample *sample : {&sampleA, &sampleB})
      for (Interval extent : *sample)
        *end++ = extent.lo;
    auto middle = starts.begin() + (end - starts.begin()) / 2;
    std::nth_element(starts.begin(), middle, end);
    const int64_t least = *std::min_element(starts.begin(), middle + 1);
    at = *middle;
    if (at > least)
      return true;
    at = kMax;
    for (auto start = middle; start != end; ++start)
      if (*start > least)
        at = std::min(at, *start);
    return at != kMax;
  }

  /// Candidate pairs of the larger side of a cut, as a share of those before:
  /// small for even cuts through few boxes.
  static double candidateShare(const Sample &sampleA, const Sample &sampleB,
                               int64_t at) {
    auto countSides = [&](const Sample &sample, double &below, double &above) {
      for (Interval extent : sample) {
        below += extent.lo < at;
        above += extent.hi > at;
      }
    };
    double belowA = 0, aboveA = 0, belowB = 0, aboveB = 0;
    countSides(sampleA, belowA, aboveA);
    countSides(sampleB, belowB, aboveB);
    double total = double(sampleA.count) * double(sampleB.count);
    double below = belowA * belowB / total;
    double above = aboveA * aboveB / total;
    return std::max(below, above);
  }

  BoxList a, b;
  WorkLimit *limit;
  bool limitsMoves;
  size_t moved = 0;
  unsigned rank = 0;
  Box bounds;
  std::vector<uint32_t> stack;
  std::vector<IndexPair> pairs;
};

/// A key and the index of what it belongs to: sorting these touches no box
/// unless keys are equal.
using KeyedIndex = std::pair<uint64_t, uint32_t>;

/// Row-major position of each low corner in the bounding box of all low
/// corners; empty when that does not fit 63 bits. `cornerOf(i, dim)` is the
/// lower end of box i.
template <class CornerOf>
std::vector<KeyedIndex> cornerKeys(size_t count, unsigned rank,
                                   CornerOf cornerOf) {
  Box corners(rank); // closed intervals
  double positions = 1;
  for (unsigned dim = 0; dim < rank; ++dim) {
    corners[dim] = {kMax, kMin};
    for (size_t i = 0; i < count; ++i) {
      int64_t lo = cornerOf(i, dim);
      corners[dim].lo = std::min(corners[dim].lo, lo);
      corners[dim].hi = std::max(corners[dim].hi, lo);
    }
    positions *= double(corners[dim].hi) - double(corners[dim].lo) + 1;
  }
  if (positions >= 9e18)
    return {};
  std::vector<KeyedIndex> keyed(count);
  for (size_t i = 0; i < count; ++i) {
    uint64_t key = 0;
    for (unsigned dim = 0; dim < rank; ++dim)
      key = key * uint64_t(corners[dim].hi - corners[dim].lo + 1) +
            uint64_t(cornerOf(i, dim) - corners[dim].lo);
    keyed[i] = {key, uint32_t(i)};
  }
  return keyed;
}

/// Sorts 0..count-1 by the boxes `boxOf(i)`.
template <class CornerOf, class BoxOf>
std::vector<uint32_t> sortBoxes(size_t count, unsigned rank, CornerOf cornerOf,
                                BoxOf boxOf) {
  std::vector<KeyedIndex> keyed = cornerKeys(count, rank, cornerOf);
  if (keyed.empty())
    for (uint32_t i = 0; i < count; ++i)
      keyed.push_back({0, i});
  auto less = [&](const KeyedIndex &x, const KeyedIndex &y) {
    if (x.first != y.first)
      return x.first < y.first;
    const Box &a = boxOf(x.second);
    const Box &b = boxOf(y.second);
    return a != b ? a < b : x.second < y.second;
  };
  if (!std::is_sorted(keyed.begin(), keyed.end(), less))
    std::sort(keyed.begin(), keyed.end(), less);
  std::vector<uint32_t> order(count);
  for (size_t i = 0; i < count; ++i)
    order[i] = keyed[i].second;
  return order;
}

} // namespace

std::vector<IndexPair> overlappingPairs(BoxList a, BoxList b,
                                        WorkLimit *limit) {
  return Bisection(a, b, limit, /*limitsMoves=*/true).run();
}

/// Every box meets itself: of more pairs than boxes, one is of two.
std::optional<IndexPair> firstOverlap(BoxList boxes) {
  WorkLimit limit(int64_t(boxes.size()) + 1);
  std::optional<IndexPair> first;
  Bisection search(boxes, boxes, &limit, /*limitsMoves=*/false);
  for (IndexPair pair : search.run())
    if (pair.first != pair.second) {
      IndexPair ordered = std::minmax(pair.first, pair.second);
      first = first ? std::min(*first, ordered) : ordered;
    }
  return first;
}

std::vector<uint32_t> sortedOrder(BoxList boxes) {
  if (boxes.size() == 0)
    return {};
  return sortBoxes(
      boxes.size(), boxes[0].rank(),
      [&](size_t i, unsigned dim) { return boxes[i][dim].lo; },
      [&](size_t i) -> const Box & { return boxes[i]; });
}

std::vector<uint32_t> sortedOrder(const std::vector<IndexPair> &pairs,
                                  BoxList a, BoxList b) {
  if (pairs.empty())
    return {};
  return sortBoxes(
      pairs.size(), a[0].rank(),
      [&](size_t i, unsigned dim) {
        return std::max(a[pairs[i].first][dim].lo, b[pairs[i].second][dim].lo);
      },
      [&](size_t i) {
        return intersect(a[pairs[i].first], b[pairs[i].second]);
      });
}

} // namespace dt
