//===- Rendezvous.cpp - All ranks agree, or all learn why not -------------===//

#include "dtrt/Rendezvous.h"

#include <algorithm>
#include <thread>

namespace dtrt {

namespace {

/// Polling starts quickly, for ranks that come together, and slows down, more
/// so in a large world, so that waiting ranks leave the store to the others.
constexpr Seconds kFirstPause(0.0002);
constexpr Seconds kLongestPause(0.02);
constexpr Seconds kLongestPausePerRank(0.00005);

constexpr const char *kAccepted = "ok\n";
constexpr const char *kRefused = "error\n";

class Pause {
public:
  explicit Pause(uint32_t world)
      : longest(std::max(kLongestPause, kLongestPausePerRank * double(world))) {
  }
  void operator()() {
    std::this_thread::sleep_for(next);
    next = std::min(next * 2, longest);
  }

private:
  Seconds next = kFirstPause;
  Seconds longest;
};

bool startsWith(const std::string &text, const std::string &start) {
  return text.compare(0, start.size(), start) == 0;
}

} // namespace

std::string rankNames(const std::vector<uint32_t> &ranks) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1)
      ++last;
    parts.push_back(std::to_string(ranks[i]));
    if (last > i)
      parts.back() +=
          (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < parts.size(); ++i)
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

Rendezvous::Rendezvous(std::shared_ptr<Store> store, std::string prefix,
                       uint32_t rank, uint32_t size, Seconds timeout)
    : store(std::move(store)), prefix(std::move(prefix)), self(rank),
      world(size), limit(timeout) {}

std::string Rendezvous::recordKey(const std::string &phase,
                                  uint32_t rank) const {
  return prefix + "/" + phase + "/" + std::to_string(rank);
}

Result<std::optional<std::string>> Rendezvous::read(const std::string &key) {
  auto value = store->get(key);
  if (!value.ok())
    return makeError("lost the store (the process that hosts it, often rank 0, "
                     "may have ended): ",
                     value.status().message());
  return value;
}

Status Rendezvous::submit(const std::string &phase, const std::string &record) {
  Status status = store->set(recordKey(phase, self), record);
  if (!status.ok())
    return makeError("lost the store (the process that hosts it, often rank 0, "
                     "may have ended): ",
                     status.message());
  return {};
}

void Rendezvous::stop(const Status &why) {
  auto earlier = store->get(prefix + "/stop");
  if (earlier.ok() && !*earlier)
    (void)store->set(prefix + "/stop",
                     std::to_string(self) + "\n" + why.message());
}

Status Rendezvous::checkStopped() {
  auto stopped = read(prefix + "/stop");
  DTRT_RETURN_IF_ERROR(stopped);
  if (!*stopped)
    return {};
  const std::string &text = **stopped;
  size_t line = text.find('\n');
  std::string rank = text.substr(0, line);
  return makeError(rank == std::to_string(self) ? ""
                                                : "rank " + rank + " stopped: ",
                   text.substr(line + 1));
}

Status Rendezvous::causeOf(const Status &failure) {
  auto stopped = store->get(prefix + "/stop");
  return stopped.ok() && *stopped ? checkStopped() : failure;
}

/// The value of a key that another rank will set.
Result<std::string> Rendezvous::await(const std::string &key,
                                      Clock::time_point deadline) {
  Pause pause(world);
  while (true) {
    auto value = read(key);
    DTRT_RETURN_IF_ERROR(value);
    if (*value)
      return std::move(**value);
    if (Status stopped = checkStopped(); !stopped.ok()) {
      // A rank that stops after its verdict has given that first.
      auto late = read(key);
      if (late.ok() && *late)
        return std::move(**late);
      return stopped;
    }
    if (Clock::now() > deadline)
      return makeError("timed out");
    pause();
  }
}

Result<std::vector<uint32_t>> Rendezvous::absent(const std::string &phase) {
  std::vector<uint32_t> absent;
  for (uint32_t rank = 0; rank < world; ++rank) {
    auto record = read(recordKey(phase, rank));
    DTRT_RETURN_IF_ERROR(record);
    if (!*record)
      absent.push_back(rank);
  }
  return absent;
}

/// Names the ranks that have not handed in their record.
Status Rendezvous::missing(const std::string &phase) {
  auto ranks = absent(phase);
  DTRT_RETURN_IF_ERROR(ranks);
  if (ranks->empty())
    return makeError("rank 0 did not answer within ", limit.count(), " s");
  return makeError(rankNames(*ranks), " did not come within ", limit.count(),
                   " s");
}

Result<std::vector<uint32_t>> Rendezvous::rollCall(const std::string &phase,
                                                   Seconds limit) {
  Clock::time_point deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
  DTRT_RETURN_IF_ERROR(submit(phase, ""));
  while (true) {
    auto ranks = absent(phase);
    if (!ranks.ok() || ranks->empty() || Clock::now() > deadline)
      return ranks;
    std::this_thread::sleep_for(kLongestPause);
  }
}

Result<std::vector<std::string>>
Rendezvous::collect(const std::string &phase, Clock::time_point deadline) {
  std::vector<std::string> records;
  for (uint32_t rank = 0; rank < world; ++rank) {
    auto record = await(recordKey(phase, rank), deadline);
    if (!record.ok() && Clock::now() > deadline)
      return missing(phase);
    DTRT_RETURN_IF_ERROR(record);
    records.push_back(std::move(*record));
  }
  return records;
}

/// Rank 0's part: whatever it finds, every rank hears of it.
Result<std::string> Rendezvous::decide(const std::string &phase,
                                       const Judge &judge,
                                       Clock::time_point deadline) {
  auto records = collect(phase, deadline);
  Result<std::string> verdict =
      records.ok() ? judge(*records) : Result<std::string>(records.status());
  Status told =
      store->set(prefix + "/" + phase + "/verdict",
                 verdict.ok() ? kAccepted + *verdict
                              : kRefused + verdict.status().message());
  if (verdict.ok())
    DTRT_RETURN_IF_ERROR(told);
  return verdict;
}

Result<std::string> Rendezvous::awaitVerdict(const std::string &phase,
                                             Clock::time_point deadline) {
  auto verdict = await(prefix + "/" + phase + "/verdict", deadline);
  if (!verdict.ok() && Clock::now() > deadline)
    return missing(phase);
  DTRT_RETURN_IF_ERROR(verdict);
  if (startsWith(*verdict, kAccepted))
    return verdict->substr(std::string(kAccepted).size());
  return makeError(verdict->substr(std::string(kRefused).size()));
}

Result<std::string> Rendezvous::agree(const std::string &phase,
                                      const std::string &record,
                                      const Judge &judge) {
  Clock::time_point deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
  DTRT_RETURN_IF_ERROR(submit(phase, record));
  return self == 0 ? decide(phase, judge, deadline)
                   : awaitVerdict(phase, deadline);
}

} // namespace dtrt
