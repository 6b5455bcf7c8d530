//===- RandomBoxes.h - Boxes to try out -------------------------*- C++ -*-===//

#ifndef DTRT_TEST_RANDOMBOXES_H
#define DTRT_TEST_RANDOMBOXES_H

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace dtrt::test {

struct TestBox {
  std::vector<int64_t> offset, size;
};

class Random {
public:
  explicit Random(unsigned seed) : engine(seed) {}
  int64_t number(int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(engine);
  }
  /// A box inside `shape`, not empty.
  TestBox box(const std::vector<int64_t> &shape) {
    TestBox box;
    for (int64_t extent : shape) {
      int64_t lo = number(0, extent - 1);
      box.offset.push_back(lo);
      box.size.push_back(number(1, extent - lo));
    }
    return box;
  }
  /// The whole shape, cut in two again and again, in random order.
  std::vector<TestBox> cutUp(const std::vector<int64_t> &shape, size_t count) {
    std::vector<TestBox> boxes = {
        {std::vector<int64_t>(shape.size(), 0), shape}};
    for (size_t tries = 0; tries < 2 * count && boxes.size() < count; ++tries) {
      TestBox &box = boxes[number(0, int64_t(boxes.size()) - 1)];
      size_t dim = number(0, int64_t(shape.size()) - 1);
      if (box.size[dim] == 1)
        continue;
      TestBox rest = box;
      box.size[dim] = number(1, box.size[dim] - 1);
      rest.offset[dim] += box.size[dim];
      rest.size[dim] -= box.size[dim];
      boxes.push_back(rest);
    }
    std::shuffle(boxes.begin(), boxes.end(), engine);
    return boxes;
  }

private:
  std::mt19937 engine;
};

} // namespace dtrt::test

#endif // DTRT_TEST_RANDOMBOXES_H
