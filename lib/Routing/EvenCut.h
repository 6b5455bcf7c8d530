//===- EvenCut.h - Boxes as so many parts of one size -----------*- C++ -*-===//

#ifndef DT_LIB_ROUTING_EVENCUT_H
#define DT_LIB_ROUTING_EVENCUT_H

#include "dt/Geometry/Box.h"

#include <map>
#include <utility>
#include <vector>

namespace dt {

/// A box of a flow, in one cell of each side: those who hold it have it in one
/// shard, and so have those who want it.
struct FlowBox {
  uint32_t flow;
  uint32_t source, destination; // cells of the flow
  Box box;
};
using FlowBoxes = std::vector<FlowBox>;

/// The same elements in as few boxes as can be, each in one cell of both sides.
FlowBoxes joined(const FlowBoxes &boxes);

/// As few as can be that devices forward: each in one cell of the destination.
FlowBoxes joinedArrived(FlowBoxes boxes);

/// Boxes of several flows, one after the other, cut into parts of about the
/// same number of bytes.
class EvenCut {
public:
  /// `elementBytes`: per flow. A part is empty where there are fewer elements
  /// than parts.
  EvenCut(const FlowBoxes &boxes, const std::vector<int64_t> &elementBytes,
          int64_t parts);

  /// Parts [first, last), in as few boxes as can be.
  const FlowBoxes &run(int64_t first, int64_t last);

private:
  double border(int64_t part) const { return bytes * double(part) / parts; }
  int64_t partAt(double offset) const;
  void cut(const FlowBox &item, double width, double offset);

  double bytes = 0, parts = 1;
  std::vector<FlowBoxes> contents; // by part
  std::map<std::pair<int64_t, int64_t>, FlowBoxes> runs;
};

} // namespace dt

#endif // DT_LIB_ROUTING_EVENCUT_H
