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
    **Constraints:**
    - `from` and `to` are the same device;
    - the pieces are inside the param; the states are the param's.

    Example:
    ```mlir
    dt.copy @proj <[i: 32] on 0 at [i, 0, 0] size [1, 4096, 1024]>
    ```
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
    out inside a node), and so on.

    **Constraints:**
    - `from` and `to` are different devices; the hop is not negative;
    - the pieces are inside the param; the states are the param's.

    Example:
    ```mlir
    dt.transfer @proj <[i: 32, j: 3] from j + 1 to 0 at [i, 0, j * 1024] size [1, 4096, 1024]> hop 0
    ```
  }];
  let arguments = !con(common, (ins DefaultValuedProp<I64Prop, "0">:$hop));
  let assemblyFormat = [{
    $param (`for` $states^)? $pieces (`hop` $hop^)? attr-dict
  }];
  let hasVerifier = 1;
}

def DT_ZeroOp : DT_MovementOp<"zero", [DT_RoutingLevel, DT_TransportLevel]> {
  let opDocGroup = DT_RoutingChapter;
  let summary = "padding of the destination, written as zeros";
  let description = [{
    Pieces have padded coordinates, outside the param's own shape.

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
