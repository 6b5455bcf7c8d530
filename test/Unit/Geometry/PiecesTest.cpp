// Row classes: counts on regular rows, round trip on all.

#include "dt/Geometry/Pieces.h"

#include "RandomGeometry.h"

#include <algorithm>

using namespace dt;
using namespace dt::test;

namespace {

std::vector<Row> sortedRows(const std::vector<int64_t> &rows,
                            unsigned numColumns) {
  std::vector<Row> sorted;
  for (size_t i = 0; i < rows.size(); i += numColumns)
    sorted.emplace_back(rows.begin() + i, rows.begin() + i + numColumns);
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

/// The 96 pieces of a TP 4 -> 2 change of a column-parallel weight on 8
/// replicas and 3 stages: (stage, source, destination, offset, size).
std::vector<int64_t> regularRows() {
  std::vector<int64_t> rows;
  for (int64_t stage = 0; stage < 3; ++stage)
    for (int64_t replica = 0; replica < 8; ++replica)
      for (int64_t to = 0; to < 2; ++to)
        for (int64_t part = 0; part < 2; ++part)
          for (int64_t value :
               {stage, 4 * replica + 2 * to + part, 100 + 2 * replica + to,
                1024 * (2 * to + part), int64_t(1024)})
            rows.push_back(value);
  return rows;
}

TEST(PiecesTest, regularPiecesAreOneClass) {
  RowSet set = compressRows(regularRows(), 5);
  EXPECT_EQ(set.numRows(), 96);
  ASSERT_EQ(set.classes.size(), 1u);
  EXPECT_EQ(set.classes[0].size(), 96);
  EXPECT_TRUE(set.table.empty());
  EXPECT_EQ(expandRows(set), regularRows());
}

TEST(PiecesTest, interleavedKindsAreAClassEach) {
  // Head, body and tail of a flat range, member by member.
  std::vector<int64_t> rows;
  for (int64_t member = 0; member < 50; ++member)
    for (std::pair<int64_t, int64_t> part :
         {std::pair<int64_t, int64_t>{0, 3}, {1, 700}, {9, 11}})
      rows.insert(rows.end(), {member, part.first, part.second});
  RowSet set = compressRows(rows, 3);
  EXPECT_LE(set.classes.size(), 3u);
  EXPECT_TRUE(set.table.empty());
  EXPECT_EQ(sortedRows(expandRows(set), 3), sortedRows(rows, 3));
}

TEST(PiecesTest, runsThatTakeTurnsJoin) {
  // Of two kinds, neither of which sorting brings together.
  std::vector<int64_t> rows;
  for (int64_t member = 0; member < 40; ++member) {
    for (int64_t i = 0; i < 6; ++i)
      rows.insert(rows.end(), {member * 7 % 40, 100 - 3 * i, 5 * member});
    for (int64_t i = 0; i < 5; ++i)
      rows.insert(rows.end(), {member, 7 + 2 * i, 2 * member - i});
  }
  RowSet set = compressRows(rows, 3);
  EXPECT_LE(set.classes.size(), 4u);
  EXPECT_TRUE(set.table.empty());
  EXPECT_EQ(sortedRows(expandRows(set), 3), sortedRows(rows, 3));
}

TEST(PiecesTest, pairsBehindIrregularRowsAreAClass) {
  std::vector<int64_t> rows = {1000, 5, 1010, 9, 1003, 2, 1017, 30, 1100, 4};
  for (int64_t i = 0; i < 20; ++i)
    rows.insert(rows.end(), {7 * i, 3 * i, 7 * i + 1, 3 * i + 100});
  RowSet set = compressRows(rows, 2);
  ASSERT_EQ(set.classes.size(), 1u);
  EXPECT_EQ(set.classes[0].size(), 40);
  EXPECT_EQ(sortedRows(expandRows(set), 2), sortedRows(rows, 2));
}

TEST(PiecesTest, columnsOfFewValuesAreSortedFirst) {
  std::vector<int64_t> rows; // two kinds, mixed
  for (int64_t i = 0; i < 40; ++i) {
    int64_t n = i * 7 % 40, m = i * 11 % 40;
    rows.insert(rows.end(), {5 * n, 0, n});
    rows.insert(rows.end(), {100 - 3 * m, 1, 2 * m});
  }
  RowSet set = compressRows(rows, 3);
  EXPECT_EQ(set.classes.size(), 2u);
  EXPECT_TRUE(set.table.empty());
}

TEST(PiecesTest, fewRowsStayInTheTable) {
  RowSet set = compressRows({1, 2, 3}, 1);
  EXPECT_TRUE(set.classes.empty());
  EXPECT_EQ(set.table, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(compressRows({1, 2, 3}, 1, 2).classes.size(), 0u);
  EXPECT_EQ(compressRows({1, 2, 3, 4}, 1).classes.size(), 1u);
  EXPECT_EQ(compressRows({}, 3).numRows(), 0);
}

TEST(PiecesTest, equalRowsAreKept) {
  RowSet set = compressRows({5, 5, 5, 5, 5}, 1);
  EXPECT_EQ(set.numRows(), 5);
  EXPECT_EQ(expandRows(set), (std::vector<int64_t>{5, 5, 5, 5, 5}));
}

TEST(PiecesTest, anIrregularRowDoesNotSpoilTheRest) {
  std::vector<int64_t> rows = regularRows();
  std::vector<int64_t> odd = {9, 77, 5, 31, 8};
  rows.insert(rows.begin() + 5 * 40, odd.begin(), odd.end());
  RowSet set = compressRows(rows, 5);
  EXPECT_LE(set.classes.size(), 8u);
  EXPECT_EQ(sortedRows(expandRows(set), 5), sortedRows(rows, 5));
}

TEST(PiecesTest, expandsTheSameRows) {
  Random random;
  for (int round = 0; round < 300; ++round) {
    unsigned numColumns = random.number(1, 4);
    std::vector<int64_t> rows;
    // A few grids of random steps, and noise between them.
    for (int64_t grids = random.number(0, 4); grids > 0; --grids) {
      Row base(numColumns), outer(numColumns), inner(numColumns);
      for (unsigned c = 0; c < numColumns; ++c) {
        base[c] = random.number(-50, 50);
        outer[c] = random.number(-9, 9);
        inner[c] = random.number(-2, 2);
      }
      int64_t numOuter = random.number(1, 6), numInner = random.number(1, 6);
      for (int64_t i = 0; i < numOuter; ++i)
        for (int64_t j = 0; j < numInner; ++j)
          for (unsigned c = 0; c < numColumns; ++c)
            rows.push_back(base[c] + i * outer[c] + j * inner[c]);
      if (random.chance(50))
        for (unsigned c = 0; c < numColumns; ++c)
          rows.push_back(random.number(-50, 50));
    }
    int64_t minClassSize = random.number(1, 6);
    RowSet set = compressRows(rows, numColumns, minClassSize);
    EXPECT_EQ(set.numRows(), int64_t(rows.size() / numColumns));
    EXPECT_EQ(sortedRows(expandRows(set), numColumns),
              sortedRows(rows, numColumns));
    for (const RowClass &rowClass : set.classes)
      EXPECT_GE(rowClass.size(), minClassSize);
  }
}

} // namespace
