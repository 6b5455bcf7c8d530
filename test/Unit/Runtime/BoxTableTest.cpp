//===- BoxTableTest.cpp - The GPU's index arithmetic, on the CPU ----------===//
//
// What a table of strided copies moves is what the CPU's own packing moves, for
// every unit width and alignment.
//
//===----------------------------------------------------------------------===//

#include "FirstOf.h"
#include "PlanBuilder.h"

#include "dtrt/core/ArenaStorage.h"
#include "dtrt/core/BoxCopy.h"
#include "dtrt/core/BoxTable.h"
#include "dtrt/core/CheckPattern.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// Packs and unpacks every segment of the device's packs both ways.
void comparePacks(const TestPlan &plan, const RankProgram &program,
                  size_t misalignment) {
  auto storage = ArenaStorage::allocate(plan.common, program);
  ASSERT_TRUE(storage.ok()) << storage.status().message();
  for (uint32_t i = 0; i < program.source.size(); ++i)
    fillSource(**storage, i);
  for (const Instruction &instruction : program.instructions)
    for (const Segment &segment : instruction.segments) {
      if (instruction.op != Opcode::Pack)
        continue;
      auto prepared = prepareSegment(plan.common, program, segment);
      ASSERT_TRUE(prepared.ok()) << prepared.status().message();
      std::vector<std::byte> expected(prepared->bytes);
      std::vector<std::byte> room(prepared->bytes + misalignment);
      std::byte *found = room.data() + misalignment;
      ASSERT_TRUE(pack(*prepared, **storage, expected.data()).ok());
      BoxTable table;
      ASSERT_TRUE(table.addPack(*prepared, **storage, found).ok());
      table.runOnHost();
      EXPECT_EQ(memcmp(found, expected.data(), expected.size()), 0);
      // Zero the box, bring it back from the packed bytes, pack it again.
      BoxTable zero, back;
      ASSERT_TRUE(zero.addFill(*prepared, **storage).ok());
      zero.runOnHost();
      ASSERT_TRUE(back.addUnpack(*prepared, **storage, found).ok());
      back.runOnHost();
      std::vector<std::byte> again(prepared->bytes);
      ASSERT_TRUE(pack(*prepared, **storage, again.data()).ok());
      EXPECT_EQ(again, expected);
    }
}

TEST(BoxTable, MovesWhatPackingMoves) {
  TestPlan plan = reshapePlan();
  for (const RankProgram &program : plan.programs)
    for (size_t misalignment : {0, 1, 2, 6, 8})
      comparePacks(plan, program, misalignment);
}

/// A random box of up to four dims in two row-major arrays, with gaps; some
/// dims lie the other way round at the destination.
struct RandomBox {
  std::vector<int64_t> sizes, from, to;
  int64_t fromElements = 1, toElements = 1; // of the arrays
};

int64_t addStrides(std::vector<int64_t> &strides, const RandomBox &box,
                   std::vector<size_t> order, std::mt19937_64 &random) {
  strides.resize(box.sizes.size());
  int64_t stride = 1;
  for (size_t dim : order) {
    strides[dim] = stride;
    stride *= box.sizes[dim] + int64_t(random() % 3);
  }
  return stride;
}

RandomBox randomBox(std::mt19937_64 &random) {
  RandomBox box;
  std::vector<size_t> order;
  for (size_t dim = random() % 5; dim-- > 0;)
    order.push_back(dim);
  for (size_t i = 0; i < order.size(); ++i)
    box.sizes.push_back(int64_t(1 + random() % 13));
  box.fromElements = addStrides(box.from, box, order, random);
  if (random() % 3 == 0)
    std::shuffle(order.begin(), order.end(), random);
  box.toElements = addStrides(box.to, box, order, random);
  return box;
}

TEST(BoxTable, MovesRandomBoxesOfEveryDType) {
  uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const DType floats[] = {DType::F64, DType::F32, DType::F16, DType::BF16};
  const DType others[] = {DType::I64, DType::I32, DType::I16, DType::U8};
  for (int round = 0; round < 3000; ++round) {
    RandomBox box = randomBox(random);
    DType fromType = floats[random() % 4], toType = floats[random() % 4];
    if (random() % 4 == 0)
      fromType = toType = others[random() % 4];
    size_t skew = random() % 3 ? 0 : 1 + random() % 15;
    size_t fromBytes = size_t(box.fromElements * byteWidth(fromType)) + 16;
    size_t toBytes = size_t(box.toElements * byteWidth(toType)) + 16;
    std::vector<std::byte> from(fromBytes), to(toBytes), expected(toBytes);
    for (std::byte &byte : from)
      byte = std::byte(random());
    for (size_t i = 0; i < toBytes; ++i)
      to[i] = expected[i] = std::byte(random());
    StridedCopy copy =
        makeStridedCopy(box.sizes, box.from, box.to, fromType, toType);
    copy(expected.data() + skew, from.data() + skew);
    BoxTable table;
    table.add(to.data() + skew, from.data() + skew, copy);
    table.runOnHost();
    ASSERT_EQ(to, expected) << dtypeName(fromType) << " to "
                            << dtypeName(toType) << ", round " << round;
    BoxTable zeros;
    zeros.add(to.data() + skew, nullptr, copy);
    zeros.runOnHost();
    std::vector<std::byte> nothing(fromBytes);
    copy(expected.data() + skew, nothing.data() + skew);
    ASSERT_EQ(to, expected) << "zeros, round " << round;
  }
}

/// Elements of each width, at any address: what the CPU fills.
TEST(BoxTable, FillsWhatPaddingIs) {
  for (auto [width, bits] :
       std::vector<std::pair<int64_t, uint64_t>>{{1, 0xf0},
                                                 {2, 0xff80},
                                                 {4, 0xbf800000},
                                                 {8, 0x0123456789abcdef},
                                                 {2, 0xffff},
                                                 {4, 0}}) {
    DType type = width == 1   ? DType::U8
                 : width == 2 ? DType::BF16
                 : width == 4 ? DType::F32
                              : DType::I64;
    TestPlan plan = filledPlan();
    plan.common.families[1].states = {{"param", type, type}};
    plan.common.views[0].fill = {bits};
    const RankProgram &program = plan.programs[1];
    for (size_t skew = 0; skew < 16; ++skew) {
      LocalStorage storage(plan.common, program);
      std::vector<std::byte> found(256, std::byte(1)), expected = found;
      auto fill = [&](std::vector<std::byte> &bytes, auto run) {
        storage.bind(Side::Destination, 1, 0, 0, bytes.data() + skew);
        auto prepared = prepareSegment(
            plan.common, program, firstOf(plan, 1, Opcode::Zero).segments[0]);
        ASSERT_TRUE(prepared.ok()) << prepared.status().message();
        ASSERT_TRUE(run(*prepared).ok());
      };
      fill(expected, [&](const PreparedSegment &segment) {
        return fillPadding(segment, storage);
      });
      fill(found, [&](const PreparedSegment &segment) {
        BoxTable table;
        Status added = table.addFill(segment, storage);
        table.runOnHost();
        return added;
      });
      ASSERT_EQ(found, expected) << width << " bytes at " << skew;
      // Two rows of four behind four of data.
      uint64_t last = 0;
      memcpy(&last, found.data() + skew + 23 * width, size_t(width));
      EXPECT_EQ(last, bits) << width << " bytes at " << skew;
      EXPECT_EQ(found[size_t(skew + 16 * width) - 1], std::byte(1));
      EXPECT_EQ(found[size_t(skew + 24 * width)], std::byte(1));
    }
  }
}

/// Rows of one side are columns of the other, in more than one tile of the
/// CPU's own copies.
TEST(BoxTable, MovesTransposedMatrices) {
  std::mt19937_64 random(5);
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{70, 45},
                               {32, 64},
                               {33, 1},
                               {1, 100},
                               {3, 200}})
    for (DType type : {DType::U8, DType::BF16, DType::F32, DType::F64}) {
      auto width = size_t(byteWidth(type));
      auto bytes = size_t(2 * rows * columns) * width;
      std::vector<std::byte> from(bytes), to(bytes), expected(bytes);
      for (std::byte &byte : from)
        byte = std::byte(random());
      StridedCopy copy =
          makeStridedCopy({2, rows, columns}, {rows * columns, columns, 1},
                          {rows * columns, 1, rows}, type, type);
      for (int64_t m = 0; m < 2; ++m)
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < columns; ++j)
            memcpy(&expected[size_t((m * columns + j) * rows + i) * width],
                   &from[size_t((m * rows + i) * columns + j) * width], width);
      copy(to.data(), from.data());
      ASSERT_EQ(to, expected) << rows << " x " << columns;
      BoxTable table;
      std::fill(to.begin(), to.end(), std::byte(0));
      table.add(to.data(), from.data(), copy);
      table.runOnHost();
      ASSERT_EQ(to, expected) << rows << " x " << columns;
    }
}

/// Large enough that the CPU's own copies go past the cache; an odd number of
/// runs, which may be stored in pairs.
TEST(BoxTable, MovesWhatLargeCopiesMove) {
  std::mt19937_64 random(11);
  std::vector<std::byte> from(1 << 20), to(1 << 20), expected(1 << 20);
  for (std::byte &byte : from)
    byte = std::byte(random());
  for (int64_t run : {8, 16, 48, 64, 200, 256, 1000, 1024, 4096, 5003})
    for (int64_t gap : {0, 24, 64})
      for (size_t skew : {0, 1, 8, 64}) {
        StridedCopy copy;
        copy.run = run;
        copy.dims.push_back(
            {((int64_t(5) << 17) / (run + 64)) | 1, run + 64, run + gap});
        copy(expected.data() + skew, from.data() + 2 * skew);
        BoxTable table;
        table.add(to.data() + skew, from.data() + 2 * skew, copy);
        table.runOnHost();
        ASSERT_EQ(to, expected)
            << "run " << run << ", gap " << gap << ", skew " << skew;
      }
}

/// Small ones are enumerated with what stands at their multiples.
TEST(BoxTable, DividesExactly) {
  std::mt19937_64 random(5);
  std::vector<uint32_t> divisors = {UINT32_MAX, UINT32_MAX - 1, 1u << 31,
                                    (1u << 31) + 1, 1u << 16};
  for (uint32_t i = 1; i < 300; ++i)
    divisors.push_back(i);
  for (int i = 0; i < 300; ++i)
    divisors.push_back(uint32_t(random() >> (32 + random() % 30)) | 1);
  for (uint32_t by : divisors) {
    Divisor divisor(by);
    std::vector<uint32_t> numbers = {0, 1, by - 1, by, UINT32_MAX};
    for (int i = 0; i < 50; ++i) {
      auto number = uint32_t(random());
      uint32_t multiple = number / by * by;
      numbers.insert(numbers.end(), {number, multiple, multiple - 1});
    }
    for (uint32_t number : numbers)
      ASSERT_EQ(divisor.divide(number), number / by) << number << " / " << by;
  }
}

/// Rows of one tile and of many; blocks with many tiles, one, or none.
TEST(BoxTable, BlocksShareAllTiles) {
  std::mt19937_64 random(6);
  std::vector<std::byte> from(1 << 20), to(1 << 20), expected(1 << 20);
  for (std::byte &byte : from)
    byte = std::byte(random());
  BoxTable table;
  size_t at = 0;
  for (StridedCopy copy; at + (1 << 18) < to.size(); at += size_t(copy.run)) {
    copy.run = int64_t(random() % 8 ? random() % 1000 : random() % (1 << 18));
    table.add(to.data() + at, from.data() + at, copy);
    std::copy_n(from.data() + at, copy.run, expected.data() + at);
  }
  for (uint32_t blocks : {1u, 2u, 3u, 7u, 64u, uint32_t(table.tiles()),
                          uint32_t(table.tiles()) + 5}) {
    std::fill(to.begin(), to.end(), std::byte(0));
    table.runOnHost(blocks);
    ASSERT_EQ(to, expected) << blocks << " blocks";
  }
}

TEST(BoxTable, AppendedCopiesKeepTheirTiles) {
  std::vector<std::byte> from(1 << 14), to(1 << 14), expected(1 << 14);
  for (size_t i = 0; i < from.size(); ++i)
    from[i] = expected[i] = std::byte(i % 251);
  BoxTable first, second;
  StridedCopy copy;
  copy.run = 5000; // units of 8 bytes
  first.add(to.data(), from.data(), copy);
  copy.run = int64_t(from.size()) - 5000;
  second.add(to.data() + 5000, from.data() + 5000, copy);
  first.append(second);
  EXPECT_EQ(first.copies().size(), 2u);
  first.runOnHost();
  EXPECT_EQ(to, expected);
}

TEST(BoxTable, TakesTheWidestUnit) {
  alignas(16) static std::byte from[1 << 12], to[1 << 12];
  for (size_t i = 0; i < sizeof from; ++i)
    from[i] = std::byte(i * 7 + i / 256);
  struct Case {
    size_t offset;
    int64_t run;
    uint32_t unit;
  };
  for (const Case &c : {Case{0, 32, 16}, Case{8, 32, 8}, Case{0, 24, 8},
                        Case{4, 12, 4}, Case{2, 6, 2}, Case{1, 7, 1}}) {
    BoxTable table;
    StridedCopy copy;
    copy.run = c.run;
    copy.dims = {{4, 512, 256}, {5, 64, 48}};
    table.add(to + c.offset, from + c.offset, copy);
    ASSERT_EQ(table.copies().size(), 1u);
    EXPECT_EQ(table.copies()[0].toUnit, c.unit);
    memset(to, 0, sizeof to);
    table.runOnHost();
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t j = 0; j < 5; ++j)
        EXPECT_EQ(memcmp(to + c.offset + i * 256 + j * 48,
                         from + c.offset + i * 512 + j * 64, size_t(c.run)),
                  0);
  }
}

TEST(BoxTable, SplitsWhatIndicesCannotHold) {
  // Never run: 8 GiB of single bytes.
  BoxTable table;
  std::byte byte;
  StridedCopy copy;
  copy.run = 1;
  copy.dims = {{int64_t(1) << 33, 3, 1}};
  table.add(&byte, &byte, copy);
  uint64_t units = 0;
  for (const BoxCopy &copy : table.copies())
    units += copy.units;
  EXPECT_GT(table.copies().size(), 1u);
  EXPECT_EQ(units, uint64_t(1) << 33);
}

TEST(BoxTable, FindsTheCopyOfEveryTile) {
  std::vector<std::byte> from(1 << 16), to(1 << 16);
  BoxTable table;
  for (int64_t run : {1, 5, 40000, 1, 17000}) {
    StridedCopy copy;
    copy.run = run;
    table.add(to.data() + 1, from.data(), copy);
  }
  for (uint32_t i = 0; i < table.copies().size(); ++i)
    for (uint64_t tile = table.copies()[i].firstTile;
         tile < (i + 1 < table.copies().size() ? table.copies()[i + 1].firstTile
                                               : table.tiles());
         ++tile)
      EXPECT_EQ(copyOfTile(table.copies().data(),
                           uint32_t(table.copies().size()), tile),
                i);
}

} // namespace
