//===- BoxForest.h - What of a growing list meets a box ---------*- C++ -*-===//
//
// Trees of boxes, each half the size of the one before or less: new boxes make
// a tree together with all trees that are no larger than they are, so that a
// box is sorted in once per doubling. A tree halves its boxes in the dim in
// which they overlap least, and knows what every part of it spans.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_VERIFY_BOXFOREST_H
#define DTRT_LIB_VERIFY_BOXFOREST_H

#include "BoxList.h"
#include "Steps.h"

namespace dtrt {

class BoxForest {
public:
  /// Takes in the boxes that the list has got since the last call, most of
  /// them: a few are left to be looked at one by one.
  void grow(const BoxList &list);

  /// How many elements the boxes of the list have in [lo, hi), summed; stops
  /// when there are `enough`, or no steps left. The list is the one that this
  /// has grown with.
  int64_t commonVolume(const BoxList &list, const int64_t *lo,
                       const int64_t *hi, int64_t enough, Steps &steps) const;

private:
  /// Boxes `items[begin, end)`. What comes next in `nodes` is the first half,
  /// `second` the other; 0: a leaf.
  struct Node {
    uint32_t begin = 0, end = 0;
    uint32_t second = 0;
    int64_t volume = 0; // of its boxes, summed
  };
  /// Of the boxes from `first` on, up to the next tree's.
  struct Tree {
    uint32_t first = 0;
    std::vector<uint32_t> items;
    std::vector<Node> nodes;
    std::vector<int64_t> lows, highs; // what each node spans, dim by dim
  };
  static void build(const BoxList &list, Tree &tree, uint32_t begin,
                    uint32_t end);
  struct Search;
  static void addVolume(const BoxList &list, const Tree &tree, uint32_t node,
                        Search &search);

  std::vector<Tree> trees;
  uint32_t known = 0; // boxes in trees
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_BOXFOREST_H
