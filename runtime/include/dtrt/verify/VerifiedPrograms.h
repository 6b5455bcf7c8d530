//===- VerifiedPrograms.h - What was found right before ---------*- C++ -*-===//
//
// Who makes many plans that have most programs in common, one after the other,
// need not have these checked each time. A program is known by its bytes as
// they are stored, with what it was checked against: families, cluster, limits.
// That its messages meet others, its ranks, and all numbers of the plan are
// found out anew. For plans that one process makes: sums of bytes are no
// signature.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_VERIFY_VERIFIEDPROGRAMS_H
#define DTRT_VERIFY_VERIFIEDPROGRAMS_H

#include <memory>

namespace dtrt {

class VerifiedPrograms {
public:
  VerifiedPrograms();
  ~VerifiedPrograms();

  /// Does ahead, for who is asked later, what the first plan would.
  void prepare();

  struct State;
  State &get() { return *state; }

private:
  std::unique_ptr<State> state;
};

} // namespace dtrt

#endif // DTRT_VERIFY_VERIFIEDPROGRAMS_H
