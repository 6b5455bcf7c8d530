//===- Pieces.cpp - Families of rows as affine classes --------------------===//

#include "dt/Geometry/Pieces.h"

#include <algorithm>

namespace dt {

namespace {

constexpr uint32_t kNone = UINT32_MAX;
/// Of a table of shapes, at first: most lists of rows are short.
constexpr size_t kFewSlots = 16;

/// `count` shapes `inner`, each `step` after the one before. Shape 0 is a
/// single row. Shapes are numbered by content.
struct Shape {
  uint32_t inner = 0;
  uint32_t depth = 0;
  int64_t count = 1;
  int64_t size = 1; // rows
};

class ShapeTable {
public:
  explicit ShapeTable(unsigned numColumns)
      : numColumns(numColumns), shapes(1), steps(numColumns),
        slots(kFewSlots, kNone) {}

  const Shape &operator[](uint32_t shape) const { return shapes[shape]; }
  const int64_t *step(uint32_t shape) const {
    return steps.data() + size_t(shape) * numColumns;
  }

  /// The number of the shape of `count` shapes `inner` with a step of b - a.
  uint32_t number(uint32_t inner, int64_t count, const int64_t *a,
                  const int64_t *b) {
    uint32_t candidate = uint32_t(shapes.size());
    Shape shape = {inner, shapes[inner].depth + 1, count,
                   count * shapes[inner].size};
    shapes.push_back(shape);
    for (unsigned c = 0; c < numColumns; ++c)
      steps.push_back(b[c] - a[c]);
    if (shapes.size() * 2 > slots.size())
      grow();
    uint32_t &slot = find(candidate);
    if (slot == kNone)
      return slot = candidate;
    shapes.pop_back();
    steps.resize(steps.size() - numColumns);
    return slot;
  }

private:
  bool same(uint32_t a, uint32_t b) const {
    return shapes[a].inner == shapes[b].inner &&
           shapes[a].count == shapes[b].count &&
           std::equal(step(a), step(a) + numColumns, step(b));
  }

  uint64_t hash(uint32_t shape) const {
    uint64_t hash = shapes[shape].inner * 0x9e3779b97f4a7c15u;
    auto mix = [&](uint64_t value) {
      hash = (hash ^ value) * 0xff51afd7ed558ccdu;
      hash ^= hash >> 32;
    };
    mix(uint64_t(shapes[shape].count));
    for (unsigned c = 0; c < numColumns; ++c)
      mix(uint64_t(step(shape)[c]));
    return hash;
  }

  /// The slot of a shape equal to `shape`, or the free one to put it in.
  uint32_t &find(uint32_t shape) {
    size_t mask = slots.size() - 1;
    for (size_t at = hash(shape) & mask;; at = (at + 1) & mask)
      if (slots[at] == kNone || same(slots[at], shape))
        return slots[at];
  }

  void grow() {
    std::vector<uint32_t> old(slots.size() * 2, kNone);
    old.swap(slots);
    for (uint32_t shape : old)
      if (shape != kNone)
        find(shape) = shape;
  }

  unsigned numColumns;
  std::vector<Shape> shapes;
  std::vector<int64_t> steps;
  std::vector<uint32_t> slots;
};

/// A run of rows: the first one and the shape.
struct Item {
  uint32_t row = 0;
  uint32_t shape = 0;
};

/// Finds the classes of a list of rows.
class Compression {
public:
  Compression(const std::vector<int64_t> &rows, unsigned numColumns)
      : rows(rows), numColumns(numColumns), shapes(numColumns) {}

  /// Appends the classes of the rows, taken as they stand, to `out.classes` and
  /// the rows that found none to `out.table`.
  void compress(int64_t minClassSize, RowSet &out);

private:
  const int64_t *row(uint32_t index) const {
    return rows.data() + size_t(index) * numColumns;
  }

  /// True when c follows b as b follows a.
  bool inStep(const Item &a, const Item &b, const Item &c) const {
    const int64_t *x = row(a.row), *y = row(b.row), *z = row(c.row);
    for (unsigned i = 0; i < numColumns; ++i)
      if (y[i] - x[i] != z[i] - y[i])
        return false;
    return true;
  }

  std::vector<uint8_t> findSteps(const std::vector<Item> &items) const;
  bool joinRuns(std::vector<Item> &items);
  bool isWorthwhile(const Item &item, int64_t minClassSize) const;
  bool groupByShape(std::vector<Item> &items) const;
  void appendRows(uint32_t shape, Row &base, std::vector<int64_t> &out) const;
  RowClass classOf(const Item &item) const;

  const std::vector<int64_t> &rows;
  unsigned numColumns;
  ShapeTable shapes;
};

/// Whether each item has the shape of the one before it, and follows that as it
/// follows the one before.
std::vector<uint8_t>
Compression::findSteps(const std::vector<Item> &items) const {
  std::vector<uint8_t> goesOn(items.size()); // no bits: they are many
  for (size_t i = 2; i < items.size(); ++i)
    goesOn[i] = items[i].shape == items[i - 1].shape &&
                inStep(items[i - 2], items[i - 1], items[i]);
  return goesOn;
}

/// Number of items from `start` on of one shape at a constant step.
size_t runLength(const std::vector<Item> &items,
                 const std::vector<uint8_t> &goesOn, size_t start) {
  size_t last = start + 1;
  if (last == items.size() || items[last].shape != items[start].shape)
    return 1;
  while (last + 1 < items.size() && goesOn[last + 1])
    ++last;
  return last + 1 - start;
}

/// Finds two single rows that no pair beside them resembles: any two rows are a
/// run, and irregular rows would make a shape for every two. Asked from the
/// front on, it compares each two pairs once.
class LonePairs {
public:
  LonePairs(const std::vector<int64_t> &rows, unsigned numColumns,
            const std::vector<Item> &items)
      : rows(rows), numColumns(numColumns), items(items) {}

  bool isAt(size_t start) {
    if (items[start].shape)
      return false;
    bool likeLast = start >= 2 && isLikeNext(start - 2);
    return !likeLast && !isLikeNext(start);
  }

private:
  /// Whether the pair that starts there and the next one have one step.
  bool isLikeNext(size_t start) {
    if (start + 3 >= items.size())
      return false;
    Known &own = known[start % 4];
    if (own.start != start)
      own = {start, compare(start)};
    return own.alike;
  }
  bool compare(size_t start) const {
    const Item *pair = items.data() + start;
    const int64_t *a = row(pair[0]), *b = row(pair[1]);
    const int64_t *x = row(pair[2]), *y = row(pair[3]);
    for (unsigned c = 0; c < numColumns; ++c)
      if (b[c] - a[c] != y[c] - x[c])
        return false;
    return true;
  }
  const int64_t *row(const Item &item) const {
    return rows.data() + size_t(item.row) * numColumns;
  }

  struct Known {
    size_t start = SIZE_MAX;
    bool alike = false;
  };
  const std::vector<int64_t> &rows;
  unsigned numColumns;
  const std::vector<Item> &items;
  Known known[4]; // of the last that were asked for
};

/// One level: replaces every maximal run by one item; true when any was found.
bool Compression::joinRuns(std::vector<Item> &items) {
  std::vector<uint8_t> goesOn = findSteps(items);
  LonePairs lone(rows, numColumns, items);
  std::vector<Item> joined;
  joined.reserve(items.size());
  for (size_t i = 0; i < items.size();) {
    size_t length = runLength(items, goesOn, i);
    // A pair gives way to a longer run that starts at its second item.
    if (length == 2 && (runLength(items, goesOn, i + 1) > 2 || lone.isAt(i)))
      length = 1;
    Item item = items[i];
    if (length > 1)
      item.shape = shapes.number(item.shape, int64_t(length), row(item.row),
                                 row(items[i + 1].row));
    joined.push_back(item);
    i += length;
  }
  items.swap(joined);
  return items.size() < joined.size();
}

RowClass Compression::classOf(const Item &item) const {
  RowClass rowClass;
  rowClass.base.assign(row(item.row), row(item.row) + numColumns);
  for (uint32_t shape = item.shape; shape; shape = shapes[shape].inner) {
    rowClass.counts.push_back(shapes[shape].count);
    rowClass.strides.emplace_back(shapes.step(shape),
                                  shapes.step(shape) + numColumns);
  }
  return rowClass;
}

/// Brings items of one shape together, so that interleaved runs can join; false
/// when they are already.
bool Compression::groupByShape(std::vector<Item> &items) const {
  auto isBefore = [](const Item &a, const Item &b) {
    return a.shape < b.shape;
  };
  if (std::is_sorted(items.begin(), items.end(), isBefore))
    return false;
  std::stable_sort(items.begin(), items.end(), isBefore);
  return true;
}

/// Appends the rows of a shape at `base`, which is left as it was.
void Compression::appendRows(uint32_t shape, Row &base,
                             std::vector<int64_t> &out) const {
  if (shape == 0) {
    out.insert(out.end(), base.begin(), base.end());
    return;
  }
  int64_t count = shapes[shape].count;
  const int64_t *step = shapes.step(shape);
  for (int64_t i = 0; i < count; ++i) {
    appendRows(shapes[shape].inner, base, out);
    for (unsigned c = 0; c < numColumns; ++c)
      base[c] += step[c];
  }
  for (unsigned c = 0; c < numColumns; ++c)
    base[c] -= count * step[c];
}

/// A class takes a row for its base and one per stride; it should at least
/// halve what its rows take.
bool Compression::isWorthwhile(const Item &item, int64_t minClassSize) const {
  const Shape &shape = shapes[item.shape];
  return shape.size >= std::max<int64_t>(minClassSize, 2 * (1 + shape.depth));
}

void Compression::compress(int64_t minClassSize, RowSet &out) {
  std::vector<Item> items(rows.size() / numColumns);
  for (uint32_t i = 0; i < items.size(); ++i)
    items[i] = {i, 0};
  do {
    while (joinRuns(items))
      ;
  } while (groupByShape(items) && joinRuns(items));

  size_t numRest = 0;
  for (const Item &item : items)
    if (!isWorthwhile(item, minClassSize))
      numRest += size_t(shapes[item.shape].size);
  out.table.reserve(out.table.size() + numRest * numColumns);
  Row base;
  for (const Item &item : items) {
    if (isWorthwhile(item, minClassSize)) {
      out.classes.push_back(classOf(item));
      continue;
    }
    base.assign(row(item.row), row(item.row) + numColumns);
    appendRows(item.shape, base, out.table);
  }
}

/// Brings rows that are alike together: columns of few values first.
class RowOrder {
public:
  RowOrder(const std::vector<int64_t> &rows, unsigned numColumns)
      : rows(rows), numColumns(numColumns) {}

  /// The rows in that order, beside each other.
  std::vector<int64_t> sorted() const;

private:
  const int64_t *row(uint32_t index) const {
    return rows.data() + size_t(index) * numColumns;
  }
  std::vector<unsigned> columnsByVariety() const;
  std::vector<uint64_t> sortKeys(const std::vector<unsigned> &columns) const;

  const std::vector<int64_t> &rows;
  unsigned numColumns;
};

/// Counts distinct values.
class ValueCounter {
public:
  /// For up to `most` values at a time.
  explicit ValueCounter(size_t most) {
    size_t numSlots = 2;
    while (numSlots < 2 * most)
      numSlots *= 2;
    slots.resize(numSlots);
  }

  void clear() { ++round, found = 0; }
  void add(int64_t value) {
    size_t mask = slots.size() - 1;
    uint64_t hash = uint64_t(value) * 0x9e3779b97f4a7c15u;
    size_t at = (hash ^ hash >> 32) & mask;
    while (slots[at].round == round && slots[at].value != value)
      at = (at + 1) & mask;
    found += slots[at].round != round;
    slots[at] = {value, round};
  }
  size_t count() const { return found; }

private:
  struct Slot {
    int64_t value = 0;
    uint32_t round = 0; // in which it was added
  };
  std::vector<Slot> slots;
  uint32_t round = 1;
  size_t found = 0;
};

/// The columns, those of fewest distinct values first. Sampled: the order
/// matters only for how well rows compress.
std::vector<unsigned> RowOrder::columnsByVariety() const {
  constexpr size_t kSample = 4096;
  size_t numRows = rows.size() / numColumns;
  size_t stride = numRows / kSample + 1;
  std::vector<std::pair<size_t, unsigned>> varieties;
  ValueCounter values(numRows / stride + 1);
  for (unsigned column = 0; column < numColumns; ++column) {
    values.clear();
    for (size_t i = 0; i < numRows; i += stride)
      values.add(row(i)[column]);
    varieties.emplace_back(values.count(), column);
  }
  std::sort(varieties.begin(), varieties.end());
  std::vector<unsigned> columns;
  for (auto [variety, column] : varieties)
    columns.push_back(column);
  return columns;
}

/// Per row, as many of the `columns` as fit 64 bits, first most significant.
std::vector<uint64_t>
RowOrder::sortKeys(const std::vector<unsigned> &columns) const {
  size_t numRows = rows.size() / numColumns;
  std::vector<int64_t> least(row(0), row(0) + numColumns), most = least;
  for (size_t i = 1; i < numRows; ++i)
    for (unsigned column = 0; column < numColumns; ++column) {
      least[column] = std::min(least[column], row(i)[column]);
      most[column] = std::max(most[column], row(i)[column]);
    }
  // Of those that fit: how many values each has.
  std::vector<uint64_t> values;
  double positions = 1;
  for (unsigned column : columns) {
    positions *= double(most[column]) - double(least[column]) + 1;
    if (positions >= 9e18)
      break;
    values.push_back(uint64_t(most[column] - least[column] + 1));
  }
  std::vector<uint64_t> keys(numRows);
  for (size_t i = 0; i < numRows; ++i)
    for (size_t c = 0; c < values.size(); ++c)
      keys[i] = keys[i] * values[c] +
                uint64_t(row(i)[columns[c]] - least[columns[c]]);
  return keys;
}

std::vector<int64_t> RowOrder::sorted() const {
  std::vector<unsigned> columns = columnsByVariety();
  std::vector<uint64_t> keys = sortKeys(columns);
  std::vector<std::pair<uint64_t, uint32_t>> keyed(keys.size());
  for (uint32_t i = 0; i < keyed.size(); ++i)
    keyed[i] = {keys[i], i};
  std::sort(keyed.begin(), keyed.end(), [&](const auto &a, const auto &b) {
    if (a.first != b.first)
      return a.first < b.first;
    const int64_t *x = row(a.second), *y = row(b.second);
    for (unsigned column : columns)
      if (x[column] != y[column])
        return x[column] < y[column];
    return a.second < b.second;
  });
  std::vector<int64_t> out;
  out.reserve(rows.size());
  for (const auto &[key, i] : keyed)
    out.insert(out.end(), row(i), row(i) + numColumns);
  return out;
}

/// Integers that the set takes to write down.
size_t costOf(const RowSet &set) {
  size_t cost = set.table.size();
  for (const RowClass &rowClass : set.classes)
    cost +=
        set.numColumns + rowClass.counts.size() * (size_t(set.numColumns) + 1);
  return cost;
}

/// Compression below this ratio makes a second attempt worth its time.
constexpr size_t kGoodRatio = 8;

} // namespace

int64_t RowClass::size() const {
  int64_t size = 1;
  for (int64_t count : counts)
    size *= count;
  return size;
}

int64_t RowSet::numRows() const {
  int64_t count = numColumns ? int64_t(table.size() / numColumns) : 0;
  for (const RowClass &rowClass : classes)
    count += rowClass.size();
  return count;
}

/// The order of the rows as given is tried first: whoever made them made them
/// in nested loops. What it leaves is tried in an order that brings alike rows
/// together: columns of few values (sizes, devices) first.
RowSet compressRows(const std::vector<int64_t> &rows, unsigned numColumns,
                    int64_t minClassSize) {
  RowSet given;
  given.numColumns = numColumns;
  if (rows.empty() || numColumns == 0)
    return given;
  if (rows.size() == numColumns) { // one row is no class
    given.table = rows;
    return given;
  }
  Compression(rows, numColumns).compress(minClassSize, given);
  bool foundNone = given.classes.empty();
  if (!given.table.empty()) {
    std::vector<int64_t> rest = RowOrder(given.table, numColumns).sorted();
    given.table = {};
    Compression(rest, numColumns).compress(minClassSize, given);
  }
  if (foundNone || costOf(given) * kGoodRatio <= rows.size())
    return given;

  RowSet sorted;
  sorted.numColumns = numColumns;
  std::vector<int64_t> inOrder = RowOrder(rows, numColumns).sorted();
  Compression(inOrder, numColumns).compress(minClassSize, sorted);
  return costOf(sorted) < costOf(given) ? sorted : given;
}

std::vector<int64_t> expandRows(const RowSet &set) {
  std::vector<int64_t> rows;
  rows.reserve(size_t(set.numRows()) * set.numColumns);
  for (const RowClass &rowClass : set.classes) {
    std::vector<int64_t> indices(rowClass.counts.size());
    Row row = rowClass.base;
    for (int64_t i = 0, e = rowClass.size(); i < e; ++i) {
      rows.insert(rows.end(), row.begin(), row.end());
      // Advance like an odometer: the last index fastest.
      for (size_t d = indices.size(); d-- > 0;) {
        bool wraps = ++indices[d] == rowClass.counts[d];
        int64_t steps = wraps ? 1 - rowClass.counts[d] : 1;
        for (unsigned c = 0; c < set.numColumns; ++c)
          row[c] += steps * rowClass.strides[d][c];
        if (!wraps)
          break;
        indices[d] = 0;
      }
    }
  }
  rows.insert(rows.end(), set.table.begin(), set.table.end());
  return rows;
}

} // namespace dt
