//===- ParallelSizes.cpp - tp, pp, dp... and their meshes -----------------===//

#include "ParallelSizes.h"

#include "dt/Geometry/Limits.h"
#include "dt/Megatron/Buckets.h"

#include <algorithm>
#include <unordered_set>

namespace dt::request {

namespace {

constexpr const char *kDefaultOrder = "tp-cp-ep-fsdp-dp-pp";

int64_t readSize(const Json &layout, const std::string &path, const char *key,
                 int64_t standard) {
  const Json *value = layout.find(key);
  return value ? asInteger(*value, path + "." + key, 1, kMaxRanks) : standard;
}

std::vector<std::string> readOrder(const std::string &text,
                                   const std::string &path) {
  std::vector<std::string> known = {"tp", "cp", "ep", "fsdp", "dp", "pp"};
  std::vector<std::string> order(1);
  for (char c : text) {
    if (c == '-')
      order.emplace_back();
    else
      order.back() += c;
  }
  for (size_t i = 0; i < order.size(); ++i) {
    if (std::find(known.begin(), known.end(), order[i]) == known.end())
      fail(path + " has the unknown name " + inQuotes(order[i]) +
           "; known are tp, cp, ep, fsdp, dp, pp");
    if (std::count(order.begin(), order.end(), order[i]) > 1)
      fail(path + " names " + inQuotes(order[i]) + " twice");
  }
  return order;
}

std::string times(const char *name, int64_t size) {
  return std::string(name) + " " + std::to_string(size);
}

void checkProduct(const ParallelSizes &sizes, const std::string &path) {
  int64_t product = 1;
  for (int64_t size : {sizes.tp, sizes.cp, sizes.fsdp, sizes.dp, sizes.pp})
    if (__builtin_mul_overflow(product, size, &product))
      product = INT64_MAX;
  if (product != sizes.world)
    fail(path + ": " + times("tp", sizes.tp) + " x " + times("cp", sizes.cp) +
         " x " + times("fsdp", sizes.fsdp) + " x " + times("dp", sizes.dp) +
         " x " + times("pp", sizes.pp) + " = " + std::to_string(product) +
         ", but world is " + std::to_string(sizes.world));
}

/// Fills the expert grid: edp, and efsdp where there is fsdp.
void deriveExpertGrid(ParallelSizes &sizes, const std::string &path) {
  int64_t perStage = sizes.world / sizes.pp;
  int64_t expert = sizes.etp * sizes.ep; // each at most kMaxRanks
  std::string grid = times("etp", sizes.etp) + " x " + times("ep", sizes.ep);
  if (perStage % expert != 0)
    fail(path + ": " + grid + " x " + times("pp", sizes.pp) +
         " does not divide world " + std::to_string(sizes.world));
  if (sizes.fsdp == 1) {
    sizes.edp = perStage / expert;
    return;
  }
  int64_t sharded = perStage / sizes.dp;
  if (sharded % expert != 0)
    fail(path + ": " + grid + " does not divide " + times("tp", sizes.tp) +
         " x " + times("cp", sizes.cp) + " x " + times("fsdp", sizes.fsdp) +
         ", over which fsdp shards experts");
  sizes.efsdp = sharded / expert;
  sizes.edp = sizes.dp;
}

void readZero(const Json &layout, const std::string &path,
              ParallelSizes &sizes) {
  if (const Json *zero = layout.find("zero"))
    sizes.zero = asInteger(*zero, path + ".zero", 0, 1) == 1;
  if (sizes.zero && sizes.fsdp > 1)
    fail(path + " has zero 1 beside fsdp " + std::to_string(sizes.fsdp));
  const Json *bucket = layout.find("bucket_size");
  sizes.bucketSize = bucket ? asInteger(*bucket, path + ".bucket_size", 1)
                            : defaultBucketSize(sizes.dp);
}

struct AxisSize {
  const char *token; // in `order`
  const char *axis;
  int64_t size;
};

/// Axes that the order does not name vary slowest; they are an error when the
/// mesh is one that `mustName` all of them.
Mesh buildMesh(const ParallelSizes &sizes, const std::vector<AxisSize> &axes,
               bool mustName, const std::string &path) {
  Mesh mesh;
  for (const AxisSize &axis : axes) {
    if (axis.size == 1 || std::find(sizes.order.begin(), sizes.order.end(),
                                    axis.token) != sizes.order.end())
      continue;
    if (mustName)
      fail(path + ".order does not name " + inQuotes(axis.token) +
           ", which has size " + std::to_string(axis.size));
    mesh.axes.push_back({axis.axis, axis.size});
  }
  for (auto token = sizes.order.rbegin(); token != sizes.order.rend(); ++token)
    for (const AxisSize &axis : axes)
      if (*token == axis.token && axis.size > 1)
        mesh.axes.push_back({axis.axis, axis.size});
  return mesh;
}

/// Ranks between neighbours on an axis.
int64_t stride(const Mesh &mesh, const std::string &axis) {
  int64_t ranks = 1;
  for (auto it = mesh.axes.rbegin(); it != mesh.axes.rend(); ++it) {
    if (it->name == axis)
      return ranks;
    ranks *= it->size;
  }
  return 0;
}

/// The entries of `devices`. A last entry "..." goes on in the step of the two
/// before it (or 1) until every rank has a device.
std::vector<int64_t> readDeviceList(const Json &value, const std::string &path,
                                    int64_t world) {
  Json list = asArray(value, path);
  bool goesOn = !list.items.empty() && list.items.back().isString() &&
                list.items.back().string == "...";
  if (goesOn)
    list.items.pop_back();
  std::vector<int64_t> devices = asIntegers(list, path, /*least=*/0);
  if (!goesOn)
    return devices;
  if (devices.empty())
    fail(path + " has nothing before \"...\"");
  size_t n = devices.size();
  int64_t step = n > 1 ? devices[n - 1] - devices[n - 2] : 1;
  int64_t next = devices.back();
  while (static_cast<int64_t>(devices.size()) < world) {
    if (__builtin_add_overflow(next, step, &next) || next < 0)
      fail(path + " cannot go on after " + std::to_string(devices.back()));
    devices.push_back(next);
  }
  return devices;
}

} // namespace

int64_t readWorld(const Json &layout, const std::string &path) {
  return asInteger(require(layout, path, "world"), path + ".world", 1,
                   kMaxRanks);
}

std::vector<int64_t> readDevices(const Json &layout, const std::string &path,
                                 int64_t world) {
  const Json *value = layout.find("devices");
  if (!value)
    return {};
  std::vector<int64_t> devices =
      readDeviceList(*value, path + ".devices", world);
  if (static_cast<int64_t>(devices.size()) != world)
    fail(path + ".devices has " + std::to_string(devices.size()) +
         " entries, but world is " + std::to_string(world));
  std::unordered_set<int64_t> seen;
  bool isIota = true;
  for (int64_t rank = 0; rank < world; ++rank) {
    if (devices[rank] > kMaxDevice)
      fail(path + ".devices names device " + std::to_string(devices[rank]) +
           ", more than the limit of " + std::to_string(kMaxDevice));
    if (!seen.insert(devices[rank]).second)
      fail(path + ".devices names device " + std::to_string(devices[rank]) +
           " twice");
    isIota &= devices[rank] == rank;
  }
  return isIota ? std::vector<int64_t>() : devices;
}

ParallelSizes readParallelSizes(const Json &layout, const std::string &path,
                                int64_t vocabMultiple) {
  checkKeys(layout, path, {"world",       "tp",
                           "cp",          "ep",
                           "etp",         "fsdp",
                           "dp",          "pp",
                           "vpp",         "zero",
                           "order",       "pp_layers",
                           "devices",     "vocab_multiple",
                           "bucket_size", "state",
                           "views",       "rules",
                           "framework",   "without",
                           "quantize"});
  ParallelSizes sizes;
  sizes.world = readWorld(layout, path);
  sizes.tp = readSize(layout, path, "tp", 1);
  sizes.cp = readSize(layout, path, "cp", 1);
  sizes.fsdp = readSize(layout, path, "fsdp", 1);
  sizes.dp = readSize(layout, path, "dp", 1);
  sizes.pp = readSize(layout, path, "pp", 1);
  sizes.ep = readSize(layout, path, "ep", 1);
  sizes.etp = readSize(layout, path, "etp", sizes.tp);
  sizes.vpp = readSize(layout, path, "vpp", 1);
  sizes.vocabMultiple = readSize(layout, path, "vocab_multiple", vocabMultiple);
  if (sizes.pp * sizes.vpp > kMaxRanks)
    fail(path + ": pp " + std::to_string(sizes.pp) + " x vpp " +
         std::to_string(sizes.vpp) + " is more than the limit of " +
         std::to_string(kMaxRanks));
  if (const Json *layers = layout.find("pp_layers"))
    sizes.ppLayers = asIntegers(*layers, path + ".pp_layers", 0);
  const Json *order = layout.find("order");
  sizes.order =
      readOrder(order ? asString(*order, path + ".order") : kDefaultOrder,
                path + ".order");
  readZero(layout, path, sizes);
  checkProduct(sizes, path);
  deriveExpertGrid(sizes, path);
  return sizes;
}

std::vector<Mesh> buildGrids(const ParallelSizes &sizes,
                             const std::vector<int64_t> &devices,
                             bool hasExperts, const std::string &path) {
  Mesh dense = buildMesh(sizes,
                         {{"tp", "tp", sizes.tp},
                          {"cp", "cp", sizes.cp},
                          {"fsdp", "fsdp", sizes.fsdp},
                          {"dp", "dp", sizes.dp},
                          {"pp", "pp", sizes.pp}},
                         /*mustName=*/true, path);
  Mesh expert = buildMesh(sizes,
                          {{"tp", "etp", sizes.etp},
                           {"ep", "ep", sizes.ep},
                           {"fsdp", "efsdp", sizes.efsdp},
                           {"dp", "edp", sizes.edp},
                           {"pp", "pp", sizes.pp}},
                          hasExperts, path);
  dense.devices = expert.devices = devices;
  return {dense, expert};
}

std::vector<NamedMesh> buildMeshes(const ParallelSizes &sizes,
                                   const std::vector<Mesh> &grids,
                                   bool hasExperts, const std::string &path) {
  const Mesh &dense = grids[0], &expert = grids[1];
  std::vector<NamedMesh> meshes = {{"dense", dense}};
  if (!hasExperts)
    return meshes;
  int64_t denseStride = stride(dense, "pp");
  int64_t expertStride = stride(expert, "pp");
  if (denseStride != expertStride)
    fail(path +
         ".order gives dense and expert tensors different pipeline "
         "groups (dense stages are " +
         std::to_string(denseStride) + " ranks apart, expert stages " +
         std::to_string(expertStride) + ")");
  bool isSame = sizes.ep == 1 && sizes.etp == sizes.tp &&
                stride(dense, "tp") == stride(expert, "etp");
  if (!isSame)
    meshes.push_back({"expert", expert});
  return meshes;
}

} // namespace dt::request
