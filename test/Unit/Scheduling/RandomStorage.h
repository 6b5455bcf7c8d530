//===- RandomStorage.h - Random problems of flat memory ---------*- C++ -*-===//

#ifndef DT_TEST_UNIT_SCHEDULING_RANDOMSTORAGE_H
#define DT_TEST_UNIT_SCHEDULING_RANDOMSTORAGE_H

#include "SolvedWaves.h"

namespace dt::testing {

/// A random layout of a param of `shape`, whose first dim counts members: a
/// grid of members, rows and columns, or flat ranges of each member; every
/// part on `replicas` devices, devices from `first` on.
inline std::vector<Holding> randomHoldings(std::mt19937 &random,
                                           const std::vector<int64_t> &shape) {
  auto number = [&](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  int64_t cuts[3] = {number(1, shape[0]), number(1, 3), number(1, 3)};
  int64_t ranges = number(0, 2) == 0 ? number(2, 4) : 1;
  if (ranges > 1)
    cuts[1] = cuts[2] = 1;
  int64_t device = number(0, 6), replicas = number(1, 2);
  std::vector<Holding> out;
  for (int64_t i = 0; i < cuts[0] * cuts[1] * cuts[2] * ranges; ++i) {
    Holding holding;
    holding.shard.numLeading = 1;
    int64_t rest = i / ranges;
    for (size_t dim = 3; dim-- > 0; rest /= cuts[dim]) {
      int64_t part = rest % cuts[dim];
      holding.shard.dims.insert(holding.shard.dims.begin(),
                                {{shape[dim] * part / cuts[dim],
                                  shape[dim] * (part + 1) / cuts[dim]}});
    }
    if (ranges > 1) {
      int64_t size = shape[1] * shape[2], part = i % ranges;
      holding.shard.range = {size * part / ranges, size * (part + 1) / ranges};
    }
    for (int64_t r = 0; r < replicas; ++r)
      holding.devices.push_back(device++);
    out.push_back(holding);
  }
  return out;
}

/// Flows of several members, states and layouts, with all moves and copies,
/// and a limit that may be too small.
inline WaveProblem randomStorageProblem(std::mt19937 &random) {
  auto number = [&](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  auto states = [&] {
    std::vector<FlatStates> out = {{int64_t(1) << number(0, 3), number(1, 2)}};
    if (number(0, 2) == 0)
      out.push_back({out[0].width * 2, 1});
    return out;
  };
  RandomTransition t;
  t.cluster.devicesPerNode = number(1, 4);
  Storage storage;
  for (int64_t i = number(1, 3); i > 0; --i) {
    std::vector<int64_t> shape = {number(1, 3), number(6, 40), number(6, 40)};
    auto source = randomHoldings(random, shape);
    auto destination = randomHoldings(random, shape);
    Flow flow;
    flow.bytesPerElement = number(1, 16);
    flow.source = overlay(source, shape);
    flow.destination = overlay(destination, shape);
    t.flows.push_back(flow);
    auto index = uint32_t(storage.flows.size());
    storage.flows.push_back({1, states(), states(), index});
    storage.source.push_back(source);
    storage.destination.push_back(destination);
    if (number(0, 3) != 0)
      continue;
    // A state that is made from this one, which it reads.
    t.flows.push_back(flow);
    storage.flows.push_back({1, {}, states(), index});
    storage.source.push_back(source);
    storage.destination.push_back(destination);
  }
  storage.limitBytes = number(2048, 8192);
  storage.pageBytes = pageBytesFor(storage.limitBytes);
  RouterOptions options;
  options.minPieceBytes = 64;
  RoutingProblem routes(t.flows, t.cluster, storage.limitBytes);
  Routing routing = solved(routes, options);
  WaveProblem out = waveProblem(routes, routing.moves);
  out.copies = routing.locals;
  out.storage = std::move(storage);
  return out;
}

} // namespace dt::testing

#endif // DT_TEST_UNIT_SCHEDULING_RANDOMSTORAGE_H
