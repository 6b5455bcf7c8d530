//===- BoxTree.h - Which of many boxes contain one --------------*- C++ -*-===//

#ifndef DT_GEOMETRY_BOXTREE_H
#define DT_GEOMETRY_BOXTREE_H

#include "dt/Geometry/Box.h"

namespace dt {

/// A list of boxes, cut at the median of their lower ends until few are left,
/// each part with the hull of its boxes. A query looks at the parts whose hull
/// contains the box: about log n of them where the boxes are disjoint.
class BoxTree {
public:
  explicit BoxTree(std::vector<Box> boxes);

  /// Calls fn(i) for each box i that contains `box`, in any order. All boxes
  /// have one rank.
  template <typename Fn> void forEachContaining(const Box &box, Fn fn) const {
    if (!nodes.empty())
      visit(0, box, fn);
  }

private:
  /// Items [first, last); the children, if any, are at `left` and `right`.
  struct Node {
    Box hull;
    uint32_t first = 0, last = 0;
    uint32_t left = 0, right = 0; // 0: a leaf
  };

  uint32_t build(uint32_t first, uint32_t last);
  template <typename Fn> void visit(uint32_t at, const Box &box, Fn &fn) const {
    const Node &node = nodes[at];
    if (!node.hull.contains(box))
      return;
    if (node.left) {
      visit(node.left, box, fn);
      visit(node.right, box, fn);
      return;
    }
    for (uint32_t i = node.first; i < node.last; ++i)
      if (boxes[items[i]].contains(box))
        fn(items[i]);
  }

  std::vector<Box> boxes;
  std::vector<uint32_t> items; // in the order of the leaves
  std::vector<Node> nodes;
};

} // namespace dt

#endif // DT_GEOMETRY_BOXTREE_H
