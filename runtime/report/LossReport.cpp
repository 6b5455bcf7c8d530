//===- LossReport.cpp - What a failure would lose, in words ---------------===//

#include "LossReport.h"

#include "ReportText.h"

#include <algorithm>

namespace dtrt {

namespace {

using Json = nlohmann::ordered_json;

/// Rows at most; what a screen has beside the plan's other numbers.
constexpr size_t kMostRows = 12;

/// Neighbouring moments, with the most that a failure would lose in them.
struct LossSpan {
  Moment first = kAtStart, last = kAtStart;
  Loss most;
  uint64_t allBytes = 0;
  bool isEven = true; // the same at all of them

  void add(const LossSpan &next) {
    last = next.last;
    isEven = isEven && next.isEven && next.most.bytes == most.bytes &&
             next.most.device == most.device && next.allBytes == allBytes;
    if (next.most.bytes > most.bytes)
      most = next.most;
    allBytes = std::max(allBytes, next.allBytes);
  }
};

/// Neighbours with the same numbers are one.
std::vector<LossSpan> spansOf(const PlanLosses &losses) {
  std::vector<LossSpan> spans;
  for (const Loss &loss : losses.moments) {
    LossSpan own = {loss.moment, loss.moment, loss, loss.allBytes, true};
    LossSpan both = spans.empty() ? own : spans.back();
    both.add(own);
    // The start is told by itself: it is what a failure loses without a switch.
    if (spans.size() > 1 && both.isEven)
      spans.back() = both;
    else
      spans.push_back(own);
  }
  return spans;
}

/// Fewer spans, of about as many waves each; the first two stay, and the last.
std::vector<LossSpan> mergedSpans(const std::vector<LossSpan> &spans) {
  if (spans.size() <= kMostRows)
    return spans;
  constexpr size_t before = 2, merged = kMostRows - before - 1;
  std::vector<LossSpan> out(spans.begin(), spans.begin() + before);
  size_t rest = spans.size() - before - 1;
  for (size_t row = 0; row < merged; ++row) {
    size_t begin = before + rest * row / merged;
    size_t end = before + rest * (row + 1) / merged;
    out.push_back(spans[begin]);
    for (size_t i = begin + 1; i < end; ++i)
      out.back().add(spans[i]);
  }
  out.push_back(spans.back());
  return out;
}

std::string momentText(Moment first, Moment last) {
  if (first == kAtStart)
    return "at the start";
  if (last == kBeforeWaves)
    return "before the waves";
  if (first == kBeforeWaves)
    return "up to wave " + std::to_string(last);
  if (first == last)
    return "after wave " + std::to_string(first);
  return "waves " + std::to_string(first) + "-" + std::to_string(last);
}

std::string spanText(const LossSpan &span) {
  if (span.most.bytes == 0)
    return bytesText(0);
  std::string device = "device " + std::to_string(span.most.device);
  if (span.isEven)
    return bytesText(span.most.bytes) + " with " + device + ", of " +
           bytesText(span.allBytes);
  return "up to " + bytesText(span.most.bytes) + " with " + device + " " +
         momentText(span.most.moment, span.most.moment) + ", of up to " +
         bytesText(span.allBytes);
}

} // namespace

Json lossesJson(const Result<PlanLosses> &losses) {
  if (!losses.ok())
    return {{"unknown", losses.status().message()}};
  Json out;
  out["first_release"] = nullptr;
  if (losses->firstRelease)
    out["first_release"] = {{"after_wave", *losses->firstRelease},
                            {"device", losses->releasingDevice}};
  out["waves"] = Json::array();
  for (const LossSpan &span : spansOf(*losses))
    out["waves"].push_back({{"first", span.first},
                            {"last", span.last},
                            {"device", span.most.device},
                            {"bytes", span.most.bytes},
                            {"all_bytes", span.allBytes}});
  return out;
}

std::string noReturnText(MemoryMode mode, const Result<PlanLosses> *losses) {
  if (mode == MemoryMode::Rollback)
    return "the commit: until then every source is whole";
  std::string text = "when all processes have begun the transfer";
  if (!losses || !losses->ok())
    return text;
  const PlanLosses &found = **losses;
  if (!found.firstRelease)
    return text + ", though no source is released";
  return text + "; the first release is " +
         (*found.firstRelease == kBeforeWaves
              ? "before the waves"
              : "after wave " + std::to_string(*found.firstRelease)) +
         ", on device " + std::to_string(found.releasingDevice);
}

std::vector<std::pair<std::string, std::string>>
lossRows(const Result<PlanLosses> &losses) {
  if (!losses.ok())
    return {{"lost by a failure", "unknown: " + losses.status().message()}};
  std::vector<LossSpan> spans = mergedSpans(spansOf(*losses));
  auto losesSome = [](const LossSpan &span) { return span.most.bytes > 0; };
  if (std::none_of(spans.begin(), spans.end(), losesSome))
    return {{"lost by a failure",
             "nothing at any time: all is on two devices at least"}};
  std::vector<std::pair<std::string, std::string>> rows = {
      {"lost by a failure",
       "of one device, the worst; of all bytes that only one device has"}};
  for (const LossSpan &span : spans)
    rows.emplace_back("  " + momentText(span.first, span.last), spanText(span));
  return rows;
}

} // namespace dtrt
