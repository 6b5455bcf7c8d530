//===- RoutingOps.td - Each destination byte and its source -*- tablegen -*-==//

#ifndef DT_DIALECT_ROUTINGOPS_TD
#define DT_DIALECT_ROUTINGOPS_TD

include "dt/Dialect/DtInterfaces.td"
include "dt/Dialect/RowAttrs.td"

/// Ops on pieces of one param. `for` names the states; without it, all.
class DT_MovementOp<string mnemonic, list<Trait> traits = []>
    : DT_Op<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<SymbolUserOpInterface>,
        DT_MovementOpInterface], traits)> {
  dag common = (ins FlatSymbolRefAttr:$param,
    OptionalAttr<StrArrayAttr>:$states, DT_PiecesAttr:$pieces);
  let arguments = common;
  let assemblyFormat = "$param (`for` $states^)? $pieces attr-dict";
  string sharedVerifySymbolUses = [{
    ::llvm::LogicalResult $cppClass::verifySymbolUses(
        ::mlir::SymbolTableCollection &tables) {
      return ::dt::verifyMovement(*this, tables);
    }
  }];
  let extraClassDefinition = sharedVerifySymbolUses;
}

def DT_KeepOp : DT_MovementOp<"keep", [DT_RoutingLevel, DT_TransportLevel]> {
  let opDocGroup = DT_RoutingChapter;
  let summary = "destination bytes that their device already holds in place";
  let description = [{
    The device's shards of these states are the same on both sides. In flat
    memory what stays at the transport level has one storage for both, which
    neither comes nor goes. In mode rollback they are distinct storage all the
    same, and programs copy from one to the other; a trainer that gives one
    tensor for both sides has nothing written to it.

    **Constraints:**
    - `from` and `to` are the same device;
    - the pieces are inside the param; the states are the param's.

    Example:
    ```mlir
    dt.keep @norm <[i: 2] on i at [0, 0] size [32, 4096]>
    ```
  }];
  let hasVerifier = 1;
}

def DT_CopyOp : DT_MovementOp<"copy", [DT_RoutingLevel, DT_TransportLevel]> {
  let opDocGroup = DT_RoutingChapter;
  let summary = "copies pieces on one device, from source to destination shard";
  let description = [{
    In flat memory a copy may run beside the messages of the wave that follows,
    which then says its number: on devices that have a part in that wave.

    **Constraints:**
    - `from` and `to` are the same device;
    - the pieces are inside the param; the states are the param's.

    Example:
    ```mlir
    dt.copy @proj <[i: 32] on 0 at [i, 0, 0] size [1, 4096, 1024]>
    ```
  }];
  let arguments = !con(common, (ins DefaultValuedProp<I64Prop, "-1">:$wave));
  let assemblyFormat = [{
    $param (`for` $states^)? $pieces (`wave` $wave^)? attr-dict
  }];
  let hasVerifier = 1;
}

def DT_DeriveOp : DT_MovementOp<"derive", [DT_RoutingLevel, DT_TransportLevel]> {
  let summary = "makes pieces from another state that their device gets anyway";
  let description = [{
    Every element is that of the state named by `from` in the param's states,
    as it has arrived on the device, with its dtype changed.

    **Constraints:**
    - `from` and `to` are the same device;
    - the pieces are inside the param; the states are the param's.

    Example:
    ```mlir
    dt.derive @bias for ["param"] <on 3 at [0, 2048] size [32, 64]>
    ```
  }];
  let hasVerifier = 1;
}

def DT_TransferOp : DT_MovementOp<"transfer", [DT_RoutingLevel]> {
  let opDocGroup = DT_RoutingChapter;
  let summary = "moves pieces between devices";
  let description = [{
    Hop 0 reads from a device that holds the piece at the source; hop 1 from
    one that received it at hop 0 (data that crosses the network once and fans
    out inside a node), and so on. Without a hop pieces are of hop 0; those of
    other hops follow.

    **Constraints:**
    - `from` and `to` are different devices; hops are not negative, and ascend;
    - the pieces are inside the param; the states are the param's.

    Example:
    ```mlir
    dt.transfer @proj <[i: 32, j: 3] from j + 1 to 0 at [i, 0, j * 1024] size [1, 4096, 1024]> hop 0
    ```
  }];
  // By hop: its number, and how many classes and rows of the pieces it has.
  let arguments = !con(common, (ins DT_OptionalInts:$hops));
  let assemblyFormat = [{
    $param (`for` $states^)? custom<Hops>($pieces, $hops) attr-dict
  }];
  let builders = [
    // Pieces of one hop or several, in any order.
    OpBuilder<(ins "::mlir::FlatSymbolRefAttr":$param,
                   "::mlir::ArrayAttr":$states,
                   "::llvm::ArrayRef<::dt::HopPieces>":$parts)>,
  ];
  let extraClassDeclaration = [{
    /// The pieces hop by hop, ascending.
    ::llvm::SmallVector<::dt::HopPieces, 1> byHop();
    int64_t lastHop();
    void setByHop(::llvm::ArrayRef<::dt::HopPieces> parts);
  }];
  let hasVerifier = 1;
}

def DT_PatternScatter : EnumCase<"Scatter", 1, "scatter", 8>;
def DT_PatternGather : EnumCase<"Gather", 2, "gather", 8>;
def DT_PatternAllToAll : EnumCase<"AllToAll", 3, "all_to_all", 8>;
def DT_PatternBroadcast : EnumCase<"Broadcast", 4, "broadcast", 8>;
def DT_PatternAllGather : EnumCase<"AllGather", 5, "all_gather", 8>;
// The router's own enum, and as wide: none is made of this, and Dialect.h
// parses it.
def DT_Pattern : IntEnum<"Pattern", "which collective transfers form",
                         [DT_PatternScatter, DT_PatternGather,
                          DT_PatternAllToAll, DT_PatternBroadcast,
                          DT_PatternAllGather], 8> {
  let cppNamespace = "::dt";
}
/// As of a side, EnumProp itself keeps the low bits of a number.
def DT_PatternProp : EnumProp<DT_Pattern> {
  let convertFromAttribute = [{
    auto number = ::llvm::dyn_cast_if_present<::mlir::IntegerAttr>($_attr);
    if (!number || number.getValue().ult(1) || number.getValue().ugt(5))
      return $_diag() << "expected a kind of collective from 1 (scatter) to 5 "
                         "(all_gather), found "
                      << $_attr;
    $_storage = static_cast<::dt::Pattern>(number.getValue().getZExtValue());
    return ::mlir::success();
  }];
}

def DT_CollectiveOp : DT_BodyOp<"collective", [DT_RoutingLevel,
    HasParent<"TransitionOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let opDocGroup = DT_RoutingChapter;
  let summary = "transfers that together are a collective";
  let description = [{
    What a person would call them: an all-gather of @qkv over "tp". The body is
    how the data goes, hop by hop, and means what it would mean outside.
    `among` lists rows of (group, device): groups do the same side by side.
    `from` lists, likewise, who has data from the start; without it all have.
    `over` names the axes of a mesh along which the members of a group lie, where
    there are such. `two_level` members are several on several nodes: data comes
    to a node once and is passed on there. Of `uneven` collectives not all parts
    have one size (MPI's v-forms). A `library`'s collective is a call of a
    library's own when it is scheduled, and no messages.

    | kind | each group's data |
    |---|---|
    | `broadcast` | all of it from one member, or members that hold the same, to all others |
    | `scatter` | a part of its own from one member to each of the others |
    | `gather` | the part of each member to the one that is not in `from` |
    | `all_gather` | the parts of several members to all that lack them |
    | `all_to_all` | a part of its own from each member of `from` to each other that receives |

    **Constraints:**
    - only `dt.transfer` of this param and these states inside, at least one,
      between members of one group;
    - groups count from 0 and have two members or more; no device is a member
      twice; what `from` lists are members;
    - at hop 0 only devices of `from` send, and later hops only what they got;
    - the devices send, receive and have parts as the kind says;
    - a library's is a broadcast, an all_gather or an all_to_all of one hop.

    Example:
    ```mlir
    dt.collective all_gather of @proj over ["tp"] of @after
        among <2 columns, [i: 2, j: 2] (i, i * 2 + j)> {
      dt.transfer @proj <[i: 2, j: 2] from i * 2 + j to i * 2 + j * -1 + 1 at [0, 0, j * 2048] size [32, 4096, 2048]>
    }
    ```
  }];
  let arguments = (ins DT_PatternProp:$kind, UnitAttr:$uneven,
    UnitAttr:$two_level, UnitAttr:$library, FlatSymbolRefAttr:$param,
    OptionalAttr<StrArrayAttr>:$states, OptionalAttr<StrArrayAttr>:$axes,
    OptionalAttr<FlatSymbolRefAttr>:$mesh, DT_RowsAttr:$members,
    OptionalAttr<DT_RowsAttr>:$roots);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $kind (`uneven` $uneven^)? (`two_level` $two_level^)? (`library` $library^)?
    `of` $param (`for` $states^)? (`over` $axes^ `of` $mesh)?
    `among` $members (`from` $roots^)? attr-dict-with-keyword $body
  }];
  let extraClassDeclaration = [{
    /// Columns of a row of `members` and `roots`.
    static constexpr unsigned kGroup = 0, kMember = 1, kNumMemberColumns = 2;
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def DT_ZeroOp : DT_MovementOp<"zero", [DT_RoutingLevel, DT_TransportLevel]> {
  let opDocGroup = DT_RoutingChapter;
  let summary = "padding of the destination";
  let description = [{
    Pieces have padded coordinates, outside the param's own shape. They are
    written as zeros, or as the `fill` of the tensor says.

    **Constraints:**
    - `from` and `to` are the same device; the states are the param's.

    Example:
    ```mlir
    dt.zero @norm <on 1 at [0, 4096] size [32, 64]>
    ```
  }];
  let hasVerifier = 1;
}

#endif // DT_DIALECT_ROUTINGOPS_TD
