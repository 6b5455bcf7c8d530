//===- DeviceLists.cpp - Requests but for where ranks are -----------------===//

#include "DeviceLists.h"

#include <algorithm>
#include <initializer_list>

namespace dt::request {

namespace {

/// Keys are those of which it is known: a new one is not among them.
bool hasOnly(const Json &object, std::initializer_list<const char *> keys) {
  auto isKnown = [&](const Json::Member &member) {
    return std::find(keys.begin(), keys.end(), member.first) != keys.end();
  };
  return object.isObject() &&
         std::all_of(object.members.begin(), object.members.end(), isKnown);
}

/// Of parallel sizes, which place tensors by rank.
bool isSized(const Json &side) {
  return hasOnly(side, {"world", "tp", "cp", "ep", "etp", "fsdp", "dp", "pp",
                        "vpp", "zero", "order", "pp_layers", "devices",
                        "vocab_multiple", "bucket_size", "state"});
}

} // namespace

bool onlyPlacesRanks(const Json &request) {
  if (!hasOnly(request, {"model", "state", "derive", "drop", "rules", "source",
                         "destination", "cluster", "memory", "compression",
                         "vocab_multiple"}))
    return false;
  const Json *cluster = request.find("cluster");
  const Json *source = request.find("source");
  const Json *destination = request.find("destination");
  return source && destination && isSized(*source) && isSized(*destination) &&
         !(cluster && cluster->find("calibration"));
}

Json withoutDeviceLists(const Json &request) {
  Json out = request;
  for (Json::Member &side : out.members)
    if (side.first == "source" || side.first == "destination")
      side.second.members.erase(
          std::remove_if(side.second.members.begin(), side.second.members.end(),
                         [](const Json::Member &member) {
                           return member.first == "devices";
                         }),
          side.second.members.end());
  return out;
}

} // namespace dt::request
