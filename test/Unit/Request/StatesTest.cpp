//===- StatesTest.cpp - States of each side, and what is lost -------------===//

#include "RequestTesting.h"

using namespace dt;

namespace {

/// One tensor; `source` and `destination` are the states, `rest` more keys.
std::string request(const std::string &source, const std::string &destination,
                    const std::string &rest = "") {
  return R"({"model": {"tensors": [{"name": "w", "shape": [8], "dtype": "bf16"}]},
      "rules": [{"match": "*", "replicate": true, "stage": "every"}],
      "source": {"world": 1, "state": )" +
         source + R"(}, "destination": {"world": 1, "state": )" + destination +
         "}" + (rest.empty() ? "" : ", " + rest) + "}";
}

} // namespace

TEST(States, EachSideHasItsOwnDTypes) {
  Request read = readGood(request(R"({"param": "bf16", "master": "f32"})",
                                  R"({"master": "f64", "param": "f16"})"));
  const std::vector<StateDecl> &states = read.tensors[0].states;
  ASSERT_EQ(states.size(), 2u);
  EXPECT_EQ(states[0].source, DType::BF16);
  EXPECT_EQ(states[0].destination, DType::F16);
  EXPECT_EQ(states[1].source, DType::F32);
  EXPECT_EQ(states[1].destination, DType::F64);
}

TEST(States, OneSideMayKeepTheStatesOfTheTop) {
  Request read = readGood(
      R"({"model": {"tensors": [{"name": "w", "shape": [8], "dtype": "bf16"}]},
          "state": {"param": "f32"},
          "rules": [{"match": "*", "replicate": true, "stage": "every"}],
          "source": {"world": 1},
          "destination": {"world": 1, "state": {"param": "bf16"}}})");
  EXPECT_EQ(read.tensors[0].states[0].source, DType::F32);
  EXPECT_EQ(read.tensors[0].states[0].destination, DType::BF16);
}

TEST(States, DerivedAndDroppedStatesExistOnOneSide) {
  Request read = readGood(request(
      R"({"master": "f32", "exp_avg": "f32"})", R"({"param": "bf16"})",
      R"("derive": {"param": "master"}, "drop": ["master", "exp_avg"])"));
  const std::vector<StateDecl> &states = read.tensors[0].states;
  ASSERT_EQ(states.size(), 3u);
  EXPECT_FALSE(states[0].destination);
  EXPECT_FALSE(states[2].source);
  EXPECT_EQ(states[2].from, "master");
  ASSERT_EQ(read.destination.places.size(), 1u);
  EXPECT_EQ(read.destination.places[0].states,
            std::vector<std::string>{"param"});
}

TEST(States, NothingIsLostOrInventedInSilence) {
  EXPECT_EQ(readBad(request(R"({"param": "bf16", "master": "f32"})",
                            R"({"param": "bf16"})")),
            "destination lacks state \"master\", which the source has: list "
            "it in \"drop\"");
  EXPECT_EQ(readBad(request(R"({"master": "f32"})",
                            R"({"master": "f32", "param": "bf16"})")),
            "source lacks state \"param\", which the destination has: say in "
            "\"derive\" what it is made from");
}

TEST(States, MistakesInDeriveAndDropAreNamed) {
  const char *master = R"({"master": "f32"})", *param = R"({"param": "bf16"})";
  EXPECT_EQ(
      readBad(request(master, param, R"("derive": {"param": "exp_avg"})")),
      "derive.param names \"exp_avg\", which is not another state of the "
      "source");
  EXPECT_EQ(readBad(request(master, param, R"("derive": {"grad": "master"})")),
            "derive.grad names a state that the destination does not have");
  EXPECT_EQ(readBad(request(master, master, R"("drop": ["master"])")),
            "drop[0] names \"master\", which the destination has");
  EXPECT_EQ(readBad(request(master, master, R"("drop": ["grad"])")),
            "drop[0] names \"grad\", which is not a state of the source");
  EXPECT_EQ(readBad(request(R"({"master": "i32"})", param,
                            R"("derive": {"param": "master"})")),
            "derive.param: master is i32, which does not convert to bf16");
}

TEST(States, TypesThatDoNotConvertAreRefused) {
  EXPECT_EQ(readBad(request(R"({"param": "bf16"})", R"({"param": "f8_e4m3"})")),
            "state \"param\" changes from bf16 to f8_e4m3, which does not "
            "convert: expected two of f64, f32, f16 and bf16");
  EXPECT_EQ(readBad(request(R"({"param": "bf16", "master": "f32"})",
                            R"({"param": "bf16", "master": "f16"})",
                            R"("derive": {"param": "master"})")),
            "derive.param: param changes from bf16 to bf16 and master from f32 "
            "to f16, which rounds otherwise what is sent than what is made");
}
