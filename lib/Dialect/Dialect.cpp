//===- Dialect.cpp - Registration and bytecode ----------------------------===//

#include "dt/Dialect/Dialect.h"

#include "dt/Dialect/Ops.h"

#include "mlir/Bytecode/BytecodeImplementation.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "dt/Dialect/DtDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dt/Dialect/DtAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dt/Dialect/DtInterfaces.cpp.inc"
#include "dt/Dialect/DtTypes.cpp.inc"

namespace dt {

namespace {
/// Rows are written as integers. Every other attribute is small and goes
/// through its text.
class RowBytecode : public BytecodeDialectInterface {
public:
  explicit RowBytecode(Dialect *dialect) : BytecodeDialectInterface(dialect) {}

  /// Numbers are written to files and never change.
  enum AttrKind : uint64_t { kRows = 0, kPieces = 1, kShards = 2 };

  LogicalResult writeAttribute(Attribute attr,
                               DialectBytecodeWriter &writer) const override {
    return llvm::TypeSwitch<Attribute, LogicalResult>(attr)
        .Case([&](RowsAttr rows) {
          writer.writeVarInt(kRows);
          writer.writeVarInt(rows.getNumColumns());
          writer.writeSignedVarInts(rows.getClasses());
          writer.writeSignedVarInts(rows.getTable());
          return success();
        })
        .Case([&](PiecesAttr pieces) {
          return writeRanked(kPieces, pieces, writer);
        })
        .Case([&](ShardsAttr shards) {
          return writeRanked(kShards, shards, writer);
        })
        .Default([](Attribute) { return failure(); });
  }

  Attribute readAttribute(DialectBytecodeReader &reader) const override {
    uint64_t kind = 0;
    if (failed(reader.readVarInt(kind)))
      return {};
    switch (kind) {
    case kRows:
      return readRows(reader);
    case kPieces:
      return readRanked<PiecesAttr>(reader);
    case kShards:
      return readRanked<ShardsAttr>(reader);
    default:
      reader.emitError("unknown dt attribute kind ") << kind;
      return {};
    }
  }

private:
  template <typename AttrT>
  static LogicalResult writeRanked(AttrKind kind, AttrT attr,
                                   DialectBytecodeWriter &writer) {
    writer.writeVarInt(kind);
    writer.writeVarInt(attr.getRank());
    writer.writeAttribute(attr.getRows());
    return success();
  }

  template <typename AttrT>
  static Attribute readRanked(DialectBytecodeReader &reader) {
    uint64_t rank = 0;
    RowsAttr rows;
    if (failed(reader.readVarInt(rank)) || failed(reader.readAttribute(rows)))
      return {};
    return AttrT::getChecked([&] { return reader.emitError(); },
                             reader.getContext(), unsigned(rank), rows);
  }

  static Attribute readRows(DialectBytecodeReader &reader) {
    uint64_t numColumns = 0;
    SmallVector<int64_t> classes, table;
    if (failed(reader.readVarInt(numColumns)) ||
        failed(reader.readSignedVarInts(classes)) ||
        failed(reader.readSignedVarInts(table)))
      return {};
    return RowsAttr::getChecked([&] { return reader.emitError(); },
                                reader.getContext(), unsigned(numColumns),
                                ArrayRef(classes), ArrayRef(table));
  }
};
} // namespace

void DTDialect::initialize() {
  registerAttributes();
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "dt/Dialect/DtOps.cpp.inc"
      >();
  addInterfaces<RowBytecode>();
}

void DTDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dt/Dialect/DtAttrs.cpp.inc"
      >();
}

void DTDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dt/Dialect/DtTypes.cpp.inc"
      >();
}

} // namespace dt
