//===- TransportOps.td - Order, concurrency and memory -----*- tablegen -*-===//

#ifndef DT_DIALECT_TRANSPORTOPS_TD
#define DT_DIALECT_TRANSPORTOPS_TD

include "dt/Dialect/RoutingOps.td"

def DT_WaveOp : DT_BodyOp<"wave", [DT_TransportLevel,
                                   HasParent<"TransitionOp">]> {
  let opDocGroup = DT_TransportChapter;
  let summary = "transfers that run concurrently";
  let description = [{
    Waves run in ascending number. All pieces that go from one device to
    another in a wave form one message, packed: first those whose bytes 16
    divides, then those that 8, 4, 2 and 1 do, each in op order. `slots` says
    where in staging each message is: rows of (device, peer, receive 0 or 1,
    offset in bytes, bytes); offset -1 is a direct end, which has no slot.

    **Constraints:**
    - the number is not negative; `slots` has 5 columns;
    - only `dt.sendrecv` and `dt.library_collective` inside;
    - no device has a part in two collectives, or in one and in a message that
      is not of it.

    A slot from a device to itself is of a collective: the blocks that the
    device gives (`receive` 0) and those that it gets.

    Example:
    ```mlir
    dt.wave 0 slots <5 columns, [i: 3] (i + 1, 0, 0, -1, 8388608), [i: 3] (0, i + 1, 1, i * 8388608, 8388608)> {
      dt.sendrecv @proj <[i: 3] from i + 1 to 0 at [0, 0, i * 1024] size [1, 4096, 1024]>
    }
    ```
  }];
  let arguments = (ins I64Prop:$number, OptionalAttr<DT_RowsAttr>:$slots);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $number (`slots` $slots^)? attr-dict-with-keyword $body
  }];
  let extraClassDeclaration = [{
    /// Columns of a row of `slots`.
    static constexpr unsigned kDevice = 0, kPeer = 1, kReceive = 2,
                              kSlotOffset = 3, kBytes = 4, kNumSlotColumns = 5;
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def DT_SendrecvOp : DT_MovementOp<"sendrecv", [DT_TransportLevel,
    ParentOneOf<["WaveOp", "LibraryCollectiveOp"]>]> {
  let opDocGroup = DT_TransportChapter;
  let summary = "moves pieces point to point, both ends in one op";
  let description = [{
    With `to_relay` the receiver keeps nothing: the message stays in its slot,
    and is sent on from there, as it is, by one of a later wave whose pieces are
    `from_relay`. All pieces of a message have the same mark.

    **Constraints:**
    - `from` and `to` are different devices;
    - `to_relay` and `from_relay` do not stand together;
    - the pieces are inside the param; the states are the param's.

    Example:
    ```mlir
    dt.sendrecv @proj <[i: 3] from i + 1 to 0 at [0, 0, i * 1024] size [1, 4096, 1024]>
    ```
  }];
  let arguments = !con(common, (ins UnitProp:$toRelay, UnitProp:$fromRelay));
  let assemblyFormat = [{
    $param (`for` $states^)? $pieces (`to_relay` $toRelay^)?
    (`from_relay` $fromRelay^)? attr-dict
  }];
  let hasVerifier = 1;
}

def DT_LibraryCollectiveOp : DT_BodyOp<"library_collective",
    [DT_TransportLevel, HasParent<"WaveOp">]> {
  let opDocGroup = DT_TransportChapter;
  let summary = "a collective that a library carries out";
  let description = [{
    The body says what each member gets, and from whom: one library's call
    brings all of it. Each pair's pieces lie in a block; all blocks are as large
    as the largest needs. A broadcast gives what is `from` one member to all
    others. Of a broadcast and an all-gather, what a member gives goes to all
    others alike.

    **Constraints:**
    - broadcast, all_gather or all_to_all;
    - two members or more, ascending; `from` is one of them, and only a broadcast
      has it;
    - only `dt.sendrecv` inside, at least one, between members, not relayed.

    Example:
    ```mlir
    dt.library_collective broadcast among [0, 1, 2] from 0 {
      dt.sendrecv @proj <[i: 2] from 0 to i + 1 at [0, 0, 0] size [1, 4096, 1024]>
    }
    ```
  }];
  let arguments = (ins DT_PatternProp:$kind, DenseI64ArrayAttr:$members,
    DefaultValuedProp<I64Prop, "-1">:$root);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $kind `among` $members (`from` $root^)? attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

/// Ops on storage: which elements of which members' buffers.
class DT_StorageOp<string mnemonic>
    : DT_Op<mnemonic, [DT_TransportLevel, HasParent<"TransitionOp">,
        DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let arguments = (ins FlatSymbolRefAttr:$param,
    OptionalAttr<StrArrayAttr>:$states, DT_PiecesAttr:$pieces,
    DefaultValuedProp<I64Prop, "0">:$shard);
  let assemblyFormat = [{
    $param (`for` $states^)? $pieces (`shard` $shard^)? attr-dict
  }];
  let hasVerifier = 1;
}

def DT_CreateOp : DT_StorageOp<"create"> {
  let opDocGroup = DT_TransportChapter;
  let summary = "destination storage that exists from here on (flat mode)";
  let description = [{
    A piece names members by the param's leading dims, and in one dim more the
    elements of each member's storage on that device, counted from its start:
    storage comes by pages, which may be parts of rows. `shard` is which of the
    device's shards of these states is meant, in layout order. What no op creates
    exists from the start.

    **Constraints:**
    - `from` and `to` are the same device; `shard` is not negative;
    - the pieces have one dim more than the param has leading dims.

    Example:
    ```mlir
    dt.create @proj for ["param"] <on 0 at [0, 0] size [32, 4194304]>
    ```
  }];
}

def DT_ReleaseOp : DT_StorageOp<"release"> {
  let opDocGroup = DT_TransportChapter;
  let summary = "source storage that is released here (flat mode)";
  let description = [{
    Pieces are those of `dt.create`, on the source side. What no op releases
    stays to the end.

    **Constraints:**
    - `from` and `to` are the same device; `shard` is not negative;
    - the pieces have one dim more than the param has leading dims.

    Example:
    ```mlir
    dt.release @proj for ["param"] <[i: 3] on i + 1 at [0, 0] size [32, 4194304]>
    ```
  }];
}

#endif // DT_DIALECT_TRANSPORTOPS_TD
