//===- Dialect.h - The dt dialect, its attributes and types -----*- C++ -*-===//
//
// Attributes mirror the plain structs of dt/Geometry and convert both ways
// (`XAttr::get(context, struct)`, `attr.toGeometry()`, `attr.toRowSet()`);
// passes work on the structs and meet attributes only at the edges.
//
//===----------------------------------------------------------------------===//

#ifndef DT_DIALECT_DIALECT_H
#define DT_DIALECT_DIALECT_H

#include "dt/Cost/Cluster.h"
#include "dt/Geometry/DType.h"
#include "dt/Geometry/Mesh.h"
#include "dt/Geometry/Pieces.h"
#include "dt/Geometry/Placement.h"
#include "dt/Geometry/Sequence.h"
#include "dt/Geometry/Shard.h"
#include "dt/Geometry/TensorView.h"
#include "dt/Routing/Explain.h"

#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/bit.h"

#include <optional>
#include <string>
#include <vector>

namespace dt {

/// One state of a param: its dtype on each side, none where it does not exist.
struct StateEntry {
  mlir::StringAttr name;
  std::optional<DType> source, destination;
  /// The state that this one may be made from, where that saves wire bytes;
  /// null: none. Required when the source does not have the state.
  mlir::StringAttr from;

  StateEntry() = default;
  StateEntry(mlir::StringAttr name, DType dtype)
      : name(name), source(dtype), destination(dtype) {}

  friend bool operator==(const StateEntry &a, const StateEntry &b) {
    return a.name == b.name && a.source == b.source &&
           a.destination == b.destination && a.from == b.from;
  }
  friend llvm::hash_code hash_value(const StateEntry &entry) {
    auto code = [](std::optional<DType> type) {
      return type ? int(*type) : -1;
    };
    return llvm::hash_combine(entry.name, code(entry.source),
                              code(entry.destination), entry.from);
  }
};

/// One axis of a mesh.
struct AxisEntry {
  mlir::StringAttr name;
  int64_t size = 1;

  friend bool operator==(const AxisEntry &a, const AxisEntry &b) {
    return a.name == b.name && a.size == b.size;
  }
  friend llvm::hash_code hash_value(const AxisEntry &entry) {
    return llvm::hash_combine(entry.name, entry.size);
  }
};

/// Marks the levels at which an op may appear inside a transition or program.
template <typename ConcreteType>
class LayoutLevelOp
    : public mlir::OpTrait::TraitBase<ConcreteType, LayoutLevelOp> {};
template <typename ConcreteType>
class RoutingLevelOp
    : public mlir::OpTrait::TraitBase<ConcreteType, RoutingLevelOp> {};
template <typename ConcreteType>
class TransportLevelOp
    : public mlir::OpTrait::TraitBase<ConcreteType, TransportLevelOp> {};
template <typename ConcreteType>
class ProgramLevelOp
    : public mlir::OpTrait::TraitBase<ConcreteType, ProgramLevelOp> {};

/// How IR spells a kind of collective: "all_gather".
llvm::StringRef keywordOf(Pattern pattern);
/// The kind that is spelled so; nullopt where there is none.
std::optional<Pattern> patternOf(llvm::StringRef keyword);

inline llvm::raw_ostream &operator<<(llvm::raw_ostream &out, Pattern pattern) {
  return out << keywordOf(pattern);
}

} // namespace dt

namespace dtrt {
/// Links are parameters of an attribute.
inline llvm::hash_code hash_value(const Link &link) {
  return llvm::hash_combine(link.from.isNode, link.from.index, link.to.isNode,
                            link.to.index, llvm::bit_cast<uint64_t>(link.GBps));
}

// What IR and bytecode have of a side is documented by DT_Side.
static_assert(int(Side::Source) == 0 && int(Side::Destination) == 1);

inline llvm::raw_ostream &operator<<(llvm::raw_ostream &out, Side side) {
  return out << sideName(side);
}
} // namespace dtrt

namespace mlir {
template <> struct FieldParser<dt::Pattern, dt::Pattern> {
  template <typename Parser>
  static FailureOr<dt::Pattern> parse(Parser &parser) {
    llvm::SMLoc loc = parser.getCurrentLocation();
    StringRef found;
    if (failed(parser.parseKeyword(&found)))
      return failure();
    if (std::optional<dt::Pattern> pattern = dt::patternOf(found))
      return *pattern;
    return parser.emitError(loc)
           << "expected 'scatter', 'gather', 'all_to_all', 'broadcast' or "
              "'all_gather', found '"
           << found << "'";
  }
};
template <> struct FieldParser<dtrt::Side, dtrt::Side> {
  template <typename Parser>
  static FailureOr<dtrt::Side> parse(Parser &parser) {
    llvm::SMLoc loc = parser.getCurrentLocation();
    StringRef found;
    if (failed(parser.parseKeyword(&found)))
      return failure();
    for (dtrt::Side side : {dtrt::Side::Source, dtrt::Side::Destination})
      if (found == dtrt::sideName(side))
        return side;
    return parser.emitError(loc)
           << "expected 'source' or 'destination', found '" << found << "'";
  }
};
} // namespace mlir

#include "dt/Dialect/DtDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dt/Dialect/DtAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dt/Dialect/DtTypes.h.inc"

#endif // DT_DIALECT_DIALECT_H
