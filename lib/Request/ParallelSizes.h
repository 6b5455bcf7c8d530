//===- ParallelSizes.h - tp, pp, dp... and their meshes ---------*- C++ -*-===//
//
// One side of a transition, given by parallel sizes. The same ranks form two
// grids, as in Megatron-Core: the dense one (tp x cp x fsdp x dp x pp) and the
// expert one (etp x ep x efsdp x edp x pp). Both have the same pipeline groups.
//
// With fsdp > 1 the ranks that are neither etp nor ep shard experts too:
// efsdp = tp x cp x fsdp / (etp x ep), and edp = dp stays replication.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_REQUEST_PARALLELSIZES_H
#define DT_LIB_REQUEST_PARALLELSIZES_H

#include "dt/Json/Json.h"

#include "dt/Geometry/Mesh.h"
#include "dt/Request/Request.h"

namespace dt::request {

using namespace json;

struct ParallelSizes {
  int64_t world = 1;
  int64_t tp = 1, cp = 1, fsdp = 1, dp = 1, pp = 1;
  int64_t etp = 1, ep = 1, efsdp = 1, edp = 1;
  int64_t vpp = 1;
  std::vector<int64_t> ppLayers;
  std::vector<std::string> order; // fastest first
  bool zero = false;
  int64_t bucketSize = 0;
  int64_t vocabMultiple = 128;
};

/// Reads `world` and `devices`, which every kind of layout has.
int64_t readWorld(const Json &layout, const std::string &path);
std::vector<int64_t> readDevices(const Json &layout, const std::string &path,
                                 int64_t world);

/// Reads and checks one side; `vocabMultiple` is the request's.
ParallelSizes readParallelSizes(const Json &layout, const std::string &path,
                                int64_t vocabMultiple);

/// The dense and the expert grid. Axes of size 1 are left out. Without experts
/// the order need not name the axes of the expert grid.
std::vector<Mesh> buildGrids(const ParallelSizes &sizes,
                             const std::vector<int64_t> &devices,
                             bool hasExperts, const std::string &path);

/// Of the grids the dense one, and the expert one where there are experts that
/// it places in another way than the dense one would.
std::vector<NamedMesh> buildMeshes(const ParallelSizes &sizes,
                                   const std::vector<Mesh> &grids,
                                   bool hasExperts, const std::string &path);

} // namespace dt::request

#endif // DT_LIB_REQUEST_PARALLELSIZES_H
