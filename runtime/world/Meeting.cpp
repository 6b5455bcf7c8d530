//===- Meeting.cpp - Ranks that find each other again ---------------------===//

#include "dtrt/world/Meeting.h"

#include <nlohmann/json.hpp>

namespace dtrt {

namespace {

using Json = nlohmann::json;

Result<std::string> listOf(const std::vector<std::string> &said) {
  return Json(said).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<std::vector<std::string>> parseList(const std::string &list) {
  Json parsed = Json::parse(list, nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> said;
  for (const Json &text : parsed)
    if (text.is_string())
      said.push_back(text);
  if (!parsed.is_array() || said.size() != parsed.size())
    return makeError("rank 0 has sent '", list,
                     "', expected what all ranks "
                     "have said");
  return said;
}

Result<std::string> nothing(const std::vector<std::string> &) {
  return std::string();
}

} // namespace

Meeting::Meeting(const World &world)
    : ranks(world.store, world.rank, world.size, world.timeout) {}

Result<std::vector<std::string>> Meeting::meet(const std::string &said) {
  Arrival arrival;
  arrival.kind = "meeting";
  auto list = ranks.gather(arrival, said, listOf);
  Status status = statusOf(list);
  // All ranks have the list before one of them goes.
  if (status.ok()) {
    auto ended = ranks.commit("", nothing);
    status = !ended.ok() ? ended.status() : ended->why;
  }
  if (!status.ok()) {
    (void)ranks.abort(status);
    return makeError("rank ", ranks.rank(), ", meeting: ", status);
  }
  return parseList(*list);
}

} // namespace dtrt
