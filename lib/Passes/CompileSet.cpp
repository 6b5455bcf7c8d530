//===- CompileSet.cpp - A folder of plans from one request ----------------===//
//
// Threads take one transition after the other, in the request's order. Each has
// an MLIR context of its own, which goes when its plan is written, and what it
// has to say is kept until all are done: so neither the plans nor the words
// depend on how many threads there are. After a mistake no more are begun;
// those before it in the request have been, so that the first one is known.
//
//===----------------------------------------------------------------------===//

#include "dt/Passes/CompileSet.h"

#include "CompileRequest.h"
#include "dtrt/format/OutputFolder.h"
#include "dtrt/format/PlanSet.h"

#include <algorithm>
#include <atomic>
#include <thread>

using namespace mlir;

namespace dt {

namespace {

/// What became of one transition.
struct Outcome {
  std::vector<std::string> lines;
  bool failed = false;
  dtrt::SetPlan plan;
};

void addRequestWords(const LayoutDecl &layout, const std::string &name,
                     dtrt::SetLayout &out) {
  out.name = name;
  if (!layout.sizes)
    return;
  out.sizes = layout.sizes->sizes;
  out.order = layout.sizes->order;
  out.ppLayers = layout.sizes->ppLayers;
}

class SetCompiler {
public:
  SetCompiler(const RequestSet &set, const SetOptions &options,
              const SetOutput &output, const std::string &folder)
      : set(set), options(options), output(output), folder(folder),
        threads(options.isChained
                    ? 1
                    : std::min<size_t>(options.threads, set.size())),
        outcomes(set.size()) {}

  LogicalResult run();

private:
  void takeTransitions();
  bool compile(size_t index, Outcome &out);
  bool writePlan(const Request &request, const std::string &subject,
                 const std::string &path, Outcome &out);
  std::shared_ptr<Replan> planBefore() const;

  const RequestSet &set;
  const SetOptions &options;
  const SetOutput &output;
  const std::string &folder;
  const unsigned threads;
  /// Of a chained set: the plan made last, and what was found right of its
  /// like.
  std::string before;
  std::shared_ptr<dtrt::VerifiedPrograms> known =
      std::make_shared<dtrt::VerifiedPrograms>();
  std::vector<Outcome> outcomes;
  std::atomic<size_t> next = 0, done = 0;
  std::atomic<bool> anyFailed = false;
};

/// In one thread: where there is more than one plan at work, that is where the
/// cores are.
bool SetCompiler::writePlan(const Request &request, const std::string &subject,
                            const std::string &path, Outcome &out) {
  RequestCall call;
  call.file = options.file;
  call.subject = subject;
  call.output = path;
  call.from = planBefore();
  if (threads > 1)
    call.threading = MLIRContext::Threading::DISABLED;
  before = path;
  return succeeded(compileRequest(request, call, out.lines));
}

/// Null where there is none.
std::shared_ptr<Replan> SetCompiler::planBefore() const {
  if (!options.isChained || before.empty())
    return nullptr;
  auto plan = dtrt::PlanReader::open(before);
  if (!plan.ok())
    return nullptr;
  auto from = std::make_shared<Replan>(
      std::make_shared<dtrt::PlanReader>(std::move(*plan)));
  from->known = known;
  from->replacesKnown = true;
  from->copiesOnly = true;
  return from;
}

bool SetCompiler::compile(size_t index, Outcome &out) {
  const std::string &name = set.name(index);
  std::string subject = "plan '" + name + "'";
  std::string error;
  auto request = set.request(index, error);
  if (!request) {
    out.lines.push_back("error: " + subject + ": " + error);
    return false;
  }
  std::string file = name + ".dtplan";
  if (!writePlan(*request, subject, folder + "/" + file, out))
    return false;
  auto plan = dtrt::describeSetPlan(folder, file);
  if (!plan.ok()) {
    out.lines.push_back("error: " + subject + ": " + plan.status().message());
    return false;
  }
  out.plan = std::move(*plan);
  out.plan.name = name;
  out.plan.lost = set.lost(index);
  addRequestWords(request->source, set.sourceName(index), out.plan.source);
  addRequestWords(request->destination, set.destinationName(index),
                  out.plan.destination);
  return true;
}

void SetCompiler::takeTransitions() {
  while (!anyFailed) {
    size_t index = next++;
    if (index >= outcomes.size())
      return;
    Outcome &out = outcomes[index];
    out.failed = !compile(index, out);
    if (out.failed)
      anyFailed = true;
    output.progress(++done, outcomes.size());
  }
}

LogicalResult SetCompiler::run() {
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i)
    others.emplace_back([this] { takeTransitions(); });
  takeTransitions();
  for (std::thread &thread : others)
    thread.join();
  std::vector<dtrt::SetPlan> plans;
  for (const Outcome &out : outcomes) {
    for (const std::string &line : out.lines)
      output.say(line);
    if (out.failed)
      return failure();
    plans.push_back(out.plan);
  }
  dtrt::Status written = dtrt::writeSetIndex(folder, plans);
  if (written.ok())
    return success();
  output.say("error: " + written.message());
  return failure();
}

} // namespace

LogicalResult compileSet(const RequestSet &set, const SetOptions &options,
                         const SetOutput &output) {
  auto folder = dtrt::OutputFolder::create(options.folder, dtrt::filesOfSet);
  dtrt::Status status = folder.status();
  if (folder.ok()) {
    if (failed(SetCompiler(set, options, output, folder->path()).run()))
      return failure();
    status = folder->publish();
  }
  if (status.ok())
    return success();
  output.say("error: " + status.message());
  return failure();
}

} // namespace dt
