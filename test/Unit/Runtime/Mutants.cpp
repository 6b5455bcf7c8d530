//===- Mutants.cpp - Do all judges of a changed plan agree? ---------------===//

#include "Mutants.h"

#include "AdversarialMachine.h"
#include "PlanFields.h"

#include "dtrt/report/Diff.h"
#include "dtrt/verify/Verifier.h"
#include "dtrt/world/LoopbackRun.h"

#include <sstream>

namespace dtrt::test {

namespace {

/// Of random adversaries per plan.
constexpr int kMachineRuns = 3;
/// A changed size may stand for any number of bytes; more is not run.
constexpr uint64_t kMostBytes = 64 << 20;

/// The file of a plan, or why the reader refuses it.
Result<PlanReader> write(const TestPlan &plan) {
  auto bytes = plan.encoded();
  DTRT_RETURN_IF_ERROR(bytes);
  return PlanReader::fromBytes(std::move(*bytes));
}

std::string wrongLoopback(const PlanReader &plan, bool staged) {
  LoopbackOptions options;
  options.check = true;
  options.staged = staged;
  auto report = runLoopback(plan, options);
  std::string how = staged ? "to the letter: " : "from shard to shard: ";
  if (!report.ok())
    return how + report.status().message();
  return report->check.mismatches == 0 ? "" : how + report->check.first.front();
}

bool readsDestination(const Instruction &instruction) {
  for (const Segment &segment : instruction.segments)
    if (segment.side == Side::Destination)
      return true;
  return false;
}

/// Whether diff exits with 0.
Result<bool> areSame(const PlanReader &a, const PlanReader &b) {
  std::ostringstream text;
  auto same = writeDifferences(a, b, text);
  if (same.ok() && *same != text.str().empty())
    return makeError("diff says ", *same ? "same" : "different",
                     " and prints '", text.str(), "'");
  return same;
}

std::string wrongDiff(const TestPlan &original, const TestPlan &mutant,
                      bool differs) {
  auto before = write(original), after = write(mutant);
  if (!before.ok() || !after.ok())
    return "cannot be read again";
  for (bool turned : {false, true}) {
    auto same = turned ? areSame(*after, *before) : areSame(*before, *after);
    if (!same.ok())
      return same.status().message();
    if (*same == differs)
      return std::string("diff says ") + (*same ? "same" : "different");
  }
  return "";
}

} // namespace

TestPlan overlapped(TestPlan plan) {
  for (RankProgram &program : plan.programs) {
    auto &list = program.instructions;
    for (size_t i = 1; i < list.size(); ++i)
      if (list[i].op == Opcode::Pack && !readsDestination(list[i]))
        for (size_t at = i; at > 0; --at) {
          Opcode before = list[at - 1].op;
          if (before == Opcode::Create || before == Opcode::Release)
            break;
          std::swap(list[at], list[at - 1]);
          if (before == Opcode::Group)
            break;
        }
    for (size_t i = list.size(); i-- > 0;)
      if (list[i].op == Opcode::Unpack)
        for (size_t at = i; at + 1 < list.size(); ++at) {
          const Instruction &next = list[at + 1];
          bool forwards =
              (next.op == Opcode::Pack || next.op == Opcode::Copy) &&
              readsDestination(next);
          for (const Message &message : next.messages)
            forwards |= !message.receive && message.direct &&
                        message.segment.side == Side::Destination;
          if (forwards)
            break;
          bool group = next.op == Opcode::Group;
          std::swap(list[at], list[at + 1]);
          if (group)
            break;
        }
  }
  return plan;
}

std::string wrongRun(const TestPlan &plan, Rng &rng) {
  auto reader = write(plan);
  if (!reader.ok())
    return reader.status().message();
  for (bool staged : {true, false})
    if (std::string why = wrongLoopback(*reader, staged); !why.empty())
      return why;
  auto late = write(overlapped(plan));
  if (!late.ok())
    return "overlapped: " + late.status().message();
  if (std::string why = wrongLoopback(*late, true); !why.empty())
    return "overlapped, " + why;
  for (int run = 0; run < kMachineRuns; ++run) {
    auto perNode = uint32_t(std::min<int64_t>(
        plan.common.cluster.devicesPerNode, int64_t(plan.programs.size()) + 1));
    Status status = runOnMachine(*reader, perNode, randomAdversary(rng), rng());
    if (!status.ok())
      return status.message();
  }
  return "";
}

Verdict judge(const TestPlan &original, const TestPlan &mutant, Rng &rng) {
  Verdict verdict;
  auto reader = write(mutant);
  if (!reader.ok() || !verifyPlan(*reader).ok())
    return verdict;
  verdict.accepted = true;
  auto again = TestPlan::from(*reader);
  if (!again.ok() || !verifyPlan(again->reader()).ok()) {
    verdict.problem = "read again, it is refused";
    return verdict;
  }
  verdict.differs =
      withoutProvenance(original).bytes() != withoutProvenance(*again).bytes();
  verdict.problem = wrongDiff(original, *again, verdict.differs);
  uint64_t bytes = 0;
  for (const RankProgram &program : again->programs)
    bytes += peakBytes(again->common, program);
  if (verdict.problem.empty() && bytes <= kMostBytes)
    verdict.problem = wrongRun(*again, rng);
  return verdict;
}

} // namespace dtrt::test
