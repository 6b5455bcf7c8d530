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
    return first.ofFamily(StringAttr::get(first.getContext(), name()), numbers,
                          orderOffsets);
  }

private:
  /// A number of each member along a dim, if it is a function of the index
  /// there and of nothing else.
  template <typename NumberOf>
  std::optional<Sequence> numbersAlong(size_t dim, NumberOf numberOf) const {
    auto found = offsetsAlongDims(counts, numberOf);
    if (!found)
      return std::nullopt;
    std::vector<int64_t> along = std::exchange((*found)[dim], {});
    for (const std::vector<int64_t> &other : *found)
      if (llvm::any_of(other, [](int64_t offset) { return offset != 0; }))
        return std::nullopt;
    for (int64_t &number : along)
      number += numberOf(0);
    return Sequence::of(std::move(along));
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
      auto along = numbersAlong(numbers.size(), numberOf);
      if (!along)
        return false;
      isHole.back() = true;
      numbers.push_back(std::move(*along));
    }
    return numbers.size() == counts.size();
  }

  bool findOrder() {
    auto found = offsetsAlongDims(
        counts, [&](size_t i) { return members[i].getOrder(); });
    if (!found)
      return false;
    for (std::vector<int64_t> &offsets : *found)
      orderOffsets.push_back(Sequence::of(std::move(offsets)));
    return true;
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
  std::vector<bool> isHole;                    // by number of the name
  std::vector<Sequence> numbers, orderOffsets; // by dim
};

} // namespace

TensorAttr familyTensor(ArrayRef<TensorAttr> members,
                        const std::vector<int64_t> &counts) {
  return Members(members, counts).asOne();
}

} // namespace dt
