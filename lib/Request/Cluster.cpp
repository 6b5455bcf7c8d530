//===- Cluster.cpp - The cluster and memory parts of a request ------------===//
//
// "links" names the bandwidths that differ from the two-level default:
//
//   {"from": 3, "to": 12, "GBps": 10}                one device to another
//   {"from": "node:0", "to": "node:1", "GBps": 50}   any of a node's devices
//
// each link one way, GBps = 1e9 bytes/s of one pair of devices.
//
// "calibration" names a file that bench/gpu/report.py wrote, whose figures
// stand where the request has none:
//
//   {"machine": {...}, "versions": {...}, "command": "...",
//    "cluster": {"intra_node_GBps": 380, "launch_us": 6.5, ...}}
//
//===----------------------------------------------------------------------===//

#include "Cluster.h"
#include "NamedFile.h"
#include "Units.h"

#include "dt/Geometry/Limits.h"

namespace dt::request {

namespace {

double readGBps(const Json &value, const std::string &path) {
  return asNumber(value, path, kMinGBps, kMaxGBps);
}

LinkEnd readLinkEnd(const Json &value, const std::string &path) {
  LinkEnd end;
  if (!value.isString()) {
    end.index = asInteger(value, path, 0, kMaxDevice);
    return end;
  }
  const std::string prefix = "node:";
  std::string digits;
  if (value.string.compare(0, prefix.size(), prefix) == 0)
    digits = value.string.substr(prefix.size());
  if (digits.empty() || digits.size() > 9 ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    fail(path +
         " must be a device such as 3 or a node such as \"node:0\", "
         "not the string " +
         inQuotes(value.string));
  end.isNode = true;
  end.index = std::stoll(digits);
  return end;
}

Link readLink(const Json &json, const std::string &path) {
  checkKeys(json, path, {"from", "to", "GBps"});
  Link link;
  link.from = readLinkEnd(require(json, path, "from"), path + ".from");
  link.to = readLinkEnd(require(json, path, "to"), path + ".to");
  link.GBps = readGBps(require(json, path, "GBps"), path + ".GBps");
  return link;
}

/// What can be measured: rates, and what a library adds to the machine.
void readMeasured(const Json &json, const std::string &path, Cluster &cluster) {
  auto at = [&](const char *key) { return pathOf(path, key); };
  for (auto [key, GBps] :
       {std::make_pair("intra_node_GBps", &cluster.intraNodeGBps),
        {"inter_node_GBps", &cluster.interNodeGBps}})
    if (const Json *value = json.find(key))
      *GBps = readGBps(*value, at(key));
  for (auto [key, us] : {std::make_pair("latency_us", &cluster.latencyUs),
                         {"launch_us", &cluster.launchUs}})
    if (const Json *value = json.find(key))
      *us = asNumber(*value, at(key), 0, kMaxLatencyUs);
  for (auto [key, us] : {std::make_pair("multicast_us", &cluster.multicastUs),
                         {"copy_engine_us", &cluster.copyEngineUs}})
    if (const Json *value = json.find(key))
      *us = asNumber(*value, at(key), kMinCallUs, kMaxLatencyUs);
  if (const Json *value = json.find("channels_per_peer"))
    cluster.channelsPerPeer =
        asInteger(*value, at("channels_per_peer"), 1, dtrt::kMostChannels);
  for (auto [key, GBps] :
       {std::make_pair("intra_channel_GBps", &cluster.intraChannelGBps),
        {"inter_channel_GBps", &cluster.interChannelGBps}}) {
    const Json *value = json.find(key);
    if (!value)
      continue;
    if (cluster.channelsPerPeer == 0)
      fail(at(key) + " stands without " + at("channels_per_peer"));
    *GBps = readGBps(*value, at(key));
  }
}

} // namespace

Cluster readCalibration(const Json &request, const std::string &directory) {
  const Json *cluster = request.find("cluster");
  const Json *file = cluster ? cluster->find("calibration") : nullptr;
  if (!file)
    return {};
  const std::string &path = asString(*file, "cluster.calibration");
  std::string what = "calibration " + inQuotes(path);
  Json json = readNamedFile(path, directory, what);
  checkKeys(json, what, {"machine", "versions", "command", "cluster"});
  asObject(require(json, what, "machine"), pathOf(what, "machine"));
  asObject(require(json, what, "versions"), pathOf(what, "versions"));
  std::string where = pathOf(what, "cluster");
  const Json &measured = require(json, what, "cluster");
  checkKeys(measured, where,
            {"intra_node_GBps", "inter_node_GBps", "latency_us", "launch_us",
             "multicast_us", "copy_engine_us", "channels_per_peer",
             "intra_channel_GBps", "inter_channel_GBps"});
  Cluster out;
  readMeasured(measured, where, out);
  return out;
}

int64_t readDevicesPerNode(const Json &json) {
  const Json *value = json.find("devices_per_node");
  return value ? asInteger(*value, "cluster.devices_per_node", 1, kMaxDevice)
               : Cluster().devicesPerNode;
}

dtrt::CollectiveChoice readCollectives(const Json &json) {
  using Choice = dtrt::CollectiveChoice;
  std::string text = asString(json, "cluster.collectives");
  for (Choice choice : {Choice::Auto, Choice::Messages, Choice::Library})
    if (text == dtrt::collectiveChoiceName(choice))
      return choice;
  fail("cluster.collectives is \"" + text +
       "\", expected \"auto\", \"messages\" or \"library\"");
}

Cluster readCluster(const Json &json, Cluster cluster) {
  checkKeys(json, "cluster",
            {"devices_per_node", "nics_per_node", "pxn", "relays",
             "collectives", "calibration", "intra_node_GBps", "inter_node_GBps",
             "latency_us", "launch_us", "multicast_us", "copy_engine_us",
             "channels_per_peer", "intra_channel_GBps", "inter_channel_GBps",
             "links"});
  cluster.devicesPerNode = readDevicesPerNode(json);
  if (const Json *value = json.find("nics_per_node")) {
    int64_t nics = asInteger(*value, "cluster.nics_per_node", 1, kMaxDevice);
    if (cluster.devicesPerNode % nics != 0)
      fail("cluster.nics_per_node must divide the " +
           std::to_string(cluster.devicesPerNode) +
           " devices of a node, not be " + std::to_string(nics));
    cluster.devicesPerNic = cluster.devicesPerNode / nics;
  }
  if (const Json *value = json.find("pxn"))
    cluster.pxn = asBool(*value, "cluster.pxn");
  if (const Json *value = json.find("relays"))
    cluster.relays = asBool(*value, "cluster.relays");
  if (const Json *value = json.find("collectives"))
    cluster.collectives = readCollectives(*value);
  readMeasured(json, "cluster", cluster);
  if (const Json *links = json.find("links")) {
    checkCount(asArray(*links, "cluster.links").items.size(), kMaxLinks,
               "cluster.links", "links");
    for (const Json &item : links->items)
      cluster.links.push_back(readLink(
          item, "cluster.links[" + std::to_string(cluster.links.size()) + "]"));
  }
  return cluster;
}

MemoryMode readMemoryMode(const Json &json, const std::string &path) {
  const std::string &name = asString(json, path);
  for (MemoryMode mode : {MemoryMode::Flat, MemoryMode::Rollback})
    if (name == memoryModeName(mode))
      return mode;
  fail(path + " must be \"flat\" or \"rollback\", not " + inQuotes(name));
}

int64_t readPage(const Json &json, const MemoryDecl &memory) {
  if (memory.mode != MemoryMode::Flat ||
      memory.granularity != Granularity::Page)
    fail("memory.page is for mode \"flat\" with granularity \"page\"");
  const int64_t page = readBytes(json, "memory.page");
  if (!isPage(page))
    fail("memory.page must be a power of two from " +
         std::to_string(kMinPageBytes) + " to " +
         std::to_string(kMaxPageBytes) + ", not " + std::to_string(page));
  return page;
}

MemoryDecl readMemory(const Json &json) {
  checkKeys(
      json, "memory",
      {"staging", "device", "mode", "granularity", "page", "communicator"});
  MemoryDecl memory;
  if (const Json *value = json.find("staging"))
    memory.stagingBytes = readBytes(*value, "memory.staging");
  if (const Json *value = json.find("device"))
    memory.deviceBytes = readBytes(*value, "memory.device");
  if (const Json *value = json.find("mode"))
    memory.mode = readMemoryMode(*value, "memory.mode");
  if (const Json *value = json.find("granularity")) {
    const std::string &text = asString(*value, "memory.granularity");
    if (text != "page" && text != "tensor")
      fail("memory.granularity must be \"page\" or \"tensor\", not " +
           inQuotes(text));
    if (memory.mode != MemoryMode::Flat)
      fail("memory.granularity stands beside mode \"rollback\", expected "
           "\"flat\"");
    memory.granularity =
        text == "tensor" ? Granularity::Tensor : Granularity::Page;
  }
  if (const Json *value = json.find("page"))
    memory.pageBytes = readPage(*value, memory);
  if (const Json *value = json.find("communicator")) {
    const std::string &text = asString(*value, "memory.communicator");
    if (text != "nccl")
      fail("memory.communicator must be \"nccl\", not " + inQuotes(text));
    memory.overNccl = true;
  }
  return memory;
}

dtrt::Compression readCompression(const Json &json) {
  checkKeys(json, "compression", {"below_GBps", "block"});
  dtrt::Compression out;
  out.belowGBps = readGBps(require(json, "compression", "below_GBps"),
                           "compression.below_GBps");
  out.blockBytes = dtrt::Compression::kDefaultBlock;
  if (const Json *value = json.find("block"))
    out.blockBytes = uint64_t(readBytes(*value, "compression.block"));
  if (out.blockBytes < dtrt::Compression::kLeastBlock ||
      out.blockBytes > dtrt::Compression::kMostBlock)
    fail("compression.block must be from " +
         std::to_string(dtrt::Compression::kLeastBlock) + " to " +
         std::to_string(dtrt::Compression::kMostBlock) + " bytes, not " +
         std::to_string(out.blockBytes));
  return out;
}

} // namespace dt::request
