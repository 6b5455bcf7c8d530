//===- JobRecord.cpp - Which world a job is in, and who decides it --------===//

#include "dtrt/manager/JobRecord.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <tuple>

namespace dtrt {

namespace {

using Json = nlohmann::json;

/// Of the record's form: processes with another one are told so.
constexpr int kForm = 3;

/// How much of a change the record itself says, which all read many times.
constexpr size_t kMostNamed = 16;
constexpr size_t kMostLayout = 1024; // bytes

const char *const kPhases[] = {"preparing", "transferring", "passed",
                               "committed", "released",     "aborted"};

bool contains(const std::vector<ProcessName> &list,
              const ProcessName &process) {
  return std::find(list.begin(), list.end(), process) != list.end();
}

/// Names and reasons of libraries may be no UTF-8.
std::string textOf(const Json &json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json jsonOf(const JobRequest &change) {
  return {{"join", change.join},
          {"leave", change.leave},
          {"layout", change.layout}};
}

JobRequest changeOf(const Json &json) {
  JobRequest change;
  change.join = json.at("join").get<std::vector<ProcessName>>();
  change.leave = json.at("leave").get<std::vector<ProcessName>>();
  change.layout = json.at("layout");
  return change;
}

/// Those of `all` that are not in `others`, in their order.
std::vector<ProcessName> without(const std::vector<ProcessName> &all,
                                 const std::vector<ProcessName> &others) {
  std::set<std::string_view> there(others.begin(), others.end());
  std::vector<ProcessName> left;
  for (const ProcessName &process : all)
    if (there.count(process) == 0)
      left.push_back(process);
  return left;
}

JobRecord recordOf(const Json &json) {
  JobRecord record;
  record.epoch = json.at("epoch");
  record.firstStep = json.at("first_step");
  record.bornOf = json.at("born_of");
  record.attempt = json.at("attempt");
  std::string phase = json.at("phase");
  record.phase =
      JobPhase(std::find(std::begin(kPhases), std::end(kPhases), phase) -
               std::begin(kPhases));
  if (json.contains("change"))
    record.change = changeOf(json["change"]);
  record.lost = json.value("lost", std::vector<ProcessName>());
  record.parties = json.at("parties");
  record.flat = json.at("flat");
  record.recalls = json.at("recalls");
  record.horizon = json.at("horizon");
  record.leaving = json.value("leaving", "");
  record.by = json.value("by", "");
  record.why = json.value("why", "");
  record.gone = json.value("gone", false);
  std::string code = json.value("code", "");
  for (size_t i = 0; i < kNumErrorCodes; ++i)
    if (code == errorCodeName(ErrorCode(i)))
      record.code = ErrorCode(i);
  return record;
}

} // namespace

const char *jobPhaseName(JobPhase phase) { return kPhases[size_t(phase)]; }

//===----------------------------------------------------------------------===//
// Worlds
//===----------------------------------------------------------------------===//

bool JobWorld::has(const ProcessName &process) const {
  return contains(members, process);
}

const JobWorldRef &nobodysWorld() {
  static const JobWorldRef world = std::make_shared<const JobWorld>();
  return world;
}

std::string JobWorld::text() const {
  return textOf({{"form", kForm}, {"members", members}, {"layout", layout}});
}

Result<JobWorld> JobWorld::parse(const std::string &name,
                                 const std::string &text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    JobWorld world;
    world.name = name;
    world.members = json.at("members").get<std::vector<ProcessName>>();
    world.layout = json.at("layout");
    return world;
  } catch (const Json::exception &error) {
    return makeError("the store's record of world ", name,
                     " is damaged: ", error.what());
  }
}

static void append(std::vector<ProcessName> &list,
                   const std::vector<ProcessName> &more) {
  for (const ProcessName &process : more)
    if (!contains(list, process))
      list.push_back(process);
}

std::optional<JobRequest> JobRequest::between(const JobWorld &world,
                                              const JobWorld &next) {
  JobRequest change;
  change.join = without(next.members, world.members);
  change.leave = without(world.members, next.members);
  if (next.layout != world.layout)
    change.layout = next.layout;
  if (change.join.size() + change.leave.size() > kMostNamed ||
      change.layout.size() > kMostLayout)
    return std::nullopt;
  // Who has left and joins again comes last.
  JobWorld made = change.appliedTo(world);
  bool isRight = made.members == next.members && made.layout == next.layout;
  return isRight ? std::optional<JobRequest>(change) : std::nullopt;
}

JobRequest JobRequest::followedBy(const JobRequest &next) const {
  JobRequest both = *this;
  append(both.join, next.join);
  append(both.leave, next.leave);
  append(both.lost, next.lost);
  if (!next.layout.empty())
    both.layout = next.layout;
  both.flat = flat || next.flat;
  both.recalls = recalls || next.recalls;
  return both;
}

/// Who stays keeps its order; who joins comes last.
JobWorld JobRequest::appliedTo(const JobWorld &world) const {
  JobWorld next;
  next.layout = layout.empty() ? world.layout : layout;
  for (const ProcessName &member : world.members)
    if (!contains(leave, member) && !contains(lost, member))
      next.members.push_back(member);
  append(next.members, join);
  return next;
}

//===----------------------------------------------------------------------===//
// The record
//===----------------------------------------------------------------------===//

bool JobRecord::isLost(const ProcessName &process) const {
  return contains(lost, process);
}

bool JobRecord::isParty(const ProcessName &process) const {
  return isOpen() &&
         (target->has(process) || (world->has(process) && !isLost(process)));
}

bool JobRecord::operator==(const JobRecord &other) const {
  auto all = [](const JobRecord &r) {
    return std::tie(r.epoch, r.world->name, r.firstStep, r.bornOf, r.attempt,
                    r.phase, r.target->name, r.lost, r.parties, r.flat,
                    r.recalls, r.horizon, r.leaving, r.by, r.code, r.why,
                    r.gone);
  };
  return all(*this) == all(other);
}

JobRecord JobRecord::opened(const JobRequest &request,
                            const ProcessName &by) const {
  JobRecord next;
  next.epoch = epoch;
  next.world = world;
  next.firstStep = firstStep;
  next.bornOf = bornOf;
  next.attempt = attempt + 1;
  next.phase = JobPhase::Preparing;
  JobWorld wanted = request.appliedTo(isOpen() ? *target : *world);
  wanted.name = std::to_string(next.attempt) + "." + by;
  if (isOpen())
    next.lost = lost;
  append(next.lost, request.lost);
  next.flat = flat || request.flat;
  next.recalls = recalls || request.recalls;
  next.gone = gone || phase == JobPhase::Passed;
  next.horizon = isOpen() ? horizon : firstStep;
  next.parties = wanted.members.size();
  for (const ProcessName &member : without(world->members, wanted.members))
    next.parties += !next.isLost(member);
  if (epoch != 0)
    next.change = JobRequest::between(*world, wanted);
  next.target = std::make_shared<const JobWorld>(std::move(wanted));
  return next;
}

JobRecord JobRecord::withHorizon(uint64_t step) const {
  JobRecord next = *this;
  next.horizon = step;
  return next;
}

JobRecord JobRecord::aborted(const ProcessName &process,
                             const Status &reason) const {
  JobRecord next = *this;
  next.gone = gone || phase == JobPhase::Passed;
  next.phase = JobPhase::Aborted;
  next.by = process;
  next.code = reason.code();
  next.why = reason.message();
  return next;
}

JobRecord JobRecord::advanced() const {
  JobRecord next = *this;
  bool isReady = phase == JobPhase::Preparing;
  bool hasBegun = phase == JobPhase::Transferring && passes();
  if (isReady || hasBegun || phase == JobPhase::Committed) {
    next.phase = isReady    ? JobPhase::Transferring
                 : hasBegun ? JobPhase::Passed
                            : JobPhase::Released;
    if (next.phase == JobPhase::Released)
      next.leaving.clear();
    return next;
  }
  next.phase = JobPhase::Committed;
  next.epoch = epoch + 1;
  next.bornOf = attempt;
  next.firstStep = horizon;
  next.leaving = world->name;
  next.world = target;
  next.target = nobodysWorld();
  next.change.reset();
  next.lost.clear();
  next.gone = false;
  return next;
}

std::string JobRecord::text() const {
  if (attempt == 0)
    return "";
  Json json = {{"form", kForm},
               {"epoch", epoch},
               {"world", world->name},
               {"first_step", firstStep},
               {"born_of", bornOf},
               {"attempt", attempt},
               {"phase", jobPhaseName(phase)},
               {"target", target->name},
               {"parties", parties},
               {"flat", flat},
               {"recalls", recalls},
               {"horizon", horizon}};
  if (change)
    json["change"] = jsonOf(*change);
  if (!lost.empty())
    json["lost"] = lost;
  if (!leaving.empty())
    json["leaving"] = leaving;
  if (phase == JobPhase::Aborted) {
    json["by"] = by;
    json["code"] = errorCodeName(code);
    json["why"] = why;
  }
  if (gone)
    json["gone"] = gone;
  return textOf(json);
}

/// The worlds that `record` names; its target as it is made of the other one,
/// where the record says how.
static Status loadWorlds(JobRecord &record, const Json &json,
                         const JobRecord::LoadWorld &load) {
  for (auto [key, world] : {std::pair("world", &record.world),
                            std::pair("target", &record.target)}) {
    std::string name = json.at(key);
    if (name.empty())
      continue;
    if (world == &record.target && record.change) {
      JobWorld made = record.change->appliedTo(*record.world);
      made.name = name;
      *world = std::make_shared<const JobWorld>(std::move(made));
      continue;
    }
    auto loaded = load(name);
    DTRT_RETURN_IF_ERROR(loaded);
    *world = *loaded;
  }
  return {};
}

Result<JobRecord> JobRecord::parse(const std::string &text,
                                   const LoadWorld &load) {
  if (text.empty())
    return JobRecord();
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    int form = json.at("form");
    if (form != kForm)
      return makeError(
          ErrorCode::Mismatch, "the store's record of the job has ", "form ",
          form, ", expected ", kForm, ": the processes run different versions");
    JobRecord record = recordOf(json);
    if (size_t(record.phase) >= std::size(kPhases))
      return makeError("the store's record of the job is damaged: no phase ",
                       json.at("phase").get<std::string>());
    DTRT_RETURN_IF_ERROR(loadWorlds(record, json, load));
    return record;
  } catch (const Json::exception &error) {
    return makeError("the store's record of the job is damaged: ",
                     error.what());
  }
}

} // namespace dtrt
