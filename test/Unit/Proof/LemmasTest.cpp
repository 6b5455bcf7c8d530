//===- LemmasTest.cpp - The rules imply safety, and are needed ------------===//

#include "dt/Proof/Solver.h"

#include "gtest/gtest.h"

using namespace dt;

namespace {

constexpr unsigned kTimeLimitMs = 60000;

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
                       unsigned timeLimitMs = kTimeLimitMs) {
  Obligation obligation = lemma(name);
  size_t at = obligation.problem.find(hypothesis);
  EXPECT_NE(at, std::string::npos) << hypothesis;
  if (at == std::string::npos)
    return Verdict::Proved;
  obligation.problem.replace(at, hypothesis.size(), instead);
  return solve(obligation, timeLimitMs).verdict;
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
    SolverAnswer answer = solve(obligation, kTimeLimitMs);
    EXPECT_EQ(answer.verdict, Verdict::Proved)
        << obligation.name << ": " << answer.detail;
  }
}

// A lemma whose hypotheses contradict each other would prove anything.
TEST_F(Lemmas, HaveHypothesesThatCanHold) {
  for (Obligation obligation : lemmas()) {
    size_t negation = obligation.problem.rfind("(assert");
    obligation.problem.resize(negation);
    EXPECT_EQ(solve(obligation, kTimeLimitMs).verdict, Verdict::Refuted)
        << obligation.name;
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

TEST_F(Lemmas, SlotsWithoutParityAreRefuted) {
  EXPECT_EQ(
      verdictWithout("slots-never-meet", "(and (= r s) (= o p))", "(= r s)"),
      Verdict::Refuted);
}

// Its models need infinitely many pieces, so the solver may find none.
TEST_F(Lemmas, ForwardingInTheSameWaveIsNotProved) {
  EXPECT_NE(verdictWithout("nothing-sent-too-early",
                           "(< (wave (feeder p e)) (wave p))",
                           "(<= (wave (feeder p e)) (wave p))", 200),
            Verdict::Proved);
}

TEST_F(Lemmas, APeakThatForgetsCreatesIsRefuted) {
  EXPECT_EQ(verdictWithout("peak-is-counted",
                           "(ite (< peak (+ liveAfter arena)) (+ liveAfter "
                           "arena)\n                          peak)",
                           "peak"),
            Verdict::Refuted);
}

// A product of unknowns that no solver decides in a millisecond.
TEST_F(Lemmas, NoAnswerInTimeIsNoProof) {
  Obligation hard;
  hard.problem = "(declare-const x Int)(declare-const y Int)"
                 "(declare-const z Int)"
                 "(assert (and (> x 1) (> y 1) (> z 1)))"
                 "(assert (= (+ (* x x x) (* y y y)) (* z z z)))";
  EXPECT_EQ(solve(hard, 1).verdict, Verdict::Unknown);
}

TEST_F(Lemmas, TextThatIsNoProblemIsNoProof) {
  SolverAnswer answer = solve({"broken", Claim::Coverage, "", "(assert"}, 1000);
  EXPECT_EQ(answer.verdict, Verdict::Unknown);
  EXPECT_FALSE(answer.detail.empty());
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
