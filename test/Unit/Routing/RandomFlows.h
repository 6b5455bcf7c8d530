//===- RandomFlows.h - Random transitions for routing tests -----*- C++ -*-===//

#ifndef DT_TEST_UNIT_ROUTING_RANDOMFLOWS_H
#define DT_TEST_UNIT_ROUTING_RANDOMFLOWS_H

#include "dt/Cost/Cluster.h"
#include "dt/Routing/Moves.h"

#include <random>

namespace dt::testing {

/// A random even layout of a 2-D param: cut `rows` x `columns` times, every
/// piece on `replicas` devices, devices from `first` on.
inline std::vector<Holding> gridHoldings(std::vector<int64_t> shape,
                                         int64_t rows, int64_t columns,
                                         int64_t replicas, int64_t first) {
  std::vector<Holding> out;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      Holding holding;
      holding.shard.dims = {
          {{shape[0] * r / rows, shape[0] * (r + 1) / rows}},
          {{shape[1] * c / columns, shape[1] * (c + 1) / columns}}};
      for (int64_t i = 0; i < replicas; ++i)
        holding.devices.push_back(first + (r * columns + c) * replicas + i);
      out.push_back(holding);
    }
  return out;
}

struct RandomTransition {
  std::vector<Flow> flows;
  std::vector<std::vector<Holding>> sources, destinations;
  Cluster cluster;
};

inline RandomTransition randomTransition(std::mt19937 &random) {
  auto number = [&](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  RandomTransition out;
  out.cluster.devicesPerNode = number(1, 4);
  for (int64_t i = number(1, 4); i > 0; --i) {
    std::vector<int64_t> shape = {number(4, 24), number(4, 24)};
    auto side = [&] {
      return gridHoldings(shape, number(1, 3), number(1, 3), number(1, 3),
                          number(0, 6));
    };
    out.sources.push_back(side());
    out.destinations.push_back(side());
    Flow flow;
    flow.param = out.flows.size();
    flow.bytesPerElement = number(1, 6);
    flow.source = overlay(out.sources.back(), shape);
    flow.destination = overlay(out.destinations.back(), shape);
    out.flows.push_back(flow);
  }
  return out;
}

} // namespace dt::testing

#endif // DT_TEST_UNIT_ROUTING_RANDOMFLOWS_H
