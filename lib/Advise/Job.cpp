//===- Job.cpp - From the text of a job to its structs --------------------===//

#include "dt/Advise/Job.h"

#include "ReadModelShape.h"

#include "Cluster.h"
#include "ParallelSizes.h"
#include "SizedLayout.h"
#include "States.h"
#include "Units.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <numeric>
#include <sstream>

namespace dt::advise {

using json::asInteger;
using json::asPositiveNumber;
using json::checkKeys;
using json::fail;
using json::inQuotes;
using json::Json;

namespace {

constexpr int64_t kMostDevices = 65536;
/// A measured rate of every pair is a table of this size squared.
constexpr int64_t kMostMeasured = 2048;
constexpr int64_t kMostBatch = int64_t(1) << 24;
constexpr int64_t kMostMicroBatch = 256;
constexpr double kGiga = 1e9, kTera = 1e12;

int64_t integerOr(const Json &json, const std::string &path, const char *key,
                  int64_t standard, int64_t least, int64_t most) {
  const Json *value = json.find(key);
  return value ? asInteger(*value, path + "." + key, least, most) : standard;
}

double numberOr(const Json &json, const std::string &path, const char *key,
                double standard, double most) {
  const Json *value = json.find(key);
  if (!value)
    return standard;
  double number = asPositiveNumber(*value, path + "." + key);
  if (!std::isfinite(number) || number > most)
    fail(path + "." + key + " is too large, expected at most " +
         nlohmann::json(most).dump());
  return number;
}

bool boolOr(const Json &json, const std::string &path, const char *key,
            bool standard) {
  const Json *value = json.find(key);
  return value ? json::asBool(*value, path + "." + key) : standard;
}

/// The value as JSON text again.
nlohmann::ordered_json textOf(const Json &json) {
  using Out = nlohmann::ordered_json;
  switch (json.kind) {
  case Json::Kind::Null:
    return nullptr;
  case Json::Kind::Bool:
    return json.boolean;
  case Json::Kind::Integer:
    return json.integer;
  case Json::Kind::Float:
    return json.number;
  case Json::Kind::String:
    return json.string;
  case Json::Kind::Array: {
    Out out = Out::array();
    for (const Json &item : json.items)
      out.push_back(textOf(item));
    return out;
  }
  case Json::Kind::Object:
    break;
  }
  Out out = Out::object();
  for (const Json::Member &member : json.members)
    out[member.first] = textOf(member.second);
  return out;
}

std::string readFile(const std::string &path, const std::string &shown) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    fail("model " + inQuotes(shown) +
         " cannot be read: " + std::strerror(errno ? errno : EISDIR));
  return text.str();
}

/// A device number, or -1 and a node number.
struct Place {
  int64_t device = -1;
  int64_t node = -1;
};

Place readPlace(const std::string &text, const std::string &path) {
  const std::string prefix = "node:";
  bool isNode = text.compare(0, prefix.size(), prefix) == 0;
  std::string digits = isNode ? text.substr(prefix.size()) : text;
  if (digits.empty() || digits.size() > 9 ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    fail(path +
         " must be a device such as 17 or a node such as \"node:3\", "
         "not " +
         inQuotes(text));
  Place place;
  (isNode ? place.node : place.device) = std::stoll(digits);
  return place;
}

Place readPlace(const Json &value, const std::string &path) {
  if (value.isString())
    return readPlace(value.string, path);
  Place place;
  place.device = asInteger(value, path, 0, kMostDevices - 1);
  return place;
}

/// Devices at a place; fails when there are none.
std::vector<int64_t> devicesAt(const Place &place, const JobCluster &cluster,
                               const std::string &path) {
  std::vector<int64_t> out;
  int64_t n = cluster.devices.size();
  if (place.device >= 0 && place.device < n)
    out.push_back(place.device);
  if (place.node >= 0)
    for (int64_t d = place.node * cluster.devicesPerNode;
         d < n && cluster.node(d) == place.node; ++d)
      out.push_back(d);
  if (out.empty())
    fail(path + " names " +
         (place.node >= 0 ? "node " + std::to_string(place.node)
                          : "device " + std::to_string(place.device)) +
         ", but the cluster has " + std::to_string(n) + " devices on " +
         std::to_string(cluster.nodes()) + " nodes");
  return out;
}

void readSpeed(const Json &json, const std::string &path, Device &device) {
  device.flops =
      numberOr(json, path, "TFLOPs", device.flops / kTera, 1e9) * kTera;
  device.memoryRate =
      numberOr(json, path, "memory_GBps", device.memoryRate / kGiga, 1e9) *
      kGiga;
  if (const Json *value = json.find("memory"))
    device.memory = request::readBytes(*value, path + ".memory");
  if (const Json *value = json.find("slowdown")) {
    double slowdown = asPositiveNumber(*value, path + ".slowdown");
    device.flops /= slowdown;
    device.memoryRate /= slowdown;
  }
}

void readUnequal(const Json &json, JobCluster &cluster) {
  size_t i = 0;
  for (const Json &item : json::asArray(json, "cluster.unequal").items) {
    std::string path = "cluster.unequal[" + std::to_string(i++) + "]";
    checkKeys(item, path,
              {"at", "TFLOPs", "memory", "memory_GBps", "slowdown"});
    Place place = readPlace(json::require(item, path, "at"), path + ".at");
    for (int64_t device : devicesAt(place, cluster, path + ".at"))
      readSpeed(item, path, cluster.devices[device]);
  }
}

LinkEnd endOf(const Place &place) {
  bool isNode = place.node >= 0;
  return {isNode, isNode ? place.node : place.device};
}

void readLinks(const Json &json, JobCluster &cluster) {
  size_t i = 0;
  for (const Json &item : json::asArray(json, "cluster.links").items) {
    std::string path = "cluster.links[" + std::to_string(i++) + "]";
    checkKeys(item, path, {"from", "to", "GBps"});
    Place from = readPlace(json::require(item, path, "from"), path + ".from");
    Place to = readPlace(json::require(item, path, "to"), path + ".to");
    devicesAt(from, cluster, path + ".from");
    devicesAt(to, cluster, path + ".to");
    json::require(item, path, "GBps");
    cluster.links.push_back(
        {endOf(from), endOf(to), numberOr(item, path, "GBps", 0, 1e6)});
  }
}

void readMeasured(const Json &json, JobCluster &cluster) {
  const std::string path = "cluster.measured_GBps";
  size_t n = cluster.devices.size();
  if (int64_t(n) > kMostMeasured)
    fail(path + " is for at most " + std::to_string(kMostMeasured) +
         " devices");
  const std::vector<Json> &rows = json::asArray(json, path).items;
  if (rows.size() != n)
    fail(path + " has " + std::to_string(rows.size()) +
         " rows, but the cluster has " + std::to_string(n) + " devices");
  for (size_t a = 0; a < n; ++a) {
    std::string rowPath = path + "[" + std::to_string(a) + "]";
    const std::vector<Json> &row = json::asArray(rows[a], rowPath).items;
    if (row.size() != n)
      fail(rowPath + " has " + std::to_string(row.size()) +
           " entries, expected " + std::to_string(n));
    for (size_t b = 0; b < n; ++b)
      cluster.measured.push_back(
          a == b
              ? std::numeric_limits<double>::infinity()
              : kGiga * asPositiveNumber(row[b], rowPath + "[" +
                                                     std::to_string(b) + "]"));
  }
}

JobCluster readCluster(const Json &json) {
  const std::string path = "cluster";
  checkKeys(json, path,
            {"devices", "devices_per_node", "nics_per_node", "pxn", "memory",
             "TFLOPs", "memory_GBps", "intra_node_GBps", "inter_node_GBps",
             "latency_us", "unequal", "links", "measured_GBps"});
  JobCluster cluster;
  int64_t n = asInteger(json::require(json, path, "devices"), path + ".devices",
                        1, kMostDevices);
  cluster.devicesPerNode =
      integerOr(json, path, "devices_per_node", 8, 1, kMostDevices);
  int64_t nics = integerOr(json, path, "nics_per_node", cluster.devicesPerNode,
                           1, kMostDevices);
  if (cluster.devicesPerNode % nics != 0)
    fail("cluster.nics_per_node must divide the " +
         std::to_string(cluster.devicesPerNode) +
         " devices of a node, not be " + std::to_string(nics));
  cluster.devicesPerNic = cluster.devicesPerNode / nics;
  cluster.pxn = boolOr(json, path, "pxn", false);
  cluster.intraNodeGBps = numberOr(json, path, "intra_node_GBps", 200, 1e6);
  cluster.interNodeGBps = numberOr(json, path, "inter_node_GBps", 25, 1e6);
  cluster.latencyUs = numberOr(json, path, "latency_us", 10, 1e9);
  Device device;
  device.flops = 312 * kTera;
  device.memoryRate = 2000 * kGiga;
  json::require(json, path, "memory");
  readSpeed(json, path, device);
  cluster.devices.assign(n, device);
  if (const Json *unequal = json.find("unequal"))
    readUnequal(*unequal, cluster);
  if (const Json *links = json.find("links"))
    readLinks(*links, cluster);
  if (const Json *measured = json.find("measured_GBps"))
    readMeasured(*measured, cluster);
  return cluster;
}

Recompute readRecompute(const Json &value, const std::string &path) {
  const std::string &name = json::asString(value, path);
  for (Recompute one : {Recompute::None, Recompute::Selective, Recompute::Full})
    if (name == nameOf(one))
      return one;
  fail(path + " must be \"none\", \"selective\" or \"full\", not " +
       inQuotes(name));
}

void readBatch(const Json &json, Job &job) {
  checkKeys(json, "batch", {"global", "micro", "sequence", "recompute"});
  Batch &batch = job.batch;
  batch.global = asInteger(json::require(json, "batch", "global"),
                           "batch.global", 1, kMostBatch);
  batch.sequence = asInteger(json::require(json, "batch", "sequence"),
                             "batch.sequence", 1, kMostBatch);
  batch.micro = integerOr(json, "batch", "micro", 1, 1, kMostMicroBatch);
  if (batch.global % batch.micro != 0)
    fail("batch.global " + std::to_string(batch.global) +
         " does not divide by batch.micro " + std::to_string(batch.micro));
  if (const Json *value = json.find("recompute"))
    batch.recompute = readRecompute(*value, "batch.recompute");
}

void readConstraints(const Json &json, Constraints &out) {
  const std::string path = "constraints";
  checkKeys(json, path,
            {"world", "tp", "cp", "ep", "etp", "fsdp", "dp", "pp", "vpp",
             "zero", "micro", "recompute", "reserve", "tp_inside_node",
             "uneven_layers", "uneven_batches"});
  for (const char *axis : {"world", "tp", "cp", "ep", "etp", "fsdp", "dp", "pp",
                           "vpp", "zero", "micro"})
    if (const Json *value = json.find(axis)) {
      std::string name = path + "." + axis;
      if (value->isArray())
        out.allowed[axis] = json::asIntegers(*value, name, 0);
      else
        out.allowed[axis] = {asInteger(*value, name, 0)};
      if (out.allowed[axis].empty())
        fail(name + " allows nothing");
    }
  if (const Json *value = json.find("recompute"))
    for (const Json &item : json::asArray(*value, path + ".recompute").items)
      out.recompute.push_back(readRecompute(item, path + ".recompute"));
  if (const Json *value = json.find("reserve"))
    out.reserve = request::readBytes(*value, path + ".reserve");
  out.tpInsideNode = boolOr(json, path, "tp_inside_node", true);
  out.unevenLayers = boolOr(json, path, "uneven_layers", true);
  out.unevenBatches = boolOr(json, path, "uneven_batches", true);
}

void readTimeModel(const Json &json, TimeModel &out) {
  const std::string path = "time";
  checkKeys(json, path,
            {"efficiency", "network_efficiency", "hide_gradients",
             "expert_imbalance", "slack"});
  out.efficiency = numberOr(json, path, "efficiency", out.efficiency, 1);
  out.networkEfficiency =
      numberOr(json, path, "network_efficiency", out.networkEfficiency, 1);
  out.hideGradients = boolOr(json, path, "hide_gradients", true);
  out.expertImbalance =
      numberOr(json, path, "expert_imbalance", out.expertImbalance, 1e6);
  if (const Json *slack = json.find("slack"))
    out.slack = slack->number == 0 && slack->kind == Json::Kind::Integer
                    ? 0
                    : numberOr(json, path, "slack", out.slack, 10);
}

void readTransition(const Json &json, Job &job) {
  checkKeys(json, "transition", {"staging", "mode", "horizon_steps"});
  if (const Json *value = json.find("staging"))
    job.staging = request::readBytes(*value, "transition.staging");
  if (const Json *value = json.find("mode"))
    job.mode = request::readMemoryMode(*value, "transition.mode");
  job.horizon = integerOr(json, "transition", "horizon_steps", job.horizon, 1,
                          int64_t(1) << 40);
}

std::vector<double> readSeconds(const Json &json, const std::string &path) {
  std::vector<double> out;
  for (const Json &item : json::asArray(json, path).items)
    out.push_back(
        asPositiveNumber(item, path + "[" + std::to_string(out.size()) + "]"));
  return out;
}

void readProfile(const Json &json, Job &job) {
  const std::string path = "profile";
  checkKeys(json, path,
            {"layer_seconds", "first_seconds", "last_seconds", "expert_load",
             "device_slowdown", "links_GBps"});
  Profile &out = job.profile;
  if (const Json *value = json.find("layer_seconds")) {
    out.layerSeconds = readSeconds(*value, path + ".layer_seconds");
    if (int64_t(out.layerSeconds.size()) != job.model.layers)
      fail(path + ".layer_seconds has " +
           std::to_string(out.layerSeconds.size()) +
           " entries, but the model has " + std::to_string(job.model.layers) +
           " layers");
  }
  out.firstSeconds = numberOr(json, path, "first_seconds", 0, 1e9);
  out.lastSeconds = numberOr(json, path, "last_seconds", 0, 1e9);
  if (const Json *value = json.find("expert_load"))
    for (const Json &row : json::asArray(*value, path + ".expert_load").items) {
      out.expertLoad.push_back(json::asIntegers(row, path + ".expert_load", 0));
      if (int64_t(out.expertLoad.back().size()) != job.model.experts)
        fail(path + ".expert_load has a row of " +
             std::to_string(out.expertLoad.back().size()) +
             " entries, but the model has " +
             std::to_string(job.model.experts) + " experts");
    }
  if (const Json *value = json.find("device_slowdown")) {
    std::vector<double> slow = readSeconds(*value, path + ".device_slowdown");
    if (slow.size() != job.cluster.devices.size())
      fail(path + ".device_slowdown has " + std::to_string(slow.size()) +
           " entries, but the cluster has " +
           std::to_string(job.cluster.devices.size()) + " devices");
    for (size_t i = 0; i < slow.size(); ++i)
      job.cluster.devices[i].flops /= slow[i];
  }
  if (const Json *value = json.find("links_GBps")) {
    job.cluster.measured.clear();
    readMeasured(*value, job.cluster);
  }
}

/// Layers per block, as lib/Request deals them out (it has checked them).
std::vector<int64_t> blocksOf(const request::ParallelSizes &sizes,
                              int64_t layers) {
  int64_t count = sizes.pp * sizes.vpp;
  if (sizes.ppLayers.empty())
    return std::vector<int64_t>(count, layers / count);
  if (int64_t(sizes.ppLayers.size()) == count)
    return sizes.ppLayers;
  std::vector<int64_t> blocks;
  for (int64_t chunk = 0; chunk < sizes.vpp; ++chunk)
    for (int64_t stage : sizes.ppLayers)
      blocks.push_back(stage / sizes.vpp);
  return blocks;
}

void readLayout(const Json &json, const megatron::Model &model, Job &job) {
  const std::string path = "layout";
  if (json::asObject(json, path).find("shards"))
    fail("layout has \"shards\", but advice needs parallel sizes");
  request::ParallelSizes in =
      request::readParallelSizes(json, path, job.vocabMultiple);
  if (in.vocabMultiple != job.vocabMultiple)
    fail("layout.vocab_multiple differs from vocab_multiple");
  if (json.find("state"))
    fail("layout has \"state\", which a job says at the top");
  const std::vector<std::string> order = {"tp", "cp", "ep", "fsdp", "dp", "pp"};
  if (in.order != order)
    fail("layout.order must be \"tp-cp-ep-fsdp-dp-pp\"");
  // The reader of requests says what does not fit the model.
  request::layoutFromSizes(json, path, model, {}, job.vocabMultiple);
  Sizes &out = job.today;
  out.world = in.world;
  out.tp = in.tp, out.cp = in.cp, out.ep = in.ep, out.etp = in.etp;
  out.fsdp = in.fsdp, out.dp = in.dp, out.pp = in.pp, out.vpp = in.vpp;
  out.zero = in.zero;
  if (json.find("bucket_size"))
    out.bucketSize = in.bucketSize;
  out.blocks = blocksOf(in, job.model.layers);
  out.devices = request::readDevices(json, path, in.world);
  if (out.devices.empty()) {
    out.devices.resize(in.world);
    std::iota(out.devices.begin(), out.devices.end(), 0);
  }
  for (int64_t device : out.devices)
    if (device >= int64_t(job.cluster.devices.size()))
      fail("layout uses device " + std::to_string(device) +
           ", but the cluster has " +
           std::to_string(job.cluster.devices.size()) + " devices");
  job.layoutText = textOf(json).dump();
}

megatron::Model readModel(const Json &json, Job &job) {
  const Json &value = json::require(json, "job", "model");
  megatron::Model model =
      request::readModel(value, request::readModelFile(value, job.directory));
  Json config = value;
  std::string path = "model";
  if (value.isString()) {
    path = "model " + inQuotes(value.string);
    job.modelPath = value.string;
    bool isAbsolute = value.string[0] == '/';
    config = json::parseJson(readFile(isAbsolute || job.directory.empty()
                                          ? value.string
                                          : job.directory + "/" + value.string,
                                      value.string),
                             path);
  } else {
    job.modelText = textOf(value).dump();
  }
  if (!config.find("model_type"))
    fail(path + " is a list of tensors, but advice needs a config.json with "
                "\"model_type\"");
  std::vector<StateWidth> states;
  if (const Json *state = json.find("state")) {
    for (const Json::Member &member : json::asObject(*state, "state").members) {
      std::string where = "state." + member.first;
      const std::string &text = json::asString(member.second, where);
      std::optional<DType> dtype = parseDType(text);
      if (!dtype)
        fail(where + " is the unknown dtype " + inQuotes(text));
      states.push_back({member.first, byteWidth(*dtype)});
    }
    job.stateText = textOf(*state).dump();
  }
  job.model = readModelShape(config, model, path, states);
  return model;
}

void addLost(const Json &json, const JobChanges &changes, JobCluster &cluster) {
  auto lose = [&](const Place &place, const std::string &path) {
    for (int64_t device : devicesAt(place, cluster, path))
      cluster.devices[device].isLost = true;
  };
  if (const Json *lost = json.find("lost"))
    for (size_t i = 0; i < json::asArray(*lost, "lost").items.size(); ++i) {
      std::string path = "lost[" + std::to_string(i) + "]";
      lose(readPlace(lost->items[i], path), path);
    }
  for (const std::string &text : changes.lost)
    lose(readPlace(text, "--lost"), "--lost");
  if (changes.devices.empty())
    return;
  std::vector<bool> remains(cluster.devices.size(), false);
  for (int64_t device : changes.devices) {
    Place place;
    place.device = device;
    devicesAt(place, cluster, "--devices");
    remains[device] = true;
  }
  for (size_t i = 0; i < remains.size(); ++i)
    cluster.devices[i].isLost |= !remains[i];
}

void chooseMicroBatches(Job &job) {
  auto it = job.constraints.allowed.find("micro");
  if (it != job.constraints.allowed.end()) {
    for (int64_t micro : it->second)
      if (micro >= 1 && job.batch.global % micro == 0)
        job.microBatches.push_back(micro);
    if (job.microBatches.empty())
      fail("constraints.micro has no divisor of batch.global " +
           std::to_string(job.batch.global));
    return;
  }
  job.microBatches = {job.batch.micro};
}

void readParts(const Json &json, Job &job) {
  if (const Json *value = json.find("constraints"))
    readConstraints(*value, job.constraints);
  if (const Json *value = json.find("time"))
    readTimeModel(*value, job.time);
  if (const Json *value = json.find("transition"))
    readTransition(*value, job);
  if (const Json *value = json.find("gradients")) {
    const std::string &text = json::asString(*value, "gradients");
    std::optional<DType> dtype = parseDType(text);
    if (!dtype)
      fail("gradients is the unknown dtype " + inQuotes(text));
    job.gradientBytes = byteWidth(*dtype);
  }
}

Job read(const std::string &text, const std::string &directory,
         const JobChanges &changes) {
  Json json = json::parseJson(text, "job");
  checkKeys(json, "job",
            {"model", "state", "gradients", "cluster", "layout", "batch",
             "constraints", "time", "transition", "lost", "vocab_multiple",
             "profile"});
  Job job;
  job.directory = directory;
  job.vocabMultiple =
      integerOr(json, "job", "vocab_multiple", 128, 1, int64_t(1) << 20);
  job.cluster = readCluster(json::require(json, "job", "cluster"));
  readBatch(json::require(json, "job", "batch"), job);
  readParts(json, job);
  megatron::Model model = readModel(json, job);
  readLayout(json::require(json, "job", "layout"), model, job);
  chooseMicroBatches(job);
  if (const Json *value = json.find("profile"))
    readProfile(*value, job);
  if (!changes.profile.empty())
    readProfile(json::parseJson(changes.profile, "profile"), job);
  addLost(json, changes, job.cluster);
  if (job.available().empty())
    fail("no device is left");
  return job;
}

std::string oneLine(std::string text) {
  for (char &c : text)
    if (static_cast<unsigned char>(c) < ' ')
      c = ' ';
  return text;
}

} // namespace

const char *nameOf(Recompute recompute) {
  switch (recompute) {
  case Recompute::None:
    return "none";
  case Recompute::Selective:
    return "selective";
  case Recompute::Full:
    return "full";
  }
  return "";
}

bool Constraints::allows(const std::string &axis, int64_t value) const {
  auto it = allowed.find(axis);
  return it == allowed.end() || std::find(it->second.begin(), it->second.end(),
                                          value) != it->second.end();
}

std::vector<int64_t> Job::available() const {
  std::vector<int64_t> out;
  for (size_t i = 0; i < cluster.devices.size(); ++i)
    if (!cluster.devices[i].isLost)
      out.push_back(int64_t(i));
  return out;
}

std::optional<Job> readJob(const std::string &json,
                           const std::string &directory,
                           const JobChanges &changes, std::string &error) {
  try {
    return read(json, directory, changes);
  } catch (const json::JsonError &mistake) {
    error = oneLine(mistake.message);
  } catch (const std::exception &failure) {
    error = oneLine(std::string("cannot read the job: ") + failure.what());
  }
  return std::nullopt;
}

} // namespace dt::advise
