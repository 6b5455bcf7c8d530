//===- RandomGeometry.h - Random boxes and element sets ---------*- C++ -*-===//
//
// Random tests compare with sets of elements. A failing run is repeated with
// --gtest_random_seed=SEED, the seed that it printed.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_UNIT_GEOMETRY_RANDOMGEOMETRY_H
#define DT_TEST_UNIT_GEOMETRY_RANDOMGEOMETRY_H

#include "dt/Geometry/Box.h"

#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <random>
#include <set>

namespace dt::test {

using Point = std::vector<int64_t>;
using Shape = std::vector<int64_t>;

class Random {
public:
  Random() {
    unsigned seed = unsigned(GTEST_FLAG_GET(random_seed));
    if (!seed)
      seed = std::random_device()() % 99999 + 1;
    engine.seed(seed);
    std::cout << "seed " << seed << "\n";
  }

  /// Uniform in [lo, hi].
  int64_t number(int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(engine);
  }
  bool chance(int percent) { return number(1, 100) <= percent; }
  template <class T> void shuffle(std::vector<T> &items) {
    std::shuffle(items.begin(), items.end(), engine);
  }

  Shape shape(unsigned rank, int64_t largest) {
    Shape shape(rank);
    for (int64_t &size : shape)
      size = number(1, largest);
    return shape;
  }
  /// A box inside `shape`, not empty.
  Box box(const Shape &shape) {
    Box box(shape.size());
    for (unsigned dim = 0; dim < box.rank(); ++dim) {
      int64_t lo = number(0, shape[dim] - 1);
      box[dim] = {lo, number(lo + 1, shape[dim])};
    }
    return box;
  }

private:
  std::mt19937_64 engine;
};

/// Calls `visit` on every point of a box, row-major.
inline void forEachPoint(const Box &box,
                         const std::function<void(const Point &)> &visit) {
  if (box.empty())
    return;
  Point point;
  for (unsigned dim = 0; dim < box.rank(); ++dim)
    point.push_back(box[dim].lo);
  while (true) {
    visit(point);
    unsigned dim = box.rank();
    while (dim > 0 && ++point[dim - 1] == box[dim - 1].hi) {
      point[dim - 1] = box[dim - 1].lo;
      --dim;
    }
    if (dim == 0)
      return;
  }
}

inline std::set<Point> pointsOf(const Box &box) {
  std::set<Point> points;
  forEachPoint(box, [&](const Point &point) { points.insert(point); });
  return points;
}

/// The points of boxes, which must be disjoint.
inline std::set<Point> pointsOf(const std::vector<Box> &boxes) {
  std::set<Point> points;
  for (const Box &box : boxes)
    forEachPoint(box, [&](const Point &point) {
      EXPECT_TRUE(points.insert(point).second) << toString(box);
    });
  return points;
}

} // namespace dt::test

#endif // DT_TEST_UNIT_GEOMETRY_RANDOMGEOMETRY_H
