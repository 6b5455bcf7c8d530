//===- CheckPattern.cpp - Known values for checked runs -------------------===//

#include "dtrt/core/CheckPattern.h"

#include "dtrt/core/Convert.h"
#include "dtrt/format/ShardView.h"
#include "dtrt/format/Text.h"
#include "dtrt/format/Views.h"

#include <algorithm>
#include <cstring>

namespace dtrt {

namespace {

/// Fills source padding and fresh destinations; no destination padding of zeros
/// has it.
constexpr int kPoison = 0xa5;
/// Mismatches that a report spells out.
constexpr size_t kMaxReported = 8;

/// `count` elements that are contiguous in a member's buffer and, unless they
/// are padding, at one distance in the tensor.
struct Run {
  int64_t local = 0; // elements from the start of the buffer
  int64_t count = 0;
  int64_t position = -1; // in the VPS; -1: padding
  int64_t step = 1;      // from each element's position to the next one's
};

/// Walks the local rows of a shard's inner dims, which it has as they stand in
/// the local tensor.
class RowWalker {
public:
  RowWalker(const Family &family, const ShardRecord &shard) : shard(shard) {
    std::vector<int64_t> inFamily(family.shape.size(), 1);
    for (size_t dim = inFamily.size(); dim-- > 1;)
      inFamily[dim - 1] = inFamily[dim] * family.shape[dim];
    for (unsigned place = 0; place < family.shape.size(); ++place) {
      unsigned dim = shard.order[place];
      shape.push_back(family.shape[dim]);
      strides.push_back(inFamily[dim]);
      dims.push_back(shard.dims[family.numLeading() + dim]);
    }
    if (shape.empty()) { // a scalar is a row of one element
      shape = strides = {1};
      dims = {{{0, 1}}};
    }
    for (const auto &intervals : dims) {
      int64_t extent = 0;
      starts.emplace_back();
      for (const Interval &interval : intervals) {
        starts.back().push_back(extent);
        extent += interval.size();
      }
      extents.push_back(extent);
    }
  }

  template <typename Visit> void forEachRun(Visit visit) const {
    int64_t elements = 1;
    for (int64_t extent : extents)
      elements *= extent;
    Interval stored = shard.flat ? shard.range : Interval{0, elements};
    int64_t width = extents.back();
    if (stored.size() == 0)
      return;
    for (int64_t row = stored.lo / width; row * width < stored.hi; ++row) {
      int64_t start = rowPosition(row);
      int64_t local = row * width;
      for (const Interval &interval : dims.back()) {
        visitInterval(interval, start, local, stored, visit);
        local += interval.size();
      }
    }
  }

private:
  /// VPS position of the row's column 0; -1 when the row is padding.
  int64_t rowPosition(int64_t row) const {
    int64_t position = 0;
    for (size_t dim = dims.size() - 1; dim-- > 0;) {
      int64_t local = row % extents[dim];
      row /= extents[dim];
      auto after =
          std::upper_bound(starts[dim].begin(), starts[dim].end(), local);
      size_t interval = size_t(after - starts[dim].begin()) - 1;
      int64_t coordinate =
          dims[dim][interval].lo + local - starts[dim][interval];
      if (coordinate >= shape[dim])
        return -1;
      position += coordinate * strides[dim];
    }
    return position;
  }

  template <typename Visit>
  void visitInterval(const Interval &interval, int64_t start, int64_t local,
                     const Interval &stored, Visit visit) const {
    int64_t real = start < 0 ? 0
                             : std::clamp(shape.back() - interval.lo,
                                          int64_t(0), interval.size());
    auto clipped = [&](int64_t from, int64_t to, int64_t position) {
      int64_t lo = std::max(from, stored.lo), hi = std::min(to, stored.hi);
      if (lo < hi)
        visit(Run{lo - stored.lo, hi - lo,
                  position < 0 ? -1 : position + (lo - from) * strides.back(),
                  strides.back()});
    };
    clipped(local, local + real, start + interval.lo * strides.back());
    clipped(local + real, local + interval.size(), -1);
  }

  const ShardRecord &shard;
  std::vector<int64_t> shape, strides; // of the family
  std::vector<std::vector<Interval>> dims;
  std::vector<std::vector<int64_t>> starts; // of intervals, in local order
  std::vector<int64_t> extents;
};

/// A finite value of middling size, so that it means something in every
/// floating-point type; other types keep their bits.
uint64_t shapedValue(DType type, uint64_t raw) {
  switch (type) {
  case DType::F64:
    return (raw & 0x800fffffffffffff) | (1007 + (raw >> 52 & 31)) << 52;
  case DType::F32:
    return (raw & 0x807fffff) | (111 + (raw >> 23 & 31)) << 23;
  case DType::BF16:
    return (raw & 0x807f) | (111 + (raw >> 7 & 31)) << 7;
  case DType::F16:
    return (raw & 0x83ff) | (8 + (raw >> 10 & 15)) << 10;
  default:
    return raw;
  }
}

/// The values of one tensor's state on one side. Where a dtype changes or a
/// state may be made from another, source values are shaped, those of a made
/// state are those of the other, and all changes are applied in order.
class Pattern {
public:
  /// Padding holds `fill`.
  Pattern(const std::string &tensor, const Family &family, unsigned state,
          Side side, uint64_t fill)
      : fill(fill) {
    const StateInfo &info = family.states[state];
    const StateInfo &base =
        info.derivedFrom < 0 ? info : family.states[size_t(info.derivedFrom)];
    seed = patternSeed(tensor, base.name);
    types[0] = base.sourceDType;
    types[1] = info.sourceDType;
    types[2] = dtypeOf(family, state, side);
    for (const StateInfo &any : family.states)
      plain &= any.derivedFrom < 0 && any.sourceDType == any.destinationDType;
  }

  uint64_t padding() const { return fill; }
  uint64_t at(int64_t position) const {
    uint64_t raw = patternValue(seed, uint64_t(position));
    if (plain)
      return raw;
    uint64_t value = shapedValue(types[0], raw);
    return convertBits(convertBits(value, types[0], types[1]), types[1],
                       types[2]);
  }

private:
  uint64_t fill = 0;
  uint64_t seed = 0;
  bool plain = true;
  DType types[3];
};

template <typename T>
void fillRun(std::byte *buffer, const Run &run, const Pattern &pattern) {
  T *out = reinterpret_cast<T *>(buffer) + run.local;
  for (int64_t i = 0; i < run.count; ++i)
    out[i] = T(pattern.at(run.position + i * run.step));
}

template <typename T>
int64_t countWrong(const std::byte *buffer, const Run &run,
                   const Pattern &pattern) {
  const T *in = reinterpret_cast<const T *>(buffer) + run.local;
  int64_t wrong = 0;
  if (run.position < 0)
    for (int64_t i = 0; i < run.count; ++i)
      wrong += in[i] != T(pattern.padding());
  else
    for (int64_t i = 0; i < run.count; ++i)
      wrong += in[i] != T(pattern.at(run.position + i * run.step));
  return wrong;
}

/// Calls visit with a value of the unsigned type that has `width` bytes.
template <typename Visit> auto withElementType(int64_t width, Visit visit) {
  switch (width) {
  case 1:
    return visit(uint8_t());
  case 2:
    return visit(uint16_t());
  case 4:
    return visit(uint32_t());
  }
  return visit(uint64_t());
}

/// Where a buffer is from, for reports.
struct BufferName {
  std::string tensor;
  std::string state;
  uint32_t device;
};

template <typename T>
void reportRun(const std::byte *buffer, const Run &run, const Pattern &pattern,
               const BufferName &name, CheckReport &report) {
  const T *in = reinterpret_cast<const T *>(buffer) + run.local;
  for (int64_t i = 0; i < run.count; ++i) {
    if (report.first.size() >= kMaxReported)
      return;
    int64_t position = run.position + i * run.step;
    auto expected =
        T(run.position < 0 ? pattern.padding() : pattern.at(position));
    if (in[i] == expected)
      continue;
    std::ostringstream line;
    line << "device " << name.device << ": tensor '" << shortened(name.tensor)
         << "' state '" << shortened(name.state) << "' ";
    if (run.position < 0)
      line << "padding at local element " << run.local + i;
    else
      line << "position " << position;
    line << ": found 0x" << std::hex << uint64_t(in[i]) << ", expected 0x"
         << uint64_t(expected);
    report.first.push_back(line.str());
  }
}

/// Calls visit(buffer, width, state, tensor name) for every buffer of a shard.
template <typename Visit>
void forEachBuffer(const LocalStorage &storage, Side side, uint32_t shard,
                   Visit visit) {
  const ShardRecord &record = storage.shards(side)[shard];
  const Family &family = storage.common().families[record.family];
  for (int64_t member = 0; member < storage.members(side, shard); ++member) {
    std::string tensor = family.tensorName(memberIndex(family, record, member));
    for (unsigned state : statesOf(record.states))
      visit(storage.data(side, shard, state, member),
            byteWidth(dtypeOf(family, state, side)), state, tensor);
  }
}

} // namespace

uint64_t patternSeed(const std::string &tensor, const std::string &state) {
  uint64_t hash = 0xcbf29ce484222325ull; // FNV-1a, then mixed
  for (char c : tensor + '\n' + state)
    hash = (hash ^ uint8_t(c)) * 0x100000001b3ull;
  return patternValue(hash, 0);
}

void fillSource(LocalStorage &storage, uint32_t shard) {
  const ShardRecord &record = storage.shards(Side::Source)[shard];
  const Family &family = storage.common().families[record.family];
  RowWalker rows(family, record);
  forEachBuffer(storage, Side::Source, shard,
                [&](std::byte *buffer, int64_t width, unsigned state,
                    const std::string &tensor) {
                  // A derived state's buffers are those of the other.
                  if (!family.states[state].inSource)
                    return;
                  Pattern pattern(tensor, family, state, Side::Source, 0);
                  withElementType(width, [&](auto element) {
                    rows.forEachRun([&](const Run &run) {
                      if (run.position < 0)
                        memset(buffer + run.local * width, kPoison,
                               size_t(run.count * width));
                      else
                        fillRun<decltype(element)>(buffer, run, pattern);
                    });
                  });
                });
}

void poisonDestination(LocalStorage &storage, uint32_t shard) {
  const ShardRecord &record = storage.shards(Side::Destination)[shard];
  forEachBuffer(
      storage, Side::Destination, shard,
      [&](std::byte *buffer, int64_t, unsigned state, const std::string &) {
        uint64_t fill = fillOf(storage.common(), record, state);
        int poison = (fill & 0xff) == kPoison ? ~kPoison : kPoison;
        if (buffer)
          memset(buffer, poison,
                 storage.memberBytes(Side::Destination, shard, state));
      });
}

void fillShards(LocalStorage &storage) {
  for (uint32_t i = 0; i < storage.shards(Side::Destination).size(); ++i)
    poisonDestination(storage, i);
  for (uint32_t i = 0; i < storage.shards(Side::Source).size(); ++i)
    fillSource(storage, i);
}

void checkDestination(const LocalStorage &storage, uint32_t shard,
                      CheckReport &report) {
  const ShardRecord &record = storage.shards(Side::Destination)[shard];
  const Family &family = storage.common().families[record.family];
  RowWalker rows(family, record);
  forEachBuffer(storage, Side::Destination, shard,
                [&](const std::byte *buffer, int64_t width, unsigned state,
                    const std::string &tensor) {
                  const std::string &stateName = family.states[state].name;
                  BufferName name = {tensor, stateName,
                                     storage.program().device};
                  Pattern pattern(tensor, family, state, Side::Destination,
                                  fillOf(storage.common(), record, state));
                  withElementType(width, [&](auto element) {
                    using T = decltype(element);
                    rows.forEachRun([&](const Run &run) {
                      report.bytesChecked += uint64_t(run.count * width);
                      int64_t wrong = countWrong<T>(buffer, run, pattern);
                      report.mismatches += uint64_t(wrong);
                      if (wrong)
                        reportRun<T>(buffer, run, pattern, name, report);
                    });
                  });
                });
}

} // namespace dtrt
