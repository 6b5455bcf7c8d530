//===- Steps.h - Work that a hostile plan could make endless ----*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_STEPS_H
#define DTRT_LIB_VERIFY_STEPS_H

#include "dtrt/format/PlanModel.h"
#include "dtrt/types/Status.h"

namespace dtrt {

/// Some searches are short in any plan that a compiler makes, and long where
/// much is looked for among much: what a message reads among all that was
/// written, say. They count their steps here, and end when there are too many:
/// then the plan is refused, never believed.
class Steps {
public:
  explicit Steps(uint64_t most) : most(most), left(most) {}
  /// In proportion to what a program says; thousands of times what programs of
  /// the compiler take.
  static Steps forProgram(const RankProgram &program);
  /// Instructions, segments, messages and intervals of a program.
  static uint64_t itemsOf(const RankProgram &program);

  /// False when there are none left.
  bool take(uint64_t count = 1) {
    left = count < left ? left - count : 0;
    return !spent();
  }
  bool spent() const { return left == 0; }
  uint64_t taken() const { return most - left; }
  /// The error of a search that was ended.
  Status status() const {
    if (!spent())
      return {};
    return makeError("takes more than ", most, " steps to check");
  }

private:
  uint64_t most, left;
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_STEPS_H
