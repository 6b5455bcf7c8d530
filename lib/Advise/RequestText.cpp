//===- RequestText.cpp - The request that a row of advice stands for ------===//

#include "dt/Advise/RequestText.h"

#include <nlohmann/json.hpp>

#include <filesystem>

namespace dt::advise {

namespace {

using OrderedJson = nlohmann::ordered_json;

/// Even deals need not be said.
bool isEven(const Sizes &sizes, int64_t layers) {
  for (int64_t count : sizes.blocks)
    if (count * int64_t(sizes.blocks.size()) != layers)
      return false;
  return true;
}

bool isCounted(const std::vector<int64_t> &devices) {
  for (size_t rank = 0; rank < devices.size(); ++rank)
    if (devices[rank] != int64_t(rank))
      return false;
  return true;
}

OrderedJson layoutOf(const Job &job, const Sizes &sizes) {
  OrderedJson out;
  out["world"] = sizes.world;
  auto add = [&](const char *axis, int64_t size, int64_t standard) {
    if (size != standard)
      out[axis] = size;
  };
  add("tp", sizes.tp, 1);
  add("cp", sizes.cp, 1);
  add("ep", sizes.ep, 1);
  add("etp", sizes.etp, sizes.tp);
  add("fsdp", sizes.fsdp, 1);
  add("dp", sizes.dp, 1);
  add("pp", sizes.pp, 1);
  add("vpp", sizes.vpp, 1);
  add("zero", sizes.zero, 0);
  add("bucket_size", sizes.bucketSize, 0);
  if (!isEven(sizes, job.model.layers))
    out["pp_layers"] = sizes.blocks;
  if (!isCounted(sizes.devices))
    out["devices"] = sizes.devices;
  return out;
}

OrderedJson endOf(LinkEnd end) {
  if (end.isNode)
    return "node:" + std::to_string(end.index);
  return end.index;
}

OrderedJson clusterOf(const JobCluster &cluster) {
  OrderedJson out;
  out["devices_per_node"] = cluster.devicesPerNode;
  if (cluster.devicesPerNic > 1)
    out["nics_per_node"] = cluster.devicesPerNode / cluster.devicesPerNic;
  if (cluster.pxn)
    out["pxn"] = true;
  out["intra_node_GBps"] = cluster.intraNodeGBps;
  out["inter_node_GBps"] = cluster.interNodeGBps;
  out["latency_us"] = cluster.latencyUs;
  for (const Link &link : cluster.links)
    out["links"].push_back({{"from", endOf(link.from)},
                            {"to", endOf(link.to)},
                            {"GBps", link.GBps}});
  int64_t n = cluster.devices.size();
  for (int64_t a = 0; a < n && !cluster.measured.empty(); ++a)
    for (int64_t b = 0; b < n; ++b)
      if (a != b)
        out["links"].push_back(
            {{"from", a}, {"to", b}, {"GBps", cluster.rate(a, b) / 1e9}});
  return out;
}

/// The model's path, as it is read from `folder`.
std::string pathFrom(const Job &job, const std::string &folder) {
  namespace fs = std::filesystem;
  fs::path path = job.modelPath;
  if (path.is_absolute())
    return path.string();
  std::error_code error;
  fs::path base =
      fs::absolute(job.directory.empty() ? "." : job.directory, error);
  fs::path full = fs::weakly_canonical(base / path, error);
  fs::path from = fs::weakly_canonical(fs::absolute(folder, error), error);
  fs::path relative = full.lexically_relative(from);
  return relative.empty() ? full.string() : relative.string();
}

} // namespace

std::string requestText(const Job &job, const Advice &advice,
                        const AdviceRow &row, const std::string &folder) {
  OrderedJson out;
  if (job.modelText.empty())
    out["model"] = pathFrom(job, folder);
  else
    out["model"] = OrderedJson::parse(job.modelText);
  if (!job.stateText.empty())
    out["state"] = OrderedJson::parse(job.stateText);
  if (job.vocabMultiple != 128)
    out["vocab_multiple"] = job.vocabMultiple;
  out["source"] = layoutOf(job, advice.source);
  out["destination"] = layoutOf(job, row.destination.sizes);
  out["cluster"] = clusterOf(job.cluster);
  out["memory"] = {{"staging", job.staging},
                   {"mode", memoryModeName(row.mode)}};
  return out.dump(2) + "\n";
}

} // namespace dt::advise
