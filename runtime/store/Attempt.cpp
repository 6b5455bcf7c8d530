//===- Attempt.cpp - One try of all ranks to do something together --------===//

#include "dtrt/store/Attempt.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dtrt {

namespace {

using Json = nlohmann::json;

/// Of the record's form: ranks with another one are told so.
constexpr int kForm = 1;

const char *const kStates[] = {"open", "committed", "aborted"};

Json asJson(const Stop &stop) {
  Json json = {{"rank", stop.rank},
               {"code", errorCodeName(stop.code)},
               {"why", stop.why}};
  if (!stop.gone.ranks.empty())
    json["gone"] = stop.gone.ranks;
  return json;
}

Stop stopOf(const Json &json) {
  Stop stop;
  stop.rank = json.at("rank");
  stop.why = json.at("why");
  stop.gone.ranks = json.value("gone", std::vector<uint32_t>());
  std::string code = json.at("code");
  for (size_t i = 0; i < kNumErrorCodes; ++i)
    if (code == errorCodeName(ErrorCode(i)))
      stop.code = ErrorCode(i);
  return stop;
}

Attempt attemptOf(const Json &json) {
  Attempt attempt;
  attempt.id = json.at("id");
  attempt.kind = json.at("kind");
  attempt.opener = json.at("opener");
  attempt.tag = json.at("tag");
  for (const Json &term : json.at("terms"))
    attempt.terms.push_back({term.at(0), term.at(1)});
  std::string state = json.at("state");
  for (size_t i = 0; i < std::size(kStates); ++i)
    if (state == kStates[i])
      attempt.state = Attempt::State(i);
  attempt.callsRoll = json.value("calls_roll", false);
  attempt.note = json.value("note", "");
  if (json.contains("stop"))
    attempt.stop = stopOf(json["stop"]);
  attempt.missing = json.value("missing", std::vector<uint32_t>());
  attempt.beforeId = json.value("before_id", "");
  if (json.contains("before"))
    attempt.before = stopOf(json["before"]);
  return attempt;
}

std::string notTheSame(const std::string &name, uint32_t one,
                       const std::string &oneHas, uint32_t other,
                       const std::string &otherHas) {
  return "the ranks do not have the same " + name + ": rank " +
         std::to_string(one) + " has " + oneHas + ", rank " +
         std::to_string(other) + " has " + otherHas;
}

/// Who has what, where an open attempt is not the one that this rank wants.
std::optional<std::string> differs(const Attempt &found,
                                   const Arrival &arrival) {
  if (found.tag != arrival.tag)
    return notTheSame("tag", found.opener, found.tag, arrival.rank,
                      arrival.tag);
  for (size_t i = 0; i < std::min(found.terms.size(), arrival.terms.size());
       ++i)
    if (found.terms[i].value != arrival.terms[i].value)
      return notTheSame(arrival.terms[i].name, found.opener,
                        found.terms[i].value, arrival.rank,
                        arrival.terms[i].value);
  return std::nullopt;
}

/// Takes the place of `found`, whose ranks are told why.
ArrivalStep open(const std::optional<Attempt> &found, const Arrival &arrival,
                 const std::string &why = "") {
  ArrivalStep step;
  step.what = ArrivalStep::What::Open;
  Attempt next;
  next.kind = arrival.kind;
  next.opener = arrival.rank;
  next.tag = arrival.tag;
  next.terms = arrival.terms;
  if (found && found->state == Attempt::State::Open)
    next.before = Stop{arrival.rank, ErrorCode::Cancelled, why, {}};
  else if (found && found->state == Attempt::State::Aborted)
    next.before = found->stop;
  if (next.before)
    next.beforeId = found->id;
  step.record = std::move(next);
  return step;
}

ArrivalStep leave(const Status &why, std::optional<Attempt> record) {
  ArrivalStep step;
  step.what = ArrivalStep::What::Leave;
  step.record = std::move(record);
  step.why = why;
  return step;
}

ArrivalStep arriveAtOpen(const Attempt &found, const Arrival &arrival,
                         bool cameBefore) {
  if (cameBefore)
    return open(found, arrival,
                "it has begun another " + arrival.kind +
                    " before this one ended, or has been restarted");
  if (found.kind != arrival.kind) {
    // A meeting is where ranks find each other after an error: it goes on.
    if (found.kind == "meeting")
      return leave(makeError(ErrorCode::Mismatch, "rank ", found.opener,
                             " waits in a meeting, this rank wants a ",
                             arrival.kind,
                             ": after an error all ranks meet first"),
                   std::nullopt);
    return open(found, arrival,
                "it waits in a " + arrival.kind + ", to find the other ranks");
  }
  if (auto difference = differs(found, arrival)) {
    Stop stop{arrival.rank, ErrorCode::Mismatch, *difference, {}};
    return leave(stop.toldTo(arrival.rank), found.aborted(stop, {}));
  }
  return {};
}

/// A rank that comes too late for an attempt learns how that ended, once.
ArrivalStep arriveAtAborted(const Attempt &found, const Arrival &arrival) {
  Attempt next = found;
  auto missed =
      std::find(next.missing.begin(), next.missing.end(), arrival.rank);
  if (missed == next.missing.end() || found.kind != arrival.kind ||
      found.tag != arrival.tag)
    return open(found, arrival);
  next.missing.erase(missed);
  return leave(found.stop.toldTo(arrival.rank), std::move(next));
}

} // namespace

/// That ranks differ, or that one is missing, is nobody's own doing.
Status Stop::toldTo(uint32_t reader) const {
  bool isOwn = rank == reader || code == ErrorCode::Mismatch ||
               code == ErrorCode::Timeout;
  return makeError(
      code, gone,
      isOwn ? "" : "rank " + std::to_string(rank) + " stopped: ", why);
}

std::string Attempt::text() const {
  Json json = {{"form", kForm},
               {"id", id},
               {"kind", kind},
               {"opener", opener},
               {"tag", tag},
               {"terms", Json::array()},
               {"state", kStates[size_t(state)]}};
  for (const Term &term : terms)
    json["terms"].push_back({term.name, term.value});
  if (callsRoll)
    json["calls_roll"] = true;
  if (!note.empty())
    json["note"] = note;
  if (state == State::Aborted)
    json["stop"] = asJson(stop);
  if (!missing.empty())
    json["missing"] = missing;
  if (before) {
    json["before_id"] = beforeId;
    json["before"] = asJson(*before);
  }
  // Names of tensors and reasons of libraries may be no UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Attempt> Attempt::parse(const std::string &text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    int form = json.at("form");
    if (form == kForm)
      return attemptOf(json);
    return makeError(ErrorCode::Mismatch,
                     "the store's record of the attempt under way has form ",
                     form, ", expected ", kForm,
                     ": the ranks run different versions");
  } catch (const Json::exception &error) {
    return makeError("the store's record of the attempt under way is damaged: ",
                     error.what());
  }
}

Attempt Attempt::aborted(const Stop &stop,
                         std::vector<uint32_t> missing) const {
  Attempt next = *this;
  next.state = State::Aborted;
  next.callsRoll = false;
  next.stop = stop;
  next.missing = std::move(missing);
  return next;
}

Attempt Attempt::committed(const std::string &note) const {
  Attempt next = *this;
  next.state = State::Committed;
  next.callsRoll = false;
  next.note = note;
  return next;
}

ArrivalStep arrive(const std::optional<Attempt> &found, const Arrival &arrival,
                   bool cameBefore) {
  if (!found || found->state == Attempt::State::Committed)
    return open(found, arrival);
  if (found->state == Attempt::State::Aborted)
    return arriveAtAborted(*found, arrival);
  return arriveAtOpen(*found, arrival, cameBefore);
}

} // namespace dtrt
