//===- Replanner.cpp - A plan that is held to be replanned from -----------===//

#include "dt/Passes/Replanner.h"

#include "CompileRequest.h"
#include "OldPrograms.h"
#include "Threads.h"
#include "dt/Json/Json.h"
#include "dt/Passes/Files.h"
#include "dt/Proof/ProvedLemmas.h"
#include "dt/Request/RequestSet.h"
#include "dtrt/verify/Verifier.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"

#include <chrono>
#include <optional>

using namespace mlir;

namespace dt {

namespace {

/// What a line asks for.
struct Order {
  RequestSet request;
  std::string file; // of the request, for locations
  std::string output;
  bool isExpected = false; // no plan, but of requests like this one later
};

} // namespace

struct Replanner::State {
  std::shared_ptr<const dtrt::PlanReader> plan;
  std::shared_ptr<dtrt::VerifiedPrograms> known =
      std::make_shared<dtrt::VerifiedPrograms>();
  std::shared_ptr<const HeldPrograms> held;
  std::optional<ExpectedRequest> expected;
  std::shared_ptr<const ReadPrograms> ahead; // as expected requests have them
  MLIRContext::Threading threading = MLIRContext::Threading::ENABLED;

  /// From now on requests like this one are expected.
  void expect(const RequestSet &request);
  /// Null where there is no plan; then `lines` say why.
  std::shared_ptr<Replan> replan(const Order &order,
                                 std::vector<std::string> &lines) const;
};

void Replanner::State::expect(const RequestSet &request) {
  ahead = nullptr;
  expected = ExpectedRequest::of(request, threading);
  if (!expected || held->empty()) // too much to be held
    return;
  MLIRContext context(threading);
  OwningOpRef<ModuleOp> module = expected->moduleOf(request, &context);
  if (!module)
    return;
  Replan from(plan);
  from.held = held;
  (void)TransitionAnalysis(*module).forEach([&](const TransitionInfo &info) {
    ahead = readAhead(info, from);
    return success();
  });
}

std::shared_ptr<Replan>
Replanner::State::replan(const Order &order,
                         std::vector<std::string> &lines) const {
  RequestCall call;
  call.file = order.file;
  call.output = order.output;
  call.threading = threading;
  auto start = [&] {
    call.from = std::make_shared<Replan>(plan);
    call.from->known = known;
    call.from->held = held;
    call.from->ahead = ahead;
  };
  start();
  if (expected && succeeded(compileExpected(order.request, *expected, call)))
    return call.from;
  start(); // as if it were not expected
  std::string error;
  auto request = order.request.request(0, error);
  if (!request)
    lines.push_back("error: " + error);
  if (!request || failed(compileRequest(*request, call, lines)))
    return nullptr;
  return call.from;
}

namespace {

/// Reads all programs of a plan, where they are no more than fits in memory
/// beside what is done with them: as many as there are bytes for.
dtrt::Result<HeldPrograms> hold(const dtrt::PlanReader &plan,
                                MLIRContext::Threading threading) {
  constexpr uint64_t kMostStored = uint64_t(1) << 30; // bytes, decompressed
  HeldPrograms out;
  auto stored = plan.storedPrograms();
  DTRT_RETURN_IF_ERROR(stored);
  if (stored->bytes > kMostStored)
    return out;
  const std::vector<uint32_t> &devices = plan.devices();
  std::vector<std::optional<dtrt::Result<dtrt::RankProgram>>> read(
      devices.size());
  MLIRContext context(threading);
  forEachOnThreads(&context, devices.size(), [&](size_t i) {
    read[i].emplace(plan.program(devices[i]));
  });
  for (size_t i = 0; i < devices.size(); ++i) {
    DTRT_RETURN_IF_ERROR(*read[i]);
    out[devices[i]] = std::make_shared<dtrt::RankProgram>(std::move(**read[i]));
  }
  return out;
}

/// A line of JSON, without its end, whose members `members` writes.
template <typename Members> std::string lineOfJson(const Members &members) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream);
  json.object([&] { members(json); });
  return text;
}

void writeWarnings(llvm::json::OStream &json,
                   llvm::ArrayRef<std::string> warnings) {
  json.attributeArray("warnings", [&] {
    for (llvm::StringRef warning : warnings) {
      warning.consume_front("warning: ");
      json.value(llvm::json::fixUTF8(warning));
    }
  });
}

/// The request that a file holds, or the value itself.
std::optional<RequestSet> readRequest(json::Json request,
                                      const RequestSet *like, std::string &file,
                                      std::string &error) {
  if (!request.isString()) {
    file = "<request>";
    return RequestSet::read(std::move(request), ".", error, like);
  }
  file = request.string;
  auto text = readInput(file, error);
  if (!text)
    return std::nullopt;
  std::string folder = llvm::sys::path::parent_path(file).str();
  return RequestSet::read(text->getBuffer().str(),
                          folder.empty() ? "." : folder, error, like);
}

/// Nothing, with `error` set, where the line asks for none.
std::optional<Order> readOrder(llvm::StringRef line, const RequestSet *like,
                               std::string &error) {
  json::Json order, request;
  std::string output;
  bool isExpected = false;
  try {
    order = json::parseJson(line.str(), "line");
    isExpected = order.find("expect");
    if (isExpected) {
      json::checkKeys(order, "line", {"expect"});
      request = json::require(order, "line", "expect");
    } else {
      json::checkKeys(order, "line", {"request", "output"});
      request = json::require(order, "line", "request");
      output = json::asString(json::require(order, "line", "output"), "output");
    }
  } catch (const json::JsonError &mistake) {
    error = mistake.message;
    return std::nullopt;
  }
  bool isStdin = request.isString() && request.string == "-";
  if (isStdin || output == "-") {
    error = "requests come from files, and plans go to files: found '-'";
    return std::nullopt;
  }
  std::string file;
  auto set = readRequest(std::move(request), like, file, error);
  if (!set)
    return std::nullopt;
  if (set->isFamily()) {
    error = "the request is for a set of plans, expected one plan";
    return std::nullopt;
  }
  return Order{std::move(*set), file, output, isExpected};
}

} // namespace

Replanner::Replanner(std::unique_ptr<State> state) : state(std::move(state)) {}
Replanner::Replanner(Replanner &&) noexcept = default;
Replanner::~Replanner() = default;

dtrt::Result<Replanner> Replanner::open(const std::string &path,
                                        MLIRContext::Threading threading) {
  auto plan = dtrt::PlanReader::open(path);
  DTRT_RETURN_IF_ERROR(plan);
  auto state = std::make_unique<State>();
  state->threading = threading;
  state->plan = std::make_shared<dtrt::PlanReader>(std::move(*plan));
  DTRT_RETURN_IF_ERROR(
      dtrt::verifyPlan(*state->plan, /*facts=*/nullptr, state->known.get()));
  state->known->prepare();
  auto held = hold(*state->plan, threading);
  DTRT_RETURN_IF_ERROR(held);
  state->held = std::make_shared<HeldPrograms>(std::move(*held));
  provedLemmas();
  return Replanner(std::move(state));
}

std::string Replanner::greeting() const {
  return lineOfJson([&](llvm::json::OStream &json) {
    json.attribute("ready", true);
    json.attribute("digest", dtrt::digestText(state->plan->digest()));
    json.attribute("programs", uint64_t(state->plan->devices().size()));
  });
}

Replanner::Answer Replanner::refuse(const std::string &error) {
  llvm::StringRef text = error;
  text.consume_front("error: ");
  return {lineOfJson([&](llvm::json::OStream &json) {
            json.attribute("error", llvm::json::fixUTF8(text));
          }),
          /*isError=*/true};
}

Replanner::Answer Replanner::answer(llvm::StringRef line) {
  auto start = std::chrono::steady_clock::now();
  std::string error;
  const RequestSet *like =
      state->expected ? &state->expected->request() : nullptr;
  auto order = readOrder(line, like, error);
  if (!order)
    return refuse(error);
  if (order->isExpected) {
    state->expect(order->request);
    return {lineOfJson([&](llvm::json::OStream &json) {
              json.attribute("expected", state->expected.has_value());
            }),
            /*isError=*/false};
  }
  std::vector<std::string> lines;
  auto from = state->replan(*order, lines);
  auto isError = [](llvm::StringRef said) {
    return said.starts_with("error:");
  };
  auto firstError = llvm::find_if(lines, isError);
  if (!from)
    return refuse(firstError != lines.end() ? *firstError
                                            : "the plan cannot be made");
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return {lineOfJson([&](llvm::json::OStream &json) {
            json.attribute("plan", llvm::json::fixUTF8(order->output));
            json.attribute("seconds", took.count());
            from->writeReport(json);
            writeWarnings(json, lines);
          }),
          /*isError=*/false};
}

} // namespace dt
