//===- RulesTest.cpp - Flat lists, inline tensors and their rules ---------===//

#include "RequestTesting.h"

using namespace dt;

namespace {

std::string tensor(const std::string &name, const std::string &shape) {
  return R"({"name": ")" + name + R"(", "shape": )" + shape +
         R"(, "dtype": "F32"})";
}

/// A request of inline tensors with one layout on both sides.
Request readInline(const std::vector<std::string> &tensors,
                   const std::string &rules, const std::string &layout) {
  std::string list;
  for (const std::string &text : tensors)
    list += (list.empty() ? "" : ", ") + text;
  return readGood(R"({"model": {"tensors": [)" + list + R"(]}, "rules": )" +
                  rules + R"(, "source": )" + layout + R"(, "destination": )" +
                  layout + "}");
}

TEST(Rules, firstMatchWins) {
  Request request =
      readInline({tensor("a.w", "[4, 6]"), tensor("b.w", "[4, 6]")},
                 R"([{"match": "a.*", "tp": 1}, {"match": "*", "tp": 0}])",
                 R"({"world": 2, "tp": 2})");
  EXPECT_EQ(heldBy(request, "a.w", 1), "[0:4)x[3:6)");
  EXPECT_EQ(heldBy(request, "b.w", 1), "[2:4)x[0:6)");
}

TEST(Rules, cutBlocksOneByOne) {
  Request request =
      readInline({tensor("qkv", "[12]")},
                 R"([{"match": "qkv", "tp": 0, "blocks": [8, 2, 2]}])",
                 R"({"world": 2, "tp": 2})");
  EXPECT_EQ(heldBy(request, "qkv", 0), "[0:4) [8:9) [10:11)");
  EXPECT_EQ(heldBy(request, "qkv", 1), "[4:8) [9:10) [11:12)");
}

TEST(Rules, shardDimZeroUnlessToldOtherwise) {
  Request request = readInline(
      {tensor("a", "[4, 6]"), tensor("b", "[4, 6]"), tensor("c", "[4, 6]"),
       tensor("d", "[4, 6]"), tensor("scalar", "[]")},
      R"([{"match": "b", "fsdp": 1}, {"match": "c", "fsdp": null},
          {"match": "d", "replicate": true}, {"match": "*"}])",
      R"({"world": 2, "fsdp": 2})");
  EXPECT_EQ(heldBy(request, "a", 1), "[2:4)x[0:6)");
  EXPECT_EQ(heldBy(request, "b", 1), "[0:4)x[3:6)");
  EXPECT_EQ(heldBy(request, "c", 1), "[0:4)x[0:6)");
  EXPECT_EQ(heldBy(request, "d", 1), "[0:4)x[0:6)");
  EXPECT_NE(heldBy(request, "scalar", 1), "");
}

TEST(Rules, readLayersAndEndsFromNames) {
  Request request =
      readInline({tensor("embed", "[4]"), tensor("model.layers.0.w", "[4]"),
                  tensor("transformer.h.1.w", "[4]"), tensor("norm", "[4]"),
                  tensor("rope", "[4]")},
                 R"([{"match": "rope", "stage": "every"}, {"match": "*"}])",
                 R"({"world": 2, "pp": 2})");
  EXPECT_EQ(heldBy(request, "embed", 0), "[0:4)");
  EXPECT_EQ(heldBy(request, "embed", 1), "");
  EXPECT_EQ(heldBy(request, "model.layers.0.w", 0), "[0:4)");
  EXPECT_EQ(heldBy(request, "transformer.h.1.w", 1), "[0:4)");
  EXPECT_EQ(heldBy(request, "norm", 0), "");
  EXPECT_EQ(heldBy(request, "norm", 1), "[0:4)");
  EXPECT_EQ(heldBy(request, "rope", 0), "[0:4)");
  EXPECT_EQ(heldBy(request, "rope", 1), "[0:4)");
}

TEST(Rules, aStageTakesALayerOutOfTheCount) {
  Request request =
      readInline({tensor("layers.0.w", "[4]"), tensor("layers.1.w", "[4]"),
                  tensor("layers.2.mtp", "[4]")},
                 R"([{"match": "*.mtp", "stage": "last"}, {"match": "*"}])",
                 R"({"world": 2, "pp": 2})");
  EXPECT_EQ(heldBy(request, "layers.1.w", 0), "");
  EXPECT_EQ(heldBy(request, "layers.2.mtp", 1), "[0:4)");
}

TEST(Rules, readExpertsFromNames) {
  Request request = readInline(
      {tensor("layers.5.mlp.experts.0.w1", "[4]"),
       tensor("layers.5.mlp.experts.1.w1", "[4]"),
       tensor("layers.5.mlp.experts.fc2.weight0", "[4]"),
       tensor("layers.5.mlp.experts.fc2.weight1", "[4]")},
      R"([{"match": "*", "ep": true}])", R"({"world": 2, "dp": 2, "ep": 2})");
  EXPECT_EQ(heldBy(request, "layers.5.mlp.experts.0.w1", 1), "");
  EXPECT_EQ(heldBy(request, "layers.5.mlp.experts.1.w1", 1), "[0:4)");
  EXPECT_EQ(heldBy(request, "layers.5.mlp.experts.fc2.weight0", 0), "[0:4)");
  EXPECT_EQ(heldBy(request, "layers.5.mlp.experts.fc2.weight1", 0), "");
}

/// Rank 1 of 2 holds rows of fc2, as a rule says, and columns of the
/// projection, as the model does.
static void expectRuleOfFc2Alone(const Request &request) {
  EXPECT_EQ(heldBy(request, "decoder.layers.0.mlp.linear_fc2.weight", 1),
            "[64:128)x[0:384)");
  EXPECT_EQ(
      heldBy(request, "decoder.layers.0.self_attention.linear_proj.weight", 1),
      "[0:128)x[64:128)");
}

TEST(Rules, goBeforeThoseOfKnownModels) {
  Request request = readGood(
      R"({"model": "llama-tiny.json",
          "rules": [{"match": "*.linear_fc2.weight", "tp": 0}],
          "source": {"world": 2, "tp": 2}, "destination": {"world": 1}})");
  expectRuleOfFc2Alone(request);
}

TEST(Rules, nameStoragesWithoutSayingHowTensorsAreCut) {
  Request request = readGood(
      R"({"model": "llama-tiny.json",
          "rules": [{"match": "*.linear_fc2.weight", "tp": 0},
                    {"match": "*.mlp.*", "storage": "mlp"},
                    {"match": "*.weight", "storage": "rest"}],
          "source": {"world": 2, "tp": 2}, "destination": {"world": 1}})");
  expectRuleOfFc2Alone(request);
  auto storageOf = [&](const std::string &name) {
    for (const TensorDecl &tensor : request.tensors)
      if (tensor.name == name)
        return tensor.storage;
    return std::string("no such tensor");
  };
  EXPECT_EQ(storageOf("decoder.layers.0.mlp.linear_fc2.weight"), "mlp");
  EXPECT_EQ(storageOf("decoder.layers.0.self_attention.linear_proj.weight"),
            "rest");
}

TEST(Rules, comeBeforeTheStorageOfATensor) {
  Request request = readGood(
      R"({"model": {"tensors": [
             {"name": "a", "shape": [4], "dtype": "f32", "storage": "own"},
             {"name": "b", "shape": [4], "dtype": "f32", "storage": "own"}]},
          "rules": [{"match": "*"}, {"match": "b", "storage": "ruled"}],
          "source": {"world": 1}, "destination": {"world": 1}})");
  EXPECT_EQ(request.tensors[0].storage, "own");
  EXPECT_EQ(request.tensors[1].storage, "ruled");
}

TEST(FlatList, keepsFileOrderAndDTypesAndToleratesOtherKeys) {
  Request request = readGood(
      R"({"model": "dsv3-toy.model.json", "rules": [{"match": "*"}],
          "source": {"world": 1}, "destination": {"world": 1}})");
  ASSERT_EQ(request.tensors.size(), 1546u);
  EXPECT_EQ(request.tensors[0].name, "model.layers.0.input_layernorm.weight");
  EXPECT_EQ(request.tensors[0].states[0].source, DType::BF16);
  EXPECT_EQ(request.tensors[2].states[0].source, DType::F8E4M3);
  EXPECT_EQ(request.tensors[3].states[0].name, "param");
}

TEST(FlatList, needsNoRulesForExplicitShards) {
  const std::string shards =
      R"({"world": 1, "shards": [{"tensor": "w", "rank": 0, "offset": [0],
                                  "size": [4]}]})";
  readGood(R"({"model": {"w": {"shape": [4], "dtype": "I64"}}, "source": )" +
           shards + R"(, "destination": )" + shards + "}");
}

} // namespace
