//===- BlockScalesTest.cpp - Tensors that come in block-scaled FP8 --------===//

#include "RequestTesting.h"

using namespace dt;

namespace {

/// A tensor w of [1000, 512], whose last rows are no whole block.
std::string requestOf(const std::string &source,
                      const std::string &destination) {
  return R"({"model": {"tensors": [
               {"name": "w", "shape": [1000, 512], "dtype": "bf16"}]},
             "state": {"param": "bf16", "exp_avg": "f32"},
             "source": {"world": 4, )" +
         source + R"(}, "destination": {"world": 2, )" + destination + "}}";
}

const std::string kColumns =
    R"("tp": 4, "dp": 1, "rules": [{"match": "*", "tp": 1}])";
const std::string kWhole =
    R"("dp": 2, "rules": [{"match": "*", "replicate": true}])";

const TensorDecl &tensorOf(const Request &request, const std::string &name) {
  for (const TensorDecl &tensor : request.tensors)
    if (tensor.name == name)
      return tensor;
  ADD_FAILURE() << "no tensor " << name;
  return request.tensors.front();
}

} // namespace

TEST(BlockScales, areTensorsBesideTheirs) {
  Request request =
      readGood(requestOf(kColumns, kWhole + R"(, "quantize": [{"of": "w"}])"));
  const TensorDecl &w = tensorOf(request, "w");
  ASSERT_EQ(w.states.size(), 2u);
  EXPECT_EQ(w.states[0].source, DType::F8E4M3);
  EXPECT_EQ(w.states[0].destination, DType::F8E4M3);
  EXPECT_EQ(w.states[1].source, DType::F32);
  const TensorDecl &scales = tensorOf(request, "w_scale_inv");
  EXPECT_EQ(scales.shape, (std::vector<int64_t>{8, 4}));
  ASSERT_EQ(scales.states.size(), 1u);
  EXPECT_EQ(scales.states[0].source, DType::F32);
}

TEST(BlockScales, lieAsTheirTensorDoes) {
  Request request =
      readGood(requestOf(kColumns,
                         R"("fsdp": 2, "rules": [{"match": "*", "fsdp": 0}],
         "quantize": [{"of": "w", "block": [500, 128], "scale": "s.{}"}])"));
  ASSERT_EQ(request.source.places.size(), 2u);
  const PlaceDecl &source = request.source.places.back();
  EXPECT_EQ(source.tensor, 1u);
  ASSERT_EQ(source.placement.dims.back().splits.size(), 1u);
  EXPECT_EQ(source.placement.dims.back().splits[0].axis, "tp");
  EXPECT_EQ(tensorOf(request, "s.w").shape, (std::vector<int64_t>{2, 4}));
}

TEST(BlockScales, ofViewsAreViewsOfScales) {
  Request request = readGood(requestOf(kColumns, kWhole + R"(, "views": [
         {"of": "w", "tensor": "b", "take": [[512, 1000]]},
         {"of": "w", "tensor": "a", "take": [[256, 512], [0, 256]]}],
         "quantize": [{"of": "*"}])"));
  ASSERT_EQ(request.destination.views.size(), 4u);
  const ViewDecl &b = request.destination.views[2];
  EXPECT_EQ(b.name, "b_scale_inv");
  EXPECT_EQ(b.tensor, 1u);
  EXPECT_EQ(b.view.dims[0].intervals, (std::vector<Interval>{{4, 8}}));
  const ViewDecl &a = request.destination.views[3];
  EXPECT_EQ(a.view.dims[0].intervals, (std::vector<Interval>{{2, 4}, {0, 2}}));
  EXPECT_EQ(request.destination.places.back().view, 3u);
}

TEST(BlockScales, refuseABlockThatIsCut) {
  auto wrong = [](const std::string &source, const std::string &destination) {
    return readBad(requestOf(source, destination));
  };
  EXPECT_EQ(wrong(kColumns, R"("fsdp": 2, "rules": [{"match": "*", "fsdp": 0}],
                               "quantize": [{"of": "w"}])"),
            "destination.quantize[0]: destination tensor \"w\": device 0 has "
            "[0:500) of dim 0, which cuts a block of 128");
  EXPECT_EQ(wrong(kColumns, kWhole + R"(, "quantize": [
                     {"of": "w", "block": [1000, 256]}])"),
            "destination.quantize[0]: source tensor \"w\": device 0 has "
            "[0:128) of dim 1, which cuts a block of 256");
  // The last block is short, and stands between others.
  EXPECT_EQ(wrong(kColumns, kWhole + R"(, "views": [
                     {"of": "w", "tensor": "a", "take": [[512, 1000], [0, 512]]}],
                     "quantize": [{"of": "a"}])"),
            "destination.quantize[0]: destination tensor \"a\" has [512:1000) "
            "of dim 0 of tensor \"w\", which cuts a block of 128");
}

TEST(BlockScales, haveNoPaddingInThem) {
  auto requestOf = [](const std::string &rows) {
    return R"({"model": {"tensors": [
                 {"name": "w", "shape": [)" +
           rows + R"(, 128], "dtype": "bf16"}]},
               "source": {"world": 1, "views": [
                 {"of": "w", "tensor": "w",
                  "take": [[0, )" +
           rows + R"(], {"padding": 124}]}],
                 "rules": [{"match": "*", "replicate": true}]},
               "destination": {"world": 1, "quantize": [{"of": "w",
                 "block": [4, 128]}],
                 "rules": [{"match": "*", "replicate": true}]}})";
  };
  Request request = readGood(requestOf("1000"));
  EXPECT_EQ(tensorOf(request, "w_scale_inv").shape,
            (std::vector<int64_t>{250, 1}));
  EXPECT_EQ(request.source.views.back().view.dims[0].intervals,
            (std::vector<Interval>{{0, 281}}));
  EXPECT_EQ(
      readBad(requestOf("1002")),
      "destination.quantize[0]: source tensor \"w\" has [0:1126) of dim 0 "
      "of tensor \"w\", which cuts a block of 4");
}

TEST(BlockScales, haveSquareBlocksWhereDimsChangePlaces) {
  std::string turned = kWhole + R"(, "views": [
      {"of": "w", "tensor": "t", "permute": [1, 0]}],
      "quantize": [{"of": "t", "block": )";
  Request request = readGood(requestOf(kColumns, turned + "[128, 128]}]"));
  EXPECT_EQ(tensorOf(request, "w_scale_inv").shape,
            (std::vector<int64_t>{8, 4}));
  EXPECT_EQ(readBad(requestOf(kColumns, turned + "[128, 64]}]")),
            "destination.quantize[0]: source tensor \"w\" has other rows and "
            "columns than tensor \"w\", of which blocks are made");
}

TEST(BlockScales, leaveOutWhatTheDestinationHasNot) {
  Request request = readGood(
      R"({"model": {"tensors": [
            {"name": "mtp.w", "shape": [4, 4], "dtype": "bf16"},
            {"name": "w", "shape": [4, 4], "dtype": "bf16"}]},
          "rules": [{"match": "*", "replicate": true}],
          "source": {"world": 1},
          "destination": {"world": 1, "without": ["mtp.*"],
            "quantize": [{"of": "*w", "block": [2, 2]}]}})");
  EXPECT_EQ(tensorOf(request, "mtp.w").states[0].source, DType::BF16);
  EXPECT_EQ(request.tensors.back().name, "w_scale_inv");
}
