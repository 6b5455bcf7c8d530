//===- TensorNames.cpp - Names of the tensors of a space ------------------===//
//
// A name template without its numbers is its pattern: "layers.{}.w" and
// "layers.7.w" have "layers.#.w". Names of two patterns differ. Of one pattern,
// two params are told apart by the numbers in one place:
//
//   layers.{}.w  0, 1, ... 22    [0, 22], each 1
//   layers.{}.w  23, 24, ... 45  [23, 45], each 1    other interval
//   e.{}.w       0, 2, 4, 6      [0, 6], each 2
//   e.{}.w       1, 3, 5, 7      [1, 7], each 2      other remainder
//   l.{}.w       0, 1, 2, 4, 5   [0, 5], as listed
//   l.{}.w       3, 7            [3, 7], each 4      neither is in the list
//
// What is not told apart so has its names written out.
//
//===----------------------------------------------------------------------===//

#include "TensorNames.h"

#include "LeadingLists.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace dt {

namespace {

/// Numbers lo, lo + step, ... up to hi; step >= 1. Or a list of them, sorted.
struct Numbers {
  int64_t lo = 0, hi = 0;
  uint64_t step = 1;
  std::vector<int64_t> list = {};

  bool contains(int64_t number) const {
    if (number < lo || number > hi)
      return false;
    if (!list.empty())
      return std::binary_search(list.begin(), list.end(), number);
    return (uint64_t(number) - uint64_t(lo)) % step == 0;
  }

  bool areApart(const Numbers &other) const {
    if (hi < other.lo || other.hi < lo)
      return true;
    for (auto [one, two] : {std::pair(this, &other), {&other, this}})
      if (!one->list.empty())
        return llvm::none_of(one->list, [two = two](int64_t number) {
          return two->contains(number);
        });
    uint64_t distance =
        uint64_t(std::max(lo, other.lo)) - uint64_t(std::min(lo, other.lo));
    return step == other.step && distance % step != 0;
  }
};

/// Stands for a run in a pattern. No name has it.
constexpr char kRun = '\n';

/// As much of a name as is digits, signs and holes.
struct Run {
  unsigned holes = 0;
  StringRef text; // whole
};

struct Template {
  ParamOp param;
  std::string pattern;
  /// Whether its members have names of their own: no run has two holes.
  bool hasOwnNames = true;
  /// By run. Nothing where one is neither a hole nor a number as a hole has it.
  std::optional<SmallVector<Numbers, 2>> numbers;
};

/// Splits a name into its pattern and its runs.
std::string split(StringRef name, SmallVectorImpl<Run> &runs) {
  std::string pattern;
  size_t begin = 0; // of the run at the end
  for (size_t i = 0; i < name.size(); ++i) {
    bool isHole = name.substr(i).starts_with("{}");
    if (!isHole && !llvm::isDigit(name[i]) && name[i] != '-') {
      pattern += name[i];
      continue;
    }
    if (pattern.empty() || pattern.back() != kRun) {
      pattern += kRun;
      begin = i;
      runs.emplace_back();
    }
    runs.back().holes += isHole;
    i += isHole;
    runs.back().text = name.slice(begin, i + 1);
  }
  return pattern;
}

/// What the numbers of a leading dim are; they stay within 64 bits.
Numbers numbersOf(ParamOp param, unsigned dim) {
  int64_t first = param.getLeadingFirst()[dim];
  int64_t step = param.getLeadingStep()[dim];
  std::vector<int64_t> list = listOf(param.getLeadingLists(), dim).vec();
  if (!list.empty()) {
    llvm::sort(list);
    return {list.front(), list.back(), 1, std::move(list)};
  }
  int64_t last = first + step * (param.getShape()[dim] - 1);
  uint64_t size = step < 0 ? 0 - uint64_t(step) : uint64_t(step);
  return {std::min(first, last), std::max(first, last), size};
}

Template templateOf(ParamOp param) {
  Template out;
  out.param = param;
  SmallVector<Run, 2> runs;
  out.pattern = split(param.nameTemplate(), runs);
  out.hasOwnNames =
      llvm::all_of(runs, [](const Run &run) { return run.holes < 2; });
  out.numbers.emplace();
  unsigned dim = 0;
  for (const Run &run : runs) {
    int64_t number = 0;
    if (run.text == "{}")
      out.numbers->push_back(numbersOf(param, dim++));
    else if (!run.text.getAsInteger(10, number) &&
             std::to_string(number) == run.text)
      out.numbers->push_back({number, number});
    else
      return out.numbers.reset(), out;
  }
  return out;
}

/// Whether no name of one is a name of the other; of one pattern.
bool areApart(const Template &a, const Template &b) {
  if (!a.numbers || !b.numbers)
    return false;
  for (auto [x, y] : llvm::zip_equal(*a.numbers, *b.numbers))
    if (x.areApart(y))
      return true;
  return false;
}

/// Whether names of a template have to be written out: it has some twice, or
/// others of its pattern may have one of them.
bool isOpen(const Template &entry, ArrayRef<const Template *> samePattern) {
  constexpr size_t kMostCompared = 64;
  if (!entry.hasOwnNames || samePattern.size() > kMostCompared)
    return true;
  return llvm::any_of(samePattern, [&](const Template *other) {
    return other != &entry && !areApart(entry, *other);
  });
}

} // namespace

std::string withNumbers(StringRef name, ArrayRef<int64_t> first,
                        ArrayRef<int64_t> step, ArrayRef<int64_t> lists,
                        ArrayRef<int64_t> member) {
  std::string result;
  for (auto [d, index] : llvm::enumerate(member)) {
    auto [before, after] = name.split("{}");
    result += before;
    ArrayRef<int64_t> list = listOf(lists, unsigned(d));
    result += std::to_string(list.empty() ? first[d] + step[d] * index
                                          : list[size_t(index)]);
    name = after;
  }
  return result + name.str();
}

LogicalResult verifyTensorNames(SpaceOp space) {
  std::vector<Template> templates;
  for (auto param : space.getOps<ParamOp>())
    templates.push_back(templateOf(param));
  llvm::StringMap<SmallVector<const Template *, 1>> patterns;
  for (const Template &entry : templates)
    patterns[entry.pattern].push_back(&entry);
  llvm::StringMap<ParamOp> known;
  for (const Template &entry : templates) {
    ParamOp param = entry.param;
    auto &samePattern = patterns[entry.pattern];
    if (entry.hasOwnNames && samePattern.size() == 1)
      continue;
    if (!isOpen(entry, samePattern))
      continue;
    LogicalResult result = param.forEachMember([&](ArrayRef<int64_t> member) {
      auto [at, isNew] = known.try_emplace(param.memberName(member), param);
      if (isNew)
        return success();
      InFlightDiagnostic error = param.emitOpError()
                                 << "names tensor '" << at->first()
                                 << "' a second time";
      error.attachNote(at->second.getLoc()) << "the first time is here";
      return LogicalResult(error);
    });
    if (failed(result))
      return failure();
  }
  return success();
}

} // namespace dt
