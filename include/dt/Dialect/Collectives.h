//===- Collectives.h - What goes between the members of a group -*- C++ -*-===//
//
// Pieces are read class by class: time is linear in the classes and in the
// pairs of devices that each names, whatever the number of boxes.
//
//===----------------------------------------------------------------------===//

#ifndef DT_DIALECT_COLLECTIVES_H
#define DT_DIALECT_COLLECTIVES_H

#include "dt/Dialect/Ops.h"
#include "dtrt/types/Collective.h"

#include <map>

namespace dt {

/// The call of a library that does what a collective does; nullopt where none
/// does. And what a call does.
std::optional<dtrt::CollectiveKind> callKindOf(Pattern pattern);
Pattern patternOf(dtrt::CollectiveKind kind);

/// The kind, members and root that a call of a library may have; it has `root`
/// -1 where it is from no one.
llvm::LogicalResult
verifyCall(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
           Pattern kind, llvm::ArrayRef<int64_t> members, int64_t root);

using PairFn =
    llvm::function_ref<void(int64_t from, int64_t to, int64_t elements)>;

/// Each pair of devices of a class of pieces in `rank` dims, and the elements
/// that go from one to the other; a pair may come several times.
void forEachPair(const RowClass &rowClass, unsigned rank, PairFn fn);
/// The same of all pieces.
void forEachPair(PiecesAttr pieces, PairFn fn);

/// What the members of one group exchange, in elements.
struct GroupTraffic {
  std::map<int64_t, int64_t> received; // by receiver
  std::map<int64_t, int64_t> first;    // at hop 0, by sender
  std::map<std::pair<int64_t, int64_t>, int64_t> pairs;

  void add(int64_t from, int64_t to, int64_t elements, int64_t hop);
  /// Whether parts of such a collective have several sizes: what each receiver
  /// gets, of a gather what each gives, of an all-to-all what each pair
  /// exchanges.
  bool isUneven(Pattern kind) const;
};

} // namespace dt

#endif // DT_DIALECT_COLLECTIVES_H
