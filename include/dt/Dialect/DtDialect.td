//===- DtDialect.td - The dt dialect and its levels --------*- tablegen -*-===//

#ifndef DT_DIALECT_DTDIALECT_TD
#define DT_DIALECT_DTDIALECT_TD

include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/Properties.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def DT_Dialect : Dialect {
  let name = "dt";
  let cppNamespace = "::dt";
  let summary = "live re-layouts of distributed training state";
  let description = [{
    The `dt` dialect says what state a training job holds, how it is laid
    out over devices before and after a change, and, level by level, how it gets
    from one layout to the other:

    | level | ops | says |
    |---|---|---|
    | layout | `space`, `param`, `mesh`, `layout`, `place`, `transition` | what exists, who holds it before and after |
    | routing | `keep`, `copy`, `transfer`, `collective`, `derive`, `zero` | every destination byte, named once, with its source |
    | transport | `wave`, `sendrecv`, `create`, `release` | order, concurrency, memory |
    | program | `program`, `shard`, `slot`, `pack`, `send`, `recv`, `unpack`, ... | what one device does |

    An op names a *class* of pieces (affine images of integer ranges, or a
    table for the irregular rest), never one piece. Sends and receives stay one
    op until the program level.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerTypes();
  }];
}

/// Which levels an op may appear at; the verify pass that closes a level
/// refuses every other op inside a transition or program.
class DT_Level<string name> : NativeOpTrait<name> {
  let cppNamespace = "::dt";
}
def DT_LayoutLevel : DT_Level<"LayoutLevelOp">;
def DT_RoutingLevel : DT_Level<"RoutingLevelOp">;
def DT_TransportLevel : DT_Level<"TransportLevelOp">;
def DT_ProgramLevel : DT_Level<"ProgramLevelOp">;

/// The chapters of docs/Dialect.md.
class DT_Chapter<string name, string text> : OpDocGroup {
  let summary = name;
  let description = text;
}
def DT_LayoutChapter : DT_Chapter<"Layout level",
    "What exists, and who holds it before and after.">;
def DT_RoutingChapter : DT_Chapter<"Routing level",
    "Every destination byte, named once, with its source.">;
def DT_TransportChapter : DT_Chapter<"Transport level",
    "Order, concurrency and memory.">;
def DT_ProgramChapter : DT_Chapter<"Program level", "What one device does.">;

class DT_Op<string mnemonic, list<Trait> traits = []>
    : Op<DT_Dialect, mnemonic, traits>;

/// Ops with one body block without terminator or arguments.
class DT_BodyOp<string mnemonic, list<Trait> traits = []>
    : DT_Op<mnemonic, !listconcat([SingleBlock, NoTerminator,
                                   NoRegionArguments], traits)>;

def DT_Ints : IntArrayProp<I64Prop>;
def DT_OptionalInts : DefaultValuedProp<DT_Ints, "::llvm::ArrayRef<int64_t>{}",
                                        "{}">;

#endif // DT_DIALECT_DTDIALECT_TD
