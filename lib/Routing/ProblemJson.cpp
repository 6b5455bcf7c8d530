//===- ProblemJson.cpp - What the texts of problems share -----------------===//

#include "dt/Routing/ProblemJson.h"

#include <algorithm>

using namespace dt;
using nlohmann::json;
using nlohmann::ordered_json;

void JsonPlace::refuse(const std::string &expected) const {
  if (error->empty())
    *error = (path.empty() ? "the problem" : path) + " must be " + expected +
             ", not " + (value ? value->dump().substr(0, 40) : "missing");
}

void JsonPlace::expectKeys(std::initializer_list<const char *> keys) const {
  if (!value || !error->empty())
    return;
  if (!value->is_object())
    return refuse("an object");
  for (const auto &[key, member] : value->items())
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      std::string known;
      for (const char *name : keys)
        known += (known.empty() ? "" : ", ") + std::string(name);
      *error = "unknown key '" + key + "' in " +
               (path.empty() ? "the problem" : path) + ", expected " + known;
      return;
    }
}

bool JsonPlace::has(const char *key) const {
  return value && value->is_object() && value->contains(key);
}

JsonPlace JsonPlace::operator[](const char *key) const {
  JsonPlace member(nullptr, path.empty() ? key : path + "." + key, *error);
  if (has(key))
    member.value = &(*value)[key];
  return member;
}

size_t JsonPlace::size() const {
  if (value && value->is_array())
    return value->size();
  refuse("an array");
  return 0;
}

JsonPlace JsonPlace::operator[](size_t index) const {
  JsonPlace item(nullptr, path + "[" + std::to_string(index) + "]", *error);
  if (value && value->is_array() && index < value->size())
    item.value = &(*value)[index];
  return item;
}

int64_t JsonPlace::integer() const {
  bool fits = value && value->is_number_integer() &&
              (!value->is_number_unsigned() ||
               value->get<uint64_t>() <= uint64_t(INT64_MAX));
  if (fits)
    return value->get<int64_t>();
  refuse("an integer");
  return 0;
}

bool JsonPlace::truth() const {
  if (value && value->is_boolean())
    return value->get<bool>();
  refuse("true or false");
  return false;
}

uint32_t JsonPlace::number() const {
  int64_t found = integer();
  if (found >= 0 && found <= int64_t(UINT32_MAX))
    return uint32_t(found);
  refuse("an integer from 0 to 2^32 - 1");
  return 0;
}

double JsonPlace::real() const {
  if (value && value->is_number())
    return value->get<double>();
  refuse("a number");
  return 0;
}

std::string JsonPlace::string() const {
  if (value && value->is_string())
    return value->get<std::string>();
  refuse("a string");
  return "";
}

std::vector<int64_t> JsonPlace::integers() const {
  std::vector<int64_t> out;
  for (size_t i = 0; i < size(); ++i)
    out.push_back((*this)[i].integer());
  return out;
}

json dt::parseWithComments(const std::string &text, std::string &error) {
  try {
    return json::parse(text, nullptr, /*allow_exceptions=*/true,
                       /*ignore_comments=*/true);
  } catch (const json::parse_error &fault) {
    // "[json.exception...] parse error at line 1, column 2: ..."
    std::string reason = fault.what();
    error = "the problem is not JSON: " +
            reason.substr(std::min(reason.size(), reason.find("] ") + 2));
  }
  return json();
}

std::string dt::jsonLines(const std::vector<ordered_json> &rows,
                          const std::string &indent) {
  std::string out = "[";
  for (size_t i = 0; i < rows.size(); ++i)
    out += (i ? ",\n  " : "\n  ") + indent + rows[i].dump();
  return out + (rows.empty() ? "]" : "\n" + indent + "]");
}

ordered_json dt::toJson(Interval interval) {
  return {interval.lo, interval.hi};
}

ordered_json dt::toJson(const Box &box) {
  ordered_json out = ordered_json::array();
  for (unsigned dim = 0; dim < box.rank(); ++dim)
    out.push_back(toJson(box[dim]));
  return out;
}

namespace {

ordered_json endToJson(LinkEnd end) {
  return {{end.isNode ? "node" : "device", end.index}};
}

LinkEnd readEnd(const JsonPlace &at) {
  at.expectKeys({"node", "device"});
  LinkEnd end;
  end.isNode = at.has("node");
  end.index = at[end.isNode ? "node" : "device"].integer();
  return end;
}

} // namespace

ordered_json dt::toJson(const Cluster &cluster) {
  ordered_json out = {{"devices_per_node", cluster.devicesPerNode},
                      {"devices_per_nic", cluster.devicesPerNic},
                      {"pxn", cluster.pxn},
                      {"intra_node_GBps", cluster.intraNodeGBps},
                      {"inter_node_GBps", cluster.interNodeGBps},
                      {"latency_us", cluster.latencyUs}};
  if (cluster.launchUs > 0)
    out["launch_us"] = cluster.launchUs;
  if (cluster.channelsPerPeer > 0) {
    out["channels_per_peer"] = cluster.channelsPerPeer;
    out["intra_channel_GBps"] = cluster.intraChannelGBps;
    out["inter_channel_GBps"] = cluster.interChannelGBps;
  }
  if (cluster.relays)
    out["relays"] = true;
  for (const Link &link : cluster.links)
    out["links"].push_back({{"from", endToJson(link.from)},
                            {"to", endToJson(link.to)},
                            {"GBps", link.GBps}});
  return out;
}

Interval dt::readInterval(const JsonPlace &at) {
  if (at.size() != 2)
    at.refuse("[LO, HI]");
  return {at[size_t(0)].integer(), at[1].integer()};
}

Box dt::readBox(const JsonPlace &at) {
  size_t rank = at.size();
  if (rank > kMaxRank) {
    at.refuse("a box of at most " + std::to_string(kMaxRank) + " dims");
    return Box();
  }
  Box box = Box(unsigned(rank));
  for (unsigned dim = 0; dim < rank; ++dim)
    box[dim] = readInterval(at[dim]);
  return box;
}

Cluster dt::readCluster(const JsonPlace &at) {
  at.expectKeys({"devices_per_node", "devices_per_nic", "pxn",
                 "intra_node_GBps", "inter_node_GBps", "latency_us",
                 "launch_us", "channels_per_peer", "intra_channel_GBps",
                 "inter_channel_GBps", "relays", "links"});
  Cluster out;
  out.devicesPerNode = at["devices_per_node"].integer();
  if (at.has("devices_per_nic"))
    out.devicesPerNic = at["devices_per_nic"].integer();
  out.pxn = at.has("pxn") && at["pxn"].truth();
  out.relays = at.has("relays") && at["relays"].truth();
  out.intraNodeGBps = at["intra_node_GBps"].real();
  out.interNodeGBps = at["inter_node_GBps"].real();
  out.latencyUs = at["latency_us"].real();
  if (at.has("launch_us"))
    out.launchUs = at["launch_us"].real();
  if (at.has("channels_per_peer")) {
    out.channelsPerPeer = at["channels_per_peer"].integer();
    out.intraChannelGBps = at["intra_channel_GBps"].real();
    out.interChannelGBps = at["inter_channel_GBps"].real();
  }
  if (!at.has("links"))
    return out;
  JsonPlace links = at["links"];
  for (size_t i = 0; i < links.size(); ++i) {
    links[i].expectKeys({"from", "to", "GBps"});
    out.links.push_back({readEnd(links[i]["from"]), readEnd(links[i]["to"]),
                         links[i]["GBps"].real()});
  }
  return out;
}
