//===- FamilyTensors.cpp - A side's tensors of a family, as one -----------===//
//
//   "h.0.q" order 1, "h.1.q" order 8, "h.2.q" order 15
//   -> "h.{}.q" [0] order 1 + [7]
//
//===----------------------------------------------------------------------===//

#include "FamilyTensors.h"

#include "Families.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <utility>

using namespace mlir;

namespace dt {

namespace {

class Members {
public:
  Members(ArrayRef<TensorAttr> members, const std::vector<int64_t> &counts)
      : members(members), counts(counts) {
    for (TensorAttr member : members)
      names.push_back(splitNumbers(member.getName().str()));
  }

  TensorAttr asOne() {
    if (!findHoles() || !findOrder())
      return {};
    TensorAttr first = members.front();
    return TensorAttr::get(
        first.getContext(), StringAttr::get(first.getContext(), name()),
        numbers, steps, first.getOrder(), orderStrides, first.getBounds(),
        first.getPermutation(), first.getParts(), first.getFill());
  }

private:
  /// What a number of each member changes by along a dim, if it is an affine
  /// function of the index there and of nothing else.
  template <typename NumberOf>
  std::optional<int64_t> stepAlong(size_t dim, NumberOf numberOf) const {
    auto found = affineSteps(counts, numberOf);
    if (!found)
      return std::nullopt;
    int64_t step = std::exchange((*found)[dim], 0);
    bool isAlone =
        llvm::all_of(*found, [](int64_t other) { return other == 0; });
    return isAlone ? std::optional(step) : std::nullopt;
  }

  /// Which numbers of the name stand for which dims.
  bool findHoles() {
    for (size_t n = 0; n < names.front().numbers.size(); ++n) {
      auto numberOf = [&](size_t i) { return names[i].numbers[n]; };
      isHole.push_back(false);
      if (llvm::all_of(llvm::seq(members.size()),
                       [&](size_t i) { return numberOf(i) == numberOf(0); }))
        continue;
      if (numbers.size() == counts.size())
        return false;
      auto step = stepAlong(numbers.size(), numberOf);
      if (!step)
        return false;
      isHole.back() = true;
      numbers.push_back(numberOf(0));
      steps.push_back(*step);
    }
    return numbers.size() == counts.size();
  }

  bool findOrder() {
    auto found =
        affineSteps(counts, [&](size_t i) { return members[i].getOrder(); });
    if (found)
      orderStrides.assign(found->begin(), found->end());
    return found.has_value();
  }

  std::string name() const {
    const NumberedName &first = names.front();
    std::string out = first.text.front();
    for (size_t n = 0; n < first.numbers.size(); ++n)
      out +=
          (isHole[n] ? std::string("{}") : std::to_string(first.numbers[n])) +
          first.text[n + 1];
    return out;
  }

  ArrayRef<TensorAttr> members;
  const std::vector<int64_t> &counts;
  std::vector<NumberedName> names;
  std::vector<bool> isHole;                          // by number of the name
  SmallVector<int64_t> numbers, steps, orderStrides; // by dim
};

} // namespace

TensorAttr familyTensor(ArrayRef<TensorAttr> members,
                        const std::vector<int64_t> &counts) {
  return Members(members, counts).asOne();
}

} // namespace dt
