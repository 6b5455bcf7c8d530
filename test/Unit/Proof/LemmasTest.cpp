//===- LemmasTest.cpp - The rules imply safety, and are needed ------------===//

#include "dt/Proof/Lemmas.h"
#include "dt/Proof/Solver.h"

#include "gtest/gtest.h"

using namespace dt;

namespace {

Obligation lemma(const std::string &name) {
  for (const Obligation &obligation : lemmas())
    if (obligation.name == name)
      return obligation;
  ADD_FAILURE() << "no lemma " << name;
  return {};
}

/// The lemma with one hypothesis replaced.
Verdict verdictWithout(const std::string &name, const std::string &hypothesis,
                       const std::string &instead,
                       unsigned steps = kSolverSteps) {
  Obligation obligation = lemma(name);
  size_t at = obligation.problem.find(hypothesis);
  EXPECT_NE(at, std::string::npos) << hypothesis;
  if (at == std::string::npos)
    return Verdict::Proved;
  obligation.problem.replace(at, hypothesis.size(), instead);
  return solve(obligation, steps).verdict;
}

/// The declarations and assertions of a problem, one by one.
std::vector<std::string> commandsOf(const std::string &problem) {
  std::vector<std::string> commands(1);
  int depth = 0;
  bool comment = false;
  for (char c : problem) {
    commands.back() += c;
    comment = (comment || c == ';') && c != '\n';
    if (comment)
      continue;
    depth += (c == '(') - (c == ')');
    if (c == ')' && depth == 0)
      commands.emplace_back();
  }
  commands.pop_back(); // what follows the last one
  return commands;
}

std::string joined(const std::vector<std::string> &commands) {
  std::string text;
  for (const std::string &command : commands)
    text += command;
  return text;
}

bool isAssertion(const std::string &command) {
  return command.find("(assert") != std::string::npos;
}

class Lemmas : public ::testing::Test {
protected:
  void SetUp() override {
    if (solverName().empty())
      GTEST_SKIP() << "built without a solver";
  }
};

} // namespace

TEST_F(Lemmas, AreProved) {
  for (const Obligation &obligation : lemmas()) {
    SolverAnswer answer = solve(obligation, kSolverSteps);
    EXPECT_EQ(answer.verdict, Verdict::Proved)
        << obligation.name << ": " << answer.detail;
  }
}

// A lemma whose hypotheses contradict each other would prove anything.
TEST_F(Lemmas, HaveHypothesesThatCanHold) {
  for (Obligation obligation : lemmas()) {
    size_t negation = obligation.problem.rfind("(assert");
    obligation.problem.resize(negation);
    EXPECT_EQ(solve(obligation, kSolverSteps).verdict, Verdict::Refuted)
        << obligation.name;
  }
}

// Without any one of its hypotheses a lemma has a counterexample: none says
// more than it must.
TEST_F(Lemmas, NeedEachOfTheirHypotheses) {
  for (const Obligation &whole : lemmas()) {
    std::vector<std::string> commands = commandsOf(whole.problem);
    size_t hypotheses = 0;
    for (size_t i = 0; i < commands.size(); ++i) {
      if (!isAssertion(commands[i]))
        continue;
      ++hypotheses;
      // Without it there are only models of infinitely many pieces, each fed by
      // the next, so the solver may find none.
      bool infinite = commands[i].find("(right q e)") != std::string::npos;
      std::vector<std::string> others = commands;
      others.erase(others.begin() + i);
      Obligation weaker = whole;
      weaker.problem = joined(others);
      Verdict verdict = solve(weaker, infinite ? 100000 : kSolverSteps).verdict;
      if (infinite)
        EXPECT_NE(verdict, Verdict::Proved) << whole.name << commands[i];
      else
        EXPECT_EQ(verdict, Verdict::Refuted) << whole.name << commands[i];
    }
    EXPECT_GT(hypotheses, 1u) << whole.name;
  }
}

// The case of NCCL groups that hang: a cut between the passes.
TEST_F(Lemmas, TwoMessagesPerPairAreRefuted) {
  EXPECT_EQ(verdictWithout("cuts-keep-rounds", "(= (number m) 0)",
                           "(<= 0 (number m) 1)"),
            Verdict::Refuted);
}

TEST_F(Lemmas, ArbitraryOrderInAGroupIsRefuted) {
  EXPECT_EQ(
      verdictWithout("lowest-can-run", "(lower m n)", "(<= (wave m) (wave n))"),
      Verdict::Refuted);
}

// The lemma supposes nothing of where local work stands: a pack of the next
// wave may be ahead of the end of this one, as executors run it, and the
// hypotheses still have a model.
TEST_F(Lemmas, PacksMayRunEarly) {
  std::string early = "(declare-const pack Item)(declare-const group Item)"
                      "(assert (and (local pack) (not (local group))"
                      " (= (wave pack) (+ 1 (wave group)))"
                      " (before r pack group)))";
  Obligation obligation = lemma("lowest-can-run");
  size_t negation = obligation.problem.rfind("(assert");
  std::string proved = obligation.problem + early;
  obligation.problem = obligation.problem.substr(0, negation) + early;
  EXPECT_EQ(solve(obligation, kSolverSteps).verdict, Verdict::Refuted);
  obligation.problem = proved;
  EXPECT_EQ(solve(obligation, kSolverSteps).verdict, Verdict::Proved);
}

TEST_F(Lemmas, SlotsWithoutParityAreRefuted) {
  EXPECT_EQ(
      verdictWithout("slots-never-meet", "(and (= r s) (= o p))", "(= r s)"),
      Verdict::Refuted);
}

// Its models need infinitely many pieces, so the solver may find none.
TEST_F(Lemmas, ForwardingInTheSameWaveIsNotProved) {
  EXPECT_NE(verdictWithout("nothing-sent-too-early",
                           "(< (wave (feeder p e)) (wave p))",
                           "(<= (wave (feeder p e)) (wave p))", 100000),
            Verdict::Proved);
}

TEST_F(Lemmas, AForwardThatIsPackedEarlyIsRefuted) {
  EXPECT_EQ(verdictWithout("nothing-sent-too-early",
                           "(=> (and (holds p e) (not (fromSource p e)) "
                           "(holds q e)",
                           "(=> (and false (not (fromSource p e)) (holds q e)"),
            Verdict::Refuted);
}

TEST_F(Lemmas, APeakThatForgetsCreatesIsRefuted) {
  EXPECT_EQ(verdictWithout("peak-is-counted",
                           "(ite (< peak countAfter) countAfter peak)", "peak"),
            Verdict::Refuted);
}

TEST_F(Lemmas, ACreateThatOvertakesAReleaseIsRefuted) {
  EXPECT_EQ(verdictWithout("peak-is-counted",
                           "(=> (and create done) (= late 0))",
                           "(=> (and create done) (<= 0 late))"),
            Verdict::Refuted);
}

/// `n` pigeons in one hole less, which takes as many steps as it is given.
Obligation pigeons(int n) {
  Obligation out;
  std::string names;
  for (int i = 0; i < n; ++i) {
    std::string name = "p" + std::to_string(i);
    out.problem += "(declare-const " + name + " Int)(assert (and (<= 0 " +
                   name + ") (< " + name + " " + std::to_string(n - 1) +
                   ")))\n";
    names += " " + name;
  }
  out.problem += "(assert (distinct" + names + "))\n";
  return out;
}

TEST_F(Lemmas, NoAnswerInTheBudgetIsNoProof) {
  EXPECT_EQ(solve(pigeons(5), kSolverSteps).verdict, Verdict::Proved);
  SolverAnswer answer = solve(pigeons(12), 20000);
  EXPECT_EQ(answer.verdict, Verdict::Unknown);
  EXPECT_LT(answer.steps, 40000u);
  EXPECT_EQ(solve(lemma("rounds-agree"), 0).verdict, Verdict::Unknown);
}

// What the solver was asked before does not count.
TEST_F(Lemmas, TakeTheSameStepsEachTime) {
  std::vector<uint64_t> before;
  for (const Obligation &obligation : lemmas())
    before.push_back(solve(obligation, kSolverSteps).steps);
  solve(pigeons(12), 20000);
  for (size_t i = lemmas().size(); i-- > 0;)
    EXPECT_EQ(solve(lemmas()[i], kSolverSteps).steps, before[i])
        << lemmas()[i].name;
}

TEST_F(Lemmas, TextThatIsNoProblemIsNoProof) {
  SolverAnswer answer = solve({"broken", Claim::Coverage, "", "(assert"}, 1000);
  EXPECT_EQ(answer.verdict, Verdict::Unknown);
  EXPECT_FALSE(answer.detail.empty());
}

TEST(SmtLib, NamesTheTheoremOfEveryLemma) {
  std::string text = toSmtLib(lemmas(), {});
  for (const Obligation &obligation : lemmas()) {
    EXPECT_FALSE(obligation.theorem.empty()) << obligation.name;
    EXPECT_NE(text.find(" (proof/: " + obligation.theorem + ")\n"),
              std::string::npos)
        << obligation.name;
  }
}

TEST(SmtLib, HoldsEveryLemmaOnce) {
  std::string text = toSmtLib(lemmas(), {"header"});
  EXPECT_EQ(text.rfind("; header\n", 0), 0u);
  size_t checks = 0;
  for (size_t at = 0; (at = text.find("(check-sat)", at)) != std::string::npos;
       ++at)
    ++checks;
  EXPECT_EQ(checks, lemmas().size());
}
