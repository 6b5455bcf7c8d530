//===- ViewsTest.cpp - A side's own tensors -------------------------------===//

#include "RequestTesting.h"

using namespace dt;

namespace {

using Ints = std::vector<int64_t>;

/// The source of a request with views on that side.
LayoutDecl sourceWith(const std::string &views, const std::string &sizes,
                      const std::string &rules) {
  Request request = readGood(
      R"({"model": {"tensors": [
            {"name": "layers.0.w", "shape": [6, 4], "dtype": "f32"},
            {"name": "layers.1.w", "shape": [6, 4], "dtype": "f32"},
            {"name": "experts", "shape": [2, 4], "dtype": "f32"}]},
          "rules": [)" +
      rules + R"({"match": "*", "replicate": true}],
          "source": {)" +
      sizes + R"(, "views": [)" + views + R"(]},
          "destination": {"world": 1}})");
  return request.source;
}

std::vector<std::string> namesOf(const LayoutDecl &layout) {
  std::vector<std::string> names;
  for (const ViewDecl &view : layout.views)
    names.push_back(view.name);
  return names;
}

const ViewDecl &viewOf(const LayoutDecl &layout, const std::string &name) {
  for (const ViewDecl &view : layout.views)
    if (view.name == name)
      return view;
  ADD_FAILURE() << "no view " << name;
  return layout.views.front();
}

const std::string kHalves =
    R"({"of": "layers.*.w", "tensor": "h.*.b", "take": [[3, 6]]},
       {"of": "layers.*.w", "tensor": "h.*.a", "take": [[0, 3]]})";

} // namespace

TEST(Views, standInTheModelsOrderThenInTheList) {
  LayoutDecl layout = sourceWith(kHalves, R"("world": 1)", "");
  EXPECT_EQ(namesOf(layout),
            (std::vector<std::string>{"h.0.b", "h.0.a", "h.1.b", "h.1.a",
                                      "experts"}));
  EXPECT_EQ(viewOf(layout, "h.1.b").tensor, 1u);
  EXPECT_EQ(viewOf(layout, "h.1.b").view.dims[0].intervals,
            (std::vector<Interval>{{3, 6}}));
}

TEST(Views, areCutByRulesOfTheirOwnNames) {
  LayoutDecl layout = sourceWith(kHalves, R"("world": 2, "tp": 2)",
                                 R"({"match": "h.*.a", "tp": 1},)");
  for (const PlaceDecl &place : layout.places) {
    bool isA = layout.views[*place.view].name.back() == 'a';
    EXPECT_EQ(place.placement.dims.back().splits.size(), isA ? 1u : 0u);
  }
}

TEST(Views, ofEachIndexLoseTheDim) {
  LayoutDecl layout =
      sourceWith(R"({"of": "experts", "tensor": "expert.{}", "each": 0})",
                 R"("world": 1)", "");
  EXPECT_EQ(namesOf(layout),
            (std::vector<std::string>{"layers.0.w", "layers.1.w", "expert.0",
                                      "expert.1"}));
  EXPECT_EQ(viewOf(layout, "expert.1").view.shape(), (Ints{4}));
}

TEST(Views, haveDimsInTheOrderOfPermute) {
  LayoutDecl layout = sourceWith(
      R"({"of": "layers.*.w", "tensor": "h.*.t", "permute": [1, 0],
          "take": [[3, 6], [0, 3]]})",
      R"("world": 2, "tp": 2)", R"({"match": "h.*.t", "tp": 0},)");
  const ViewDecl &view = viewOf(layout, "h.1.t");
  EXPECT_EQ(view.view.shape(), (Ints{4, 6}));
  // `take` is of the model's dim, the rule of the own one.
  EXPECT_EQ(view.view.dims[0].intervals,
            (std::vector<Interval>{{3, 6}, {0, 3}}));
  EXPECT_EQ(layout.places.front().placement.dims[0].splits.size(), 1u);
}

TEST(Views, ofEachIndexAreWithoutThatDimOfPermute) {
  Request request = readGood(
      R"({"model": {"tensors": [
            {"name": "w", "shape": [2, 3, 4, 5], "dtype": "f32"}]},
          "rules": [{"match": "*", "replicate": true}],
          "source": {"world": 1, "views": [
            {"of": "w", "tensor": "w.{}", "each": 1, "permute": [3, 0, 2]}]},
          "destination": {"world": 1}})");
  EXPECT_EQ(viewOf(request.source, "w.2").view.shape(), (Ints{5, 2, 4}));
}

TEST(Views, ofADimThatIsUnflattenedAreOfItsParts) {
  Request request = readGood(
      R"({"model": {"tensors": [
            {"name": "h.0.w", "shape": [2, 6, 4], "dtype": "f32"},
            {"name": "h.1.w", "shape": [2, 8, 4], "dtype": "f32"}]},
          "rules": [{"match": "*", "replicate": true}],
          "source": {"world": 1, "views": [
            {"of": "h.*.w", "tensor": "h.*.in_turns",
             "unflatten": {"1": [2, -1]}, "permute": [0, 3, 2, 1],
             "flatten": [[2, 3]]}]},
          "destination": {"world": 1, "views": [
            {"of": "h.0.w", "tensor": "gate", "dim": 1, "take": [[0, 3]]},
            {"of": "h.0.w", "tensor": "up", "dim": 1, "take": [[3, 6]]}]}})");
  EXPECT_EQ(request.tensors[0].shape, (Ints{2, 2, 3, 4}));
  EXPECT_EQ(request.tensors[1].shape, (Ints{2, 2, 4, 4}));
  const TensorView &inTurns = viewOf(request.source, "h.1.in_turns").view;
  EXPECT_EQ(inTurns.shape(), (Ints{2, 4, 8}));
  EXPECT_EQ(inTurns.parts, (dtrt::DimParts{1, 1, 2}));
  // The other side has the dims of the list.
  const TensorView &up = viewOf(request.destination, "up").view;
  EXPECT_EQ(up.shape(), (Ints{2, 3, 4}));
  EXPECT_EQ(up.dims[1].intervals, (std::vector<Interval>{{1, 2}}));
  EXPECT_EQ(up.dims[2].intervals, (std::vector<Interval>{{0, 3}}));
  EXPECT_EQ(viewOf(request.destination, "h.1.w").view.shape(), (Ints{2, 8, 4}));
}

TEST(Views, ofEachIndexOfADimThatTheOtherSideUnflattensAreOfEachPart) {
  Request request = readGood(
      R"({"model": {"tensors": [
            {"name": "w", "shape": [3, 6], "dtype": "f32"}]},
          "rules": [{"match": "*", "replicate": true}],
          "source": {"world": 1, "views": [
            {"of": "w", "tensor": "w.{}", "each": 1}]},
          "destination": {"world": 1, "views": [
            {"of": "w", "tensor": "u", "unflatten": {"1": [2, 3]}}]}})");
  const TensorView &view = viewOf(request.source, "w.4").view;
  EXPECT_EQ(view.shape(), (Ints{3}));
  EXPECT_TRUE(view.dims[1].isIndex);
  EXPECT_EQ(view.dims[1].intervals.front().lo, 1);
  EXPECT_EQ(view.dims[2].intervals.front().lo, 1);
  EXPECT_EQ(viewOf(request.destination, "u").view.shape(), (Ints{3, 2, 3}));
}

/// Tensor parallelism cuts dim 0 of that view, and nothing dim 1.
void expectRowsOverTp(const LayoutDecl &layout, const std::string &view) {
  for (const PlaceDecl &place : layout.places) {
    if (layout.views[*place.view].name != view)
      continue;
    EXPECT_EQ(place.placement.dims[0].splits.front().axis, "tp");
    EXPECT_TRUE(place.placement.dims[1].splits.empty());
    return;
  }
  FAIL() << "no place of " << view;
}

TEST(Views, ofAModelTypeKeepTheCutOfADimThatIsNotFlattened) {
  Request request = readGood(
      R"({"model": "llama-tiny.json",
          "source": {"world": 2, "tp": 2, "views": [
            {"of": "decoder.layers.*.self_attention.linear_proj.weight",
             "tensor": "layers.*.o", "unflatten": {"0": [2, -1]},
             "permute": [2, 1, 0], "flatten": [[1, 2]]}]},
          "destination": {"world": 1}})");
  expectRowsOverTp(request.source, "layers.7.o");
}

TEST(Views, ofAModelTypeNeedARuleWhereTheDimThatIsCutIsOneWithOthers) {
  EXPECT_EQ(readBad(
                R"({"model": "llama-tiny.json",
          "source": {"world": 2, "tp": 2, "views": [
            {"of": "decoder.layers.*.self_attention.linear_proj.weight",
             "tensor": "layers.*.o", "flatten": [[0, 1]]}]},
          "destination": {"world": 1}})"),
            "no rule matches tensor \"layers.0.o\"");
}

TEST(Views, ThatSayWhatPaddingHoldsHaveItsBits) {
  Request request = readGood(
      R"({"model": {"tensors": [{"name": "w", "shape": [4], "state": {
            "param": "bf16", "master": ["f32", "f16"],
            "exp_avg": "f8_e4m3"}}]},
          "rules": [{"match": "*", "replicate": true}],
          "source": {"world": 1, "views": [
            {"of": "w", "tensor": "w", "fill": {"exp_avg": 3}}]},
          "destination": {"world": 1, "views": [
            {"of": "w", "tensor": "w", "fill": 1.01171875}]}})");
  using Bits = std::vector<uint64_t>;
  // Rounded, exact, and zeros of a moment.
  EXPECT_EQ(viewOf(request.destination, "w").view.fill,
            (Bits{0x3f82, 0x3c0c, 0}));
  EXPECT_EQ(viewOf(request.source, "w").view.fill, (Bits{0, 0, 0x44}));
}

TEST(Views, RoundWhatPaddingHoldsToTheNearestAndTiesToEven) {
  auto bitsOf = [](const std::string &fill) {
    Request request = readGood(
        R"({"model": {"tensors": [{"name": "w", "shape": [4], "dtype": "bf16"}]},
            "rules": [{"match": "*", "replicate": true}],
            "source": {"world": 1},
            "destination": {"world": 1, "views": [
              {"of": "w", "tensor": "w", "fill": )" +
        fill + "}]}}");
    const std::vector<uint64_t> &bits =
        viewOf(request.destination, "w").view.fill;
    return bits.empty() ? 0 : bits.front();
  };
  EXPECT_EQ(bitsOf("1.00390625"), 0x3f80u);       // halfway, down to even
  EXPECT_EQ(bitsOf("1.01171875"), 0x3f82u);       // halfway, up to even
  EXPECT_EQ(bitsOf("1.00390625000001"), 0x3f80u); // by way of f32
  EXPECT_EQ(bitsOf("1.004"), 0x3f81u);
  EXPECT_EQ(bitsOf("-0.0"), 0x8000u);
  EXPECT_EQ(bitsOf("0"), 0u);
  EXPECT_EQ(bitsOf("1e-40"), 0x0001u);
  EXPECT_EQ(bitsOf("\"-inf\""), 0xff80u);
}

TEST(Views, OfAPaddedVocabularyKeepItsPadding) {
  Request request = readGood(
      R"({"model": "llama-tiny.json", "vocab_multiple": 1000,
          "source": {"world": 1},
          "destination": {"world": 2, "tp": 2, "views": [
            {"of": "embedding.word_embeddings.weight",
             "tensor": "embedding.word_embeddings.weight", "fill": -1}]}})");
  const LayoutDecl &layout = request.destination;
  EXPECT_EQ(viewOf(layout, "embedding.word_embeddings.weight").view.fill,
            (std::vector<uint64_t>{0xbf80}));
  for (const PlaceDecl &place : layout.places)
    if (layout.views[*place.view].name == "embedding.word_embeddings.weight") {
      EXPECT_GT(place.placement.dims[0].extent, 0);
      EXPECT_EQ(place.placement.dims[0].extent % 2000, 0);
    }
}

TEST(Views, ofAModelTypeAreCutAlongTheSameDimWhereverItStands) {
  Request request = readGood(
      R"({"model": "llama-tiny.json",
          "source": {"world": 2, "tp": 2, "views": [
            {"of": "decoder.layers.*.self_attention.linear_proj.weight",
             "tensor": "layers.*.o", "permute": [1, 0]}]},
          "destination": {"world": 1}})");
  expectRowsOverTp(request.source, "layers.7.o");
}

TEST(Views, haveZerosBehindTheEndOfTheTensor) {
  LayoutDecl layout = sourceWith(
      R"({"of": "experts", "tensor": "e",
          "take": [{"zeros": 2}, [0, 2], {"zeros": 1}]})",
      R"("world": 1)", "");
  EXPECT_EQ(viewOf(layout, "e").view.dims[0].intervals,
            (std::vector<Interval>{{2, 4}, {0, 2}, {4, 5}}));
}

TEST(Views, ofSeveralTensorsMakeThePlanAboutTheJoinedOne) {
  Request request = readGood(
      R"({"model": {"tensors": [
            {"name": "layers.0.k", "shape": [2, 4], "dtype": "f32"},
            {"name": "layers.0.o", "shape": [4, 4], "dtype": "f32"},
            {"name": "layers.0.q", "shape": [6, 4], "dtype": "f32"}]},
          "rules": [{"match": "*", "replicate": true}],
          "source": {"world": 1},
          "destination": {"world": 1, "views": [
            {"concat": ["layers.*.q", "layers.*.k"], "tensor": "h.*.qk"}]}})");
  ASSERT_EQ(request.tensors.size(), 2u);
  EXPECT_EQ(request.tensors[0].name, "h.0.qk");
  EXPECT_EQ(request.tensors[0].shape, (Ints{8, 4}));
  EXPECT_EQ(namesOf(request.destination),
            (std::vector<std::string>{"h.0.qk", "layers.0.o"}));
  // The other side keeps its names and its order.
  EXPECT_EQ(
      namesOf(request.source),
      (std::vector<std::string>{"layers.0.k", "layers.0.o", "layers.0.q"}));
  const ViewDecl &k = viewOf(request.source, "layers.0.k");
  EXPECT_EQ(k.tensor, 0u);
  EXPECT_EQ(k.view.dims[0].intervals, (std::vector<Interval>{{6, 8}}));
}

TEST(Views, ofPartsHaveZerosBehindTheJoinedTensor) {
  Request request = readGood(
      R"({"model": {"tensors": [
            {"name": "a", "shape": [2], "dtype": "f32"},
            {"name": "b", "shape": [6], "dtype": "f32"}]},
          "rules": [{"match": "*", "replicate": true}],
          "source": {"world": 1, "views": [
            {"of": "a", "tensor": "x", "take": [[0, 2], {"zeros": 3}]},
            {"of": "b", "tensor": "y", "take": [{"zeros": 1}, [0, 6]]}]},
          "destination": {"world": 1, "views": [
            {"concat": ["a", "b"], "tensor": "ab"}]}})");
  EXPECT_EQ(viewOf(request.source, "x").view.dims[0].intervals,
            (std::vector<Interval>{{0, 2}, {8, 11}}));
  EXPECT_EQ(viewOf(request.source, "y").view.dims[0].intervals,
            (std::vector<Interval>{{11, 12}, {2, 8}}));
}

TEST(Views, ofPartsThatAreUnflattenedAreRowsOfTheJoinedTensor) {
  Request request = readGood(
      R"({"model": {"tensors": [
            {"name": "k", "shape": [4, 6], "dtype": "f32"},
            {"name": "q", "shape": [8, 6], "dtype": "f32"}]},
          "rules": [{"match": "*", "replicate": true}],
          "source": {"world": 1, "views": [
            {"concat": ["q", "k"], "tensor": "qk"}]},
          "destination": {"world": 1, "views": [
            {"of": "q", "tensor": "q.t", "unflatten": {"0": [4, 2]},
             "permute": [1, 0, 2], "flatten": [[0, 1]]}]}})");
  ASSERT_EQ(request.tensors.size(), 1u);
  EXPECT_EQ(request.tensors[0].shape, (Ints{6, 2, 6}));
  const ViewDecl &qk = viewOf(request.source, "qk");
  EXPECT_EQ(qk.view.shape(), (std::vector<int64_t>{12, 6}));
  const ViewDecl &q = viewOf(request.destination, "q.t");
  EXPECT_EQ(q.view.dims[0].intervals, (std::vector<Interval>{{0, 4}}));
  EXPECT_EQ(q.view.shape(), (std::vector<int64_t>{8, 6}));
  // What is said of one is of both.
  const ViewDecl &k = viewOf(request.destination, "k");
  EXPECT_EQ(k.view.dims[0].intervals, (std::vector<Interval>{{4, 6}}));
  EXPECT_EQ(k.view.dims[1].intervals, (std::vector<Interval>{{0, 2}}));
  EXPECT_EQ(k.view.shape(), (std::vector<int64_t>{4, 6}));
}

TEST(Views, ofAModelTypeKeepItsCutAndStage) {
  Request request = readGood(
      R"({"model": "llama-tiny.json",
          "source": {"world": 4, "tp": 2, "pp": 2, "views": [
            {"of": "decoder.layers.*.self_attention.linear_proj.weight",
             "tensor": "layers.*.o"}]},
          "destination": {"world": 1}})");
  const LayoutDecl &layout = request.source;
  for (const PlaceDecl &place : layout.places) {
    if (layout.views[*place.view].name != "layers.7.o")
      continue;
    EXPECT_EQ(place.placement.dims[1].splits.front().axis, "tp");
    EXPECT_EQ(place.placement.at.front().coordinates, (Ints{1}));
    return;
  }
  FAIL() << "no place of layers.7.o";
}

TEST(Views, ofAPartOfWhatIsCutNeedARule) {
  std::string request =
      R"({"model": "llama-tiny.json",
          "source": {"world": 2, "tp": 2, "views": [
            {"of": "decoder.layers.*.mlp.linear_fc1.weight",
             "tensor": "layers.*.gate", "take": [[0, 384]]},
            {"of": "decoder.layers.*.mlp.linear_fc1.weight",
             "tensor": "layers.*.up", "take": [[384, 768]]}]},
          "destination": {"world": 1}})";
  EXPECT_EQ(readBad(request), R"(no rule matches tensor "layers.0.gate")");
}

TEST(Frameworks, stackExpertsOnBothSides) {
  Request request = readGood(
      R"({"model": "qwen3-moe-tiny.json", "source": {"world": 2, "dp": 2, "ep": 2},
          "destination": {"world": 2, "dp": 2, "ep": 2, "framework": "vllm"}})");
  std::string fc1 = "decoder.layers.0.mlp.experts.linear_fc1.weight";
  EXPECT_EQ(request.tensors[findTensor(request, fc1)].shape,
            (Ints{16, 96, 64}));
  EXPECT_EQ(viewOf(request.source, fc1 + "9").view.shape(), (Ints{96, 64}));
  EXPECT_EQ(viewOf(request.destination, "model.layers.0.mlp.experts.w13_weight")
                .view.shape(),
            (Ints{16, 96, 64}));
}
