// Attributes to plain structs and back; one spelling per meaning; a million
// rows through text.

#include "dt/Dialect/Ops.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace dt;

namespace {

class DialectTest : public ::testing::Test {
protected:
  DialectTest() { context.loadDialect<DTDialect>(); }

  std::string print(mlir::Attribute attr) {
    std::string text;
    llvm::raw_string_ostream os(text);
    attr.print(os);
    return text;
  }

  mlir::MLIRContext context;
};

TEST_F(DialectTest, PiecesKeepTheirRows) {
  RowSet rows;
  rows.numColumns = 4;
  rows.classes.push_back({{0, 4, 8, 2}, {2, 3}, {{1, 0, 16, 0}, {0, 1, 2, 0}}});
  rows.table = {7, 8, 0, 1};
  PiecesAttr pieces = PiecesAttr::get(&context, rows, /*rank=*/1);
  EXPECT_EQ(pieces.numPieces(), 7);
  EXPECT_EQ(pieces.numElements(), 13);
  RowSet back = pieces.toRowSet();
  EXPECT_EQ(expandRows(back), expandRows(rows));
  std::vector<int64_t> visited;
  pieces.forEach([&](int64_t from, int64_t to, const Box &box) {
    visited.insert(visited.end(), {from, to, box[0].lo, box[0].size()});
  });
  EXPECT_EQ(visited, expandRows(rows));
  EXPECT_EQ(print(pieces),
            "#dt.pieces<[i: 2, j: 3] from i to j + 4 at [i * 16 + j * 2 + 8] "
            "size [2], from 7 to 8 at [0] size [1]>");
  EXPECT_EQ(mlir::parseAttribute(print(pieces), &context), pieces);
}

TEST_F(DialectTest, ClassOfOneRowIsARow) {
  RowSet single, table;
  single.numColumns = table.numColumns = 4;
  single.classes.push_back({{0, 0, 1, 2}, {1}, {{5, 5, 5, 5}}});
  table.table = {0, 0, 1, 2};
  EXPECT_EQ(PiecesAttr::get(&context, single, 1),
            PiecesAttr::get(&context, table, 1));
}

TEST_F(DialectTest, RowBoundsAndDistinctValues) {
  RowSet rows;
  rows.numColumns = 2;
  rows.classes.push_back({{10, 0}, {3, 2}, {{-4, 1}, {0, 5}}});
  rows.table = {3, 99};
  RowsAttr attr = RowsAttr::get(&context, rows);
  Row lo, hi;
  ASSERT_TRUE(attr.bounds(lo, hi));
  EXPECT_EQ(lo, (Row{2, 0}));
  EXPECT_EQ(hi, (Row{10, 99}));
  EXPECT_EQ(attr.distinct(0), (std::vector<int64_t>{2, 3, 6, 10}));
}

TEST_F(DialectTest, MillionRowsPassThroughText) {
  RowSet rows;
  rows.numColumns = 6;
  constexpr int64_t numRows = 1000000;
  for (int64_t i = 0; i < numRows; ++i)
    rows.table.insert(rows.table.end(), {i % 64, i % 63, i * i % 4096,
                                         i * 7919 % 8192, 1 + i % 3, 1});
  PiecesAttr pieces = PiecesAttr::get(&context, rows, /*rank=*/2);
  EXPECT_EQ(pieces.numPieces(), numRows);
  EXPECT_EQ(mlir::parseAttribute(print(pieces), &context), pieces);
}

TEST_F(DialectTest, PlacementKeepsEveryField) {
  Placement placement;
  placement.dims.resize(2);
  placement.dims[0].splits = {{"pp", {0, 2, 4, 8}, {0, 1, 0}, {}, false}};
  placement.dims[1].splits = {{"tp", {}, {}, {4, 8}, false},
                              {"fsdp", {}, {}, {}, true}};
  placement.dims[1].extent = 128;
  placement.at = {{"cp", {0, 2}}};
  placement.flatAxes = {"dp"};
  PlacementAttr attr = PlacementAttr::get(&context, placement);
  EXPECT_EQ(print(attr),
            "#dt.placement<[{\"pp\" cuts [0, 2, 4, 8] owners [0, 1, 0]}, "
            "{\"tp\" blocks [4, 8], \"fsdp\" chunk} extent 128] at {\"cp\" = "
            "[0, 2]} flat [\"dp\"]>");
  EXPECT_EQ(PlacementAttr::get(&context, attr.toGeometry()), attr);
  EXPECT_EQ(mlir::parseAttribute(print(attr), &context), attr);
}

TEST_F(DialectTest, MeshDropsTheIdentity) {
  Mesh mesh;
  mesh.axes = {{"pp", 2}, {"tp", 1}};
  mesh.devices = {0, 1};
  MeshAttr attr = MeshAttr::get(&context, mesh);
  EXPECT_EQ(print(attr), "#dt.mesh<[\"pp\"=2, \"tp\"=1]>");
  mesh.devices = {1, 0};
  MeshAttr swapped = MeshAttr::get(&context, mesh);
  EXPECT_EQ(swapped.toGeometry().devices, mesh.devices);
  EXPECT_NE(swapped, attr);
}

TEST_F(DialectTest, ShardsKeepRanges) {
  std::vector<RankBox> boxes;
  for (int64_t rank = 0; rank < 8; ++rank)
    boxes.push_back({rank, Box::fromOffsetSize({rank * 4, 0}, {4, 6}), {}});
  boxes.push_back({8, Box::fromOffsetSize({0, 0}, {4, 6}), Interval{0, 5}});
  ShardsAttr attr = ShardsAttr::get(&context, boxes, /*rank=*/2);
  std::vector<RankBox> back = attr.toGeometry();
  ASSERT_EQ(back.size(), boxes.size());
  for (size_t i = 0; i < boxes.size(); ++i) {
    EXPECT_EQ(back[i].rank, boxes[i].rank);
    EXPECT_EQ(back[i].box, boxes[i].box);
    EXPECT_EQ(back[i].range, boxes[i].range);
  }
  EXPECT_EQ(print(attr), "#dt.shards<[i: 8] rank i at [i * 4, 0] size [4, 6], "
                         "rank 8 at [0, 0] size [4, 6] range [0, 5]>");
}

TEST_F(DialectTest, ShardAndViewKeepEveryField) {
  Shard shard;
  shard.dims = {{{0, 3}}, {{2, 4}, {8, 9}}};
  shard.numLeading = 1;
  shard.range = Interval{1, 3};
  EXPECT_EQ(ShardAttr::get(&context, shard).toGeometry(), shard);
  Box box = Box::fromOffsetSize({1, 2}, {3, 4});
  EXPECT_EQ(ViewAttr::get(&context, box, {}).toBox(), box);
}

TEST_F(DialectTest, StatesMaskAndBytes) {
  auto states = llvm::cast<StatesAttr>(mlir::parseAttribute(
      "#dt.states<param = bf16, master = f32, step = i64>", &context));
  mlir::Builder builder(&context);
  EXPECT_EQ(states.mask({}), 7u);
  EXPECT_EQ(states.mask(builder.getStrArrayAttr({"step", "param"})), 5u);
  EXPECT_EQ(states.wireBytes(5), 10);
}

TEST_F(DialectTest, ClusterPrintsShortNumbers) {
  Cluster cluster;
  cluster.interNodeGBps = 0.1;
  cluster.latencyUs = 1e-7;
  mlir::Attribute attr = ClusterAttr::get(&context, cluster);
  EXPECT_EQ(print(attr), "#dt.cluster<8 per node, intra 200.0, inter 0.1, "
                         "latency 1.0e-07>");
  EXPECT_EQ(mlir::parseAttribute(print(attr), &context), attr);
}

TEST_F(DialectTest, ClusterIsThePlansCluster) {
  Cluster cluster;
  cluster.devicesPerNode = 4;
  cluster.intraNodeGBps = 0.3;
  cluster.latencyUs = 15;
  cluster.links = {{{true, 0}, {false, 9}, 12.5}, {{false, 1}, {true, 2}, 0.7}};
  cluster.devicesPerNic = 2;
  cluster.pxn = true;
  cluster.launchUs = 5;
  cluster.channelsPerPeer = 2;
  cluster.interChannelGBps = 0.6;
  cluster.relays = true;
  cluster.collectives = dtrt::CollectiveChoice::Library;
  cluster.multicastUs = 4;
  cluster.copyEngineUs = 2.5;
  auto attr = ClusterAttr::get(&context, cluster);
  EXPECT_EQ(attr, ClusterAttr::get(&context, attr.toCluster()));
  EXPECT_EQ(attr.toCluster().links, cluster.links);
  EXPECT_TRUE(attr.toCluster().pxn);
  EXPECT_TRUE(attr.toCluster().relays);
  EXPECT_EQ(attr.toCluster().collectives, dtrt::CollectiveChoice::Library);
  EXPECT_EQ(attr.toCluster().launchUs, 5);
  EXPECT_EQ(attr.toCluster().multicastUs, 4);
  EXPECT_EQ(attr.toCluster().copyEngineUs, 2.5);
  EXPECT_EQ(attr.toCluster().bytesPerSecond(1, 9), 0.7e9);
  EXPECT_EQ(attr.toCluster().bytesPerSecond(0, 9), 1.2e9);
  EXPECT_EQ(mlir::parseAttribute(print(attr), &context), attr);
  cluster.links[1].GBps = 0.8;
  EXPECT_NE(attr, ClusterAttr::get(&context, cluster));
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

constexpr const char *kModule = R"mlir(
dt.space @model {
  dt.param @w [4, 8] of <param = bf16> named "layers.{}.w{}" [0 step 2, 5]
  dt.param @v [4, 8] of <param = bf16>
  dt.param @u [4, 7] of <param = bf16>
}
dt.mesh @m <["pp"=2, "tp"=2], devices=[8, 9, 4, 5]>
dt.layout @l of @model on [@m] world 4 {
  dt.place @v [{"tp"}, {}]
  dt.place @w shards rank 3 at [0, 0] size [4, 8], rank 2 at [0, 0] size [4, 8]
  dt.place @u [{}, {"pp" chunk, "tp"}]
}
)mlir";

TEST_F(DialectTest, HoldingsNameDevices) {
  auto module = mlir::parseSourceString<mlir::ModuleOp>(kModule, &context);
  ASSERT_TRUE(module);
  mlir::SymbolTableCollection tables;
  auto layout = *module->getOps<LayoutOp>().begin();
  auto places = llvm::to_vector(layout.getOps<PlaceOp>());
  auto cut = places[0].evaluate(tables);
  ASSERT_TRUE(mlir::succeeded(cut));
  ASSERT_EQ(cut->size(), 2u);
  EXPECT_EQ((*cut)[0].devices, (std::vector<int64_t>{4, 8}));
  EXPECT_EQ((*cut)[1].devices, (std::vector<int64_t>{5, 9}));
  auto rows = places[1].evaluate(tables);
  ASSERT_TRUE(mlir::succeeded(rows));
  ASSERT_EQ(rows->size(), 1u);
  EXPECT_EQ((*rows)[0].devices, (std::vector<int64_t>{4, 5}));
  EXPECT_EQ((*rows)[0].shard.numLeading, 2u);
}

TEST_F(DialectTest, HoldingsThatDoNotFitAreAnError) {
  auto module = mlir::parseSourceString<mlir::ModuleOp>(kModule, &context);
  ASSERT_TRUE(module);
  mlir::SymbolTableCollection tables;
  auto layout = *module->getOps<LayoutOp>().begin();
  auto places = llvm::to_vector(layout.getOps<PlaceOp>());
  std::string message;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &d) {
    message = d.str();
    return mlir::success();
  });
  EXPECT_TRUE(mlir::failed(places[2].evaluate(tables)));
  EXPECT_NE(message.find("does not fit @u"), std::string::npos) << message;
}

TEST_F(DialectTest, MembersHaveTheirOwnNames) {
  auto module = mlir::parseSourceString<mlir::ModuleOp>(kModule, &context);
  ASSERT_TRUE(module);
  auto space = *module->getOps<SpaceOp>().begin();
  auto params = llvm::to_vector(space.getOps<ParamOp>());
  EXPECT_EQ(params[0].numMembers(), 32);
  EXPECT_EQ(params[0].memberName({3, 1}), "layers.6.w6");
  EXPECT_EQ(params[1].memberName({}), "v");
}

} // namespace
