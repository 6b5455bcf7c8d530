//===- SplicePlan.cpp - A plan from the sections of an old one ------------===//
//
//   1. who has another device's place now                   ChangedPlaces.h
//   2. who sends to these, and in which wave                SpliceRoute.h
//      where that takes too long, more of the old plan      SpliceSeconds.h
//      changes: the choice of senders, the waves of what
//      they send, and if that is not enough, all ends here
//   3. programs of all whose messages change                SplicePrograms.h
//   4. all other sections as they are stored
//
// Nothing of the old plan is believed. The file is read again, every program of
// it, by the verifier, and its shards have to be those of the transition.
//
//===----------------------------------------------------------------------===//

#include "SplicePlan.h"

#include "CommonSection.h"
#include "LayoutShards.h"
#include "SplicePrograms.h"
#include "SpliceSeconds.h"
#include "Threads.h"
#include "dt/Proof/ProvedLemmas.h"
#include "dt/Proof/Solver.h"
#include "dtrt/format/PlanWriter.h"
#include "dtrt/verify/Verifier.h"

#include "mlir/Pass/Pass.h"
#include "llvm/Support/Debug.h"

#define DEBUG_TYPE "dt-splice-plan"

using namespace mlir;

namespace dt {

namespace {

/// A plan may take this much longer than one from zero, so that more of an old
/// one stays.
constexpr double kWorthKeeping = 1.05;
/// Around an old plan of more messages routes and waves take longer to find
/// than from zero. With fewer, either takes a moment, and what can be kept is.
constexpr uint64_t kFewMessages = 4096;

/// A plan without its programs.
struct SpliceDraft {
  SpliceEffort effort;
  SplicedRoute route;
  std::set<int64_t> devices; // whose programs are made
  double busiestPort = 0;    // seconds that it carries bytes
  SplicedWaves waves;
  double atLeast = 0; // seconds, by some of the messages

  bool isBetterThan(const SpliceDraft &other) const {
    return std::make_pair(waves.hasGaps, atLeast) <
           std::make_pair(other.waves.hasGaps, other.atLeast);
  }
};

class Splicer {
public:
  Splicer(const TransitionInfo &info, Replan &from)
      : info(info), from(from), programs(info, from) {}

  std::optional<std::string> run(const std::string &output);

private:
  std::optional<std::string> sketch(const SpliceEffort &effort);
  std::optional<std::string> choose();
  bool isTooSlow() const;
  void freeSenders();
  void findDevices(SpliceDraft &out);
  std::optional<std::string> write(const std::string &output);
  dtrt::Status writePrograms(dtrt::PlanWriter &writer);
  dtrt::Status measure(dtrt::PlanWriter &writer);
  double mostTimesBound() const;
  double boundOf(const SpliceDraft &some) const;
  bool sendsNoMore() const;
  std::string tooSlow(bool portsAreBusy);
  bool isLarge() const {
    return from.plan->common().summary.messages > kFewMessages;
  }
  void stateProof();
  void report();

  const TransitionInfo &info;
  Replan &from;
  OldPrograms programs;
  ChangedPlaces places;
  std::optional<SpliceDraft> draft; // the best so far
  std::map<int64_t, dtrt::RankProgram> made;
  dtrt::PlanCommon common; // of the new plan
  size_t numDevices = 0;   // of it
};

/// All that lose or get a place, and all that send to them or get from them, in
/// the old plan or in the new one.
void Splicer::findDevices(SpliceDraft &out) {
  for (auto [before, now] : places.heirs) {
    out.devices.insert(before);
    out.devices.insert(now);
  }
  for (const Move &move : out.route.moves) {
    out.devices.insert(move.source);
    out.devices.insert(move.destination);
  }
  for (auto [before, now] : places.heirs)
    if (const OldProgram *program = programs.of(before)) {
      for (const OldMessage &message : program->received)
        out.devices.insert(message.from);
      for (const OldMessage &message : program->sent)
        for (const OldPiece &piece : message.pieces)
          if (isChanged(places, message, piece))
            out.devices.insert(message.to);
    }
}

dtrt::Status Splicer::writePrograms(dtrt::PlanWriter &writer) {
  std::set<uint32_t> all(common.sourceDevices.begin(),
                         common.sourceDevices.end());
  all.insert(common.destinationDevices.begin(),
             common.destinationDevices.end());
  numDevices = all.size();
  std::vector<const dtrt::RankProgram *> news;
  for (const auto &[device, program] : made)
    news.push_back(&program);
  std::vector<std::optional<dtrt::Result<dtrt::EncodedProgram>>> encoded(
      news.size());
  forEachOnThreads(info.op().getContext(), news.size(), [&](size_t i) {
    encoded[i].emplace(dtrt::encodeSection(*news[i]));
  });
  size_t next = 0; // of `encoded`
  for (uint32_t device : all) {
    if (made.count(device)) {
      auto &section = *encoded[next++];
      DTRT_RETURN_IF_ERROR(section);
      DTRT_RETURN_IF_ERROR(writer.addProgram(*section));
      continue;
    }
    auto stored = from.plan->storedProgram(device);
    DTRT_RETURN_IF_ERROR(stored);
    DTRT_RETURN_IF_ERROR(writer.addProgram(dtrt::storedSection(
        device, std::move(*stored), from.plan->common().features)));
  }
  return {};
}

/// Has the verifier read all that was written, and takes its numbers. Copies
/// keep the waves that they have: where one is left that nothing is sent in,
/// there is no plan.
dtrt::Status Splicer::measure(dtrt::PlanWriter &writer) {
  LayoutShards shards(info);
  dtrt::FeatureSet features = 0;
  dtrt::MeasureOptions options;
  options.features = &features;
  options.known = from.known.get();
  options.replacesKnown = from.replacesKnown;
  int32_t lastWave = -1;
  options.lastWave = &lastWave;
  options.visit = [&](const dtrt::RankProgram &program) -> dtrt::Status {
    if (shards.areThoseOf(program))
      return {};
    return dtrt::makeError("device ", program.device,
                           " has other shards than the layouts say");
  };
  return writer.preview(
      common,
      [&](const dtrt::PlanReader &plan) -> dtrt::Result<dtrt::FeatureSet> {
        auto summary = dtrt::measurePlan(plan, options);
        DTRT_RETURN_IF_ERROR(summary);
        if (summary->waves != uint64_t(lastWave + 1))
          return dtrt::makeError("nothing is sent in a wave of the old plan");
        common.summary = *summary;
        return features;
      });
}

/// Near the bound no plan is much faster. Elsewhere one from zero may be: what
/// is as near its bound as the old plan stays, so that plans do not become
/// slower and slower.
double Splicer::mostTimesBound() const {
  const dtrt::PlanSummary &before = from.plan->common().summary;
  if (before.timeLowerBound <= 0)
    return kWorthKeeping;
  return std::max(kWorthKeeping, before.timePredicted / before.timeLowerBound);
}

/// Asked as soon as there are waves. The new bound is not known then: mostly it
/// is the old plan's, or that of what changes.
double Splicer::boundOf(const SpliceDraft &some) const {
  return std::max(from.plan->common().summary.timeLowerBound,
                  some.route.lowerBound);
}

/// Drafts a plan, unless a port has too much to carry and others can be asked.
std::optional<std::string> Splicer::sketch(const SpliceEffort &effort) {
  SpliceDraft next;
  next.effort = effort;
  if (auto why = spliceRoute(info, places, programs, effort, next.route))
    return why;
  findDevices(next);
  const std::vector<TimedMessage> kept =
      keptMessages(info, places, programs, next.devices, next.route);
  next.busiestPort = busiestPortOf(info, kept, next.route);
  if (effort.asksFew && next.busiestPort > mostTimesBound() * boundOf(next))
    return std::nullopt;
  if (auto why = spliceWaves(info, places, programs, next.devices, next.route,
                             next.waves))
    return why;
  next.atLeast = secondsOf(info, kept, next.waves);
  if (!draft || next.isBetterThan(*draft))
    draft = std::move(next);
  return std::nullopt;
}

/// What a port has beyond the bound is no plan's fault, perhaps.
bool Splicer::isTooSlow() const {
  double bound = std::max(boundOf(*draft), draft->busiestPort);
  return draft->atLeast > mostTimesBound() * bound;
}

/// Where a draft is too slow though no port has too much to carry, ports of
/// heirs are idle when those are busy that send to them: what these send leaves
/// its waves, too. In a small plan as much is kept around the old one.
void Splicer::freeSenders() {
  if (!isTooSlow() || !isLarge() ||
      draft->busiestPort > mostTimesBound() * boundOf(*draft))
    return;
  SpliceEffort effort = draft->effort;
  effort.resenders = lateSenders(info, draft->waves);
  (void)sketch(effort); // where it finds nothing, the draft stays
}

/// Changes more of the old plan until it is fast enough, without gaps. Where a
/// port has too much to send, or to get, that is what others could.
std::optional<std::string> Splicer::choose() {
  auto isGood = [&] {
    return draft && !draft->waves.hasGaps &&
           draft->atLeast <= mostTimesBound() * boundOf(*draft);
  };
  SpliceEffort effort;
  effort.asksFew = true;
  if (auto why = sketch(effort); why || isGood())
    return why;
  // Where a sketch finds nothing, or what is worse, the draft stays.
  effort.resends = true;
  effort.looksAtPorts = !draft;
  effort.comparesRoutes = !effort.looksAtPorts; // of the route alone
  std::optional<std::string> why;
  for (bool asksFew : {true, false}) {
    effort.asksFew = asksFew;
    why = sketch(effort);
    if (isGood())
      return std::nullopt;
  }
  if (!draft)
    return why;
  freeSenders();
  if (isTooSlow())
    return tooSlow(effort.looksAtPorts);
  return std::nullopt;
}

/// Says so. Where ports are busy, no wave would be kept around the old plan
/// either.
std::string Splicer::tooSlow(bool portsAreBusy) {
  std::string why = portsAreBusy
                        ? "who had the places of others has too much to send"
                        : "a plan of copies may be slower";
  if (portsAreBusy || isLarge())
    from.reason = why;
  return why;
}

/// A place that a device gets near another that wants the same may save bytes
/// between nodes, which copies do not: they send no more above the bounds than
/// the old plan.
bool Splicer::sendsNoMore() const {
  const dtrt::PlanSummary &now = common.summary;
  const dtrt::PlanSummary &before = from.plan->common().summary;
  return now.bytesWire - now.bytesWireLowerBound <=
             before.bytesWire - before.bytesWireLowerBound &&
         now.bytesInterNode - now.bytesInterNodeLowerBound <=
             before.bytesInterNode - before.bytesInterNodeLowerBound;
}

/// The verifier has checked of every program what the lemmas suppose.
void Splicer::stateProof() {
  dtrt::PlanSummary &summary = common.summary;
  summary.verifier = dtrt::kVerifierVersion;
  if (solverName().empty())
    return;
  const std::array<bool, 3> &holds = provedLemmas();
  auto word = [&](Claim claim) { return holds[size_t(claim)] ? "proved" : ""; };
  summary.coverage = word(Claim::Coverage);
  summary.deadlockFree = word(Claim::DeadlockFree);
  summary.memorySafe = word(Claim::MemorySafe);
  summary.solver = solverName() + ", the lemmas; the plan by exact check";
  summary.solverSteps = kSolverSteps;
}

std::optional<std::string> Splicer::write(const std::string &output) {
  auto writer = dtrt::PlanWriter::create(output);
  if (!writer.ok())
    return writer.status().message();
  dtrt::Status status = writePrograms(*writer);
  if (status.ok())
    status = measure(*writer);
  if (!status.ok())
    return status.message();
  if (!sendsNoMore())
    return "copies send more than they have to";
  if (common.summary.timePredicted >
      mostTimesBound() * common.summary.timeLowerBound)
    return tooSlow(/*portsAreBusy=*/false);
  stateProof();
  status = writer->finishPreviewed(common);
  if (!status.ok())
    return status.message();
  return std::nullopt;
}

void Splicer::report() {
  OldMoveIndex old(draft->route.old);
  int64_t moved = 0, onRoute = 0;
  for (const Move &move : draft->route.moves) {
    int64_t width = info.flowWidths()[move.flow].bytesPerElement;
    moved += move.box.volume() * width;
    for (const OldMove &part : old.partsOf(move))
      onRoute += part.move.box.volume() * width;
  }
  from.summary = common.summary;
  int64_t others = int64_t(common.summary.bytesWire) - moved;
  from.bytesOnRoute = others + onRoute;
  from.bytesInWave = others + draft->waves.bytesInWave;
  from.programsMade = made.size();
  from.programsCopied = numDevices - made.size();
}

std::optional<std::string> Splicer::run(const std::string &output) {
  common = commonSection(info);
  if (auto why = findChangedPlaces(from.plan->common(), common, places))
    return why;
  if (auto why = choose())
    return why;
  if (auto why = splicePrograms(info, places, programs, draft->devices,
                                draft->route, draft->waves, made))
    return why;
  if (!programs.problem().empty())
    return programs.problem();
  if (auto why = write(output))
    return why;
  report();
  return std::nullopt;
}

} // namespace

std::optional<std::string> splicePlan(const TransitionInfo &info, Replan &from,
                                      const std::string &output) {
  return Splicer(info, from).run(output);
}

namespace {

struct SplicePlanPass : PassWrapper<SplicePlanPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SplicePlanPass)

  SplicePlanPass(std::shared_ptr<Replan> from, std::string output,
                 const OpPassManager &whole)
      : from(std::move(from)), output(std::move(output)), whole(whole) {}

  StringRef getArgument() const override { return "dt-splice-plan"; }

  /// Of a module with one transition.
  std::optional<std::string> splice() {
    auto all = getOperation().getOps<TransitionOp>();
    if (std::distance(all.begin(), all.end()) != 1)
      return "the module has no transition, or several";
    std::optional<std::string> why = "the layouts are wrong";
    const auto &transitions = getAnalysis<TransitionAnalysis>();
    LogicalResult read = transitions.forEach([&](const TransitionInfo &info) {
      if (info.op().getBody().front().empty())
        why = splicePlan(info, *from, output);
      return success();
    });
    return succeeded(read) ? why : "the layouts are wrong";
  }

  void runOnOperation() override {
    if (auto why = splice()) {
      LLVM_DEBUG(llvm::dbgs() << "no plan is spliced: " << *why << "\n");
      if (failed(runPipeline(whole, getOperation())))
        return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }

private:
  std::shared_ptr<Replan> from;
  std::string output;
  OpPassManager whole;
};

} // namespace

std::unique_ptr<Pass> createSplicePlan(std::shared_ptr<Replan> from,
                                       const std::string &output,
                                       const OpPassManager &whole) {
  return std::make_unique<SplicePlanPass>(std::move(from), output, whole);
}

} // namespace dt
