//===- LeadingLists.cpp - Sequences of leading dims in attributes ---------===//

#include "LeadingLists.h"

#include "dt/Geometry/Limits.h"

#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace mlir;

namespace dt {

llvm::ArrayRef<int64_t> listOf(llvm::ArrayRef<int64_t> lists, unsigned dim) {
  if (lists.empty())
    return {};
  for (; dim > 0; --dim)
    lists = lists.drop_front(1 + size_t(lists.front()));
  return lists.slice(1, size_t(lists.front()));
}

std::vector<Sequence> sequencesOf(llvm::ArrayRef<int64_t> first,
                                  llvm::ArrayRef<int64_t> step,
                                  llvm::ArrayRef<int64_t> lists) {
  std::vector<Sequence> out;
  for (unsigned d = 0; d < step.size(); ++d)
    out.push_back(
        {first.empty() ? 0 : first[d], step[d], listOf(lists, d).vec()});
  return out;
}

llvm::SmallVector<int64_t> listsOf(llvm::ArrayRef<Sequence> sequences) {
  llvm::SmallVector<int64_t> out;
  if (llvm::all_of(sequences, [](const Sequence &s) { return s.list.empty(); }))
    return out;
  for (const Sequence &sequence : sequences) {
    out.push_back(int64_t(sequence.list.size()));
    llvm::append_range(out, sequence.list);
  }
  return out;
}

// Whether there is a list, or none, for each dim.
static bool areWhole(llvm::ArrayRef<int64_t> lists, size_t numDims) {
  bool any = false;
  for (; numDims > 0; --numDims) {
    if (lists.empty() || lists.front() < 0 ||
        uint64_t(lists.front()) >= lists.size())
      return false;
    any |= lists.front() > 0;
    lists = lists.drop_front(1 + size_t(lists.front()));
  }
  return any && lists.empty();
}

static std::string problemOfList(int64_t first, llvm::ArrayRef<int64_t> list) {
  auto isFar = [](int64_t value) {
    return value < -kMaxBytes || value > kMaxBytes;
  };
  if (llvm::any_of(list, isFar))
    return "has a list with numbers beyond " + std::to_string(kMaxBytes);
  if (list.front() != first)
    return "has a list from " + std::to_string(list.front()) +
           ", expected one from " + std::to_string(first);
  if (Sequence::of(list.vec()).list.empty())
    return "has a list of equal steps, expected its first number and the step";
  std::vector<int64_t> sorted = list.vec();
  std::sort(sorted.begin(), sorted.end());
  auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    return "has a list with " + std::to_string(*twice) + " twice";
  return "";
}

std::string problemOfLists(llvm::ArrayRef<int64_t> first,
                           llvm::ArrayRef<int64_t> step,
                           llvm::ArrayRef<int64_t> lists) {
  if (lists.empty())
    return "";
  if (!areWhole(lists, step.size()))
    return "has lists that are not of its " + std::to_string(step.size()) +
           " leading dims";
  for (unsigned d = 0; d < step.size(); ++d) {
    llvm::ArrayRef<int64_t> list = listOf(lists, d);
    if (list.empty())
      continue;
    if (step[d] != 0)
      return "has a list and a step of " + std::to_string(step[d]);
    std::string problem = problemOfList(first.empty() ? 0 : first[d], list);
    if (!problem.empty())
      return problem;
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

namespace {
/// Lists as they are read, dim by dim.
struct Lists {
  llvm::SmallVector<int64_t> all;
  bool any = false;

  void none() { all.push_back(0); }
  /// `{0, 1, 5}`; nothing where there is none.
  OptionalParseResult parse(AsmParser &parser) {
    if (failed(parser.parseOptionalLBrace()))
      return std::nullopt;
    any = true;
    size_t length = all.size();
    all.push_back(0);
    ParseResult result = parser.parseCommaSeparatedList(
        [&] { return parser.parseInteger(all.emplace_back()); });
    all[length] = int64_t(all.size() - length) - 1;
    if (failed(result))
      return ParseResult(result);
    return ParseResult(parser.parseRBrace());
  }
  void take(llvm::SmallVectorImpl<int64_t> &lists) {
    if (any)
      lists.assign(all);
  }
};
} // namespace

static void printList(llvm::raw_ostream &os, llvm::ArrayRef<int64_t> list) {
  os << "{";
  llvm::interleaveComma(list, os);
  os << "}";
}

ParseResult parseNumbers(AsmParser &parser,
                         llvm::SmallVectorImpl<int64_t> &first,
                         llvm::SmallVectorImpl<int64_t> &step,
                         llvm::SmallVectorImpl<int64_t> &lists) {
  Lists read;
  auto parseOne = [&]() -> ParseResult {
    size_t begin = read.all.size();
    if (OptionalParseResult list = read.parse(parser); list.has_value()) {
      if (failed(*list))
        return failure();
      first.push_back(read.all[begin + 1]);
      step.push_back(0);
      return success();
    }
    read.none();
    step.push_back(1);
    if (parser.parseInteger(first.emplace_back()))
      return failure();
    if (succeeded(parser.parseOptionalKeyword("step")))
      return parser.parseInteger(step.back());
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::OptionalSquare,
                                     parseOne))
    return failure();
  read.take(lists);
  return success();
}

void printNumbers(llvm::raw_ostream &os, llvm::ArrayRef<int64_t> first,
                  llvm::ArrayRef<int64_t> step, llvm::ArrayRef<int64_t> lists) {
  if (first.empty())
    return;
  os << " [";
  llvm::interleaveComma(llvm::seq<unsigned>(0, first.size()), os,
                        [&](unsigned d) {
                          if (auto list = listOf(lists, d); !list.empty())
                            return printList(os, list);
                          os << first[d];
                          if (step[d] != 1)
                            os << " step " << step[d];
                        });
  os << "]";
}

ParseResult parseOffsets(AsmParser &parser,
                         llvm::SmallVectorImpl<int64_t> &step,
                         llvm::SmallVectorImpl<int64_t> &lists) {
  if (failed(parser.parseOptionalPlus()))
    return success();
  Lists read;
  auto parseOne = [&]() -> ParseResult {
    step.push_back(0);
    if (OptionalParseResult list = read.parse(parser); list.has_value())
      return *list;
    read.none();
    return parser.parseInteger(step.back());
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  read.take(lists);
  return success();
}

void printOffsets(llvm::raw_ostream &os, llvm::ArrayRef<int64_t> step,
                  llvm::ArrayRef<int64_t> lists) {
  if (step.empty())
    return;
  os << " + [";
  llvm::interleaveComma(llvm::seq<unsigned>(0, step.size()), os,
                        [&](unsigned d) {
                          if (auto list = listOf(lists, d); !list.empty())
                            return printList(os, list);
                          os << step[d];
                        });
  os << "]";
}

} // namespace dt
