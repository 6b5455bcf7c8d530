//===- LibraryChoice.cpp - A library's calls, or messages -----------------===//

#include "LibraryChoice.h"

#include "LibraryCalls.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace dt {

using dtrt::CollectiveChoice;

static LibraryChoice noCalls(const Twine &reason) {
  LibraryChoice out;
  out.reason = reason.str();
  return out;
}

bool mayUseLibrary(const TransitionInfo &info) {
  const Cluster &cluster = info.cluster;
  bool mayGain = cluster.launchUs > 0 || cluster.hasFastCalls();
  return !info.isFlat() &&
         (cluster.collectives == CollectiveChoice::Library ||
          (cluster.collectives == CollectiveChoice::Auto && mayGain));
}

bool looksForCalls(const TransitionInfo &info) {
  return mayUseLibrary(info) &&
         (info.cluster.collectives == CollectiveChoice::Library ||
          info.cluster.hasFastCalls());
}

CollectiveSeconds
LibraryChooser::compare(CollectiveOp op, uint32_t number,
                        const std::vector<LibraryCall> &calls) {
  if (!timer)
    timer.emplace(info);
  return {timer->secondsOf(calls), timer->secondsOf(op, number)};
}

LibraryChoice LibraryChooser::choose(CollectiveOp op, uint32_t number,
                                     const Flow &flow) {
  constexpr double kMargin = 0.02; // of the time, that calls have to save
  if (info.isFlat())
    return noCalls("flat memory has messages alone");
  if (info.cluster.collectives == CollectiveChoice::Messages)
    return noCalls("the cluster asks for messages");
  LibraryCalls found = callsOf(op, number, flow, info.cluster);
  if (found.calls.empty())
    return noCalls(found.whyNone);
  bool isAsked = info.cluster.collectives == CollectiveChoice::Library;
  LibraryChoice out;
  if (comparesAll || !isAsked)
    out.seconds = compare(op, number, found.calls);
  if (!isAsked && out.seconds->calls >= (1 - kMargin) * out.seconds->messages) {
    out.reason = "a library is not 2 % faster";
    return out;
  }
  out.calls = std::move(found.calls);
  out.reason =
      isAsked ? "the cluster asks for a library" : "it is at least 2 % faster";
  return out;
}

std::string explanation(CollectiveOp op, const LibraryChoice &choice) {
  std::string text = llvm::formatv(
      "{0} of @{1}: {2}, {3}", keywordOf(op.getKind()),
      op.getParamAttr().getValue(),
      choice.calls.empty() ? "messages" : "a library's call", choice.reason);
  if (choice.seconds)
    text += llvm::formatv(" (call {0:F3} ms, messages {1:F3} ms)",
                          choice.seconds->calls * 1e3,
                          choice.seconds->messages * 1e3);
  return text;
}

} // namespace dt
