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
    another in a wave form one message: in op order, packed. `slots` says
    where each message lies in staging: rows of (device, peer, receive 0 or 1,
    offset in bytes, bytes); offset -1 sends or receives in place.

    **Constraints:**
    - the number is not negative; `slots` has 5 columns;
    - only `dt.sendrecv` and `dt.collective` inside.

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
                                               HasParent<"WaveOp">]> {
  let opDocGroup = DT_TransportChapter;
  let summary = "moves pieces point to point, both ends in one op";
  let description = [{
    **Constraints:**
    - `from` and `to` are different devices;
    - the pieces lie inside the param; the states are the param's.

    Example:
    ```mlir
    dt.sendrecv @proj <[i: 3] from i + 1 to 0 at [0, 0, i * 1024] size [1, 4096, 1024]>
    ```
  }];
  let hasVerifier = 1;
}

def DT_Broadcast : I32EnumCase<"Broadcast", 0, "broadcast">;
def DT_AllGather : I32EnumCase<"AllGather", 1, "all_gather">;
def DT_Scatter : I32EnumCase<"Scatter", 2, "scatter">;
def DT_AllToAll : I32EnumCase<"AllToAll", 3, "all_to_all">;
def DT_CollectiveKind : I32Enum<"CollectiveKind", "how a group moves pieces",
    [DT_Broadcast, DT_AllGather, DT_Scatter, DT_AllToAll]> {
  let cppNamespace = "::dt";
}
def DT_CollectiveOp : DT_MovementOp<"collective", [DT_TransportLevel,
                                                   HasParent<"WaveOp">]> {
  let opDocGroup = DT_TransportChapter;
  let summary = "moves pieces within a group of devices, all taking part";
  let description = [{
    The group is the devices of `among`, or each group along the axes `over`
    of a mesh. `root` is the sending device of a broadcast or scatter.

    **Constraints:**
    - either `among` or `over`, not both; the devices are distinct;
    - `root` only with broadcast and scatter, and then one of `among`;
    - the pieces lie inside the param, on devices of the group.

    Example:
    ```mlir
    dt.collective broadcast @norm <[i: 2] from 0 to i + 1 at [0, 0] size [32, 4096]> among [0, 1, 2] root 0
    dt.collective all_gather @norm <[i: 2] from i to i * -1 + 1 at [i * 16, 0] size [16, 4096]> over ["tp"] of @after
    ```
  }];
  let arguments = !con((ins EnumProp<DT_CollectiveKind>:$kind), common,
    (ins DT_OptionalInts:$devices, OptionalAttr<StrArrayAttr>:$axes,
         OptionalAttr<FlatSymbolRefAttr>:$mesh,
         DefaultValuedProp<I64Prop, "-1">:$root));
  let assemblyFormat = [{
    $kind $param (`for` $states^)? $pieces
    (`among` custom<Ints>($devices)^)? (`over` $axes^ `of` $mesh)?
    (`root` $root^)? attr-dict
  }];
  let hasVerifier = 1;
}

def DT_ReleaseOp : DT_MovementOp<"release", [DT_TransportLevel,
                                             HasParent<"TransitionOp">]> {
  let opDocGroup = DT_TransportChapter;
  let summary = "source regions that no later wave reads";
  let description = [{
    In `flat` mode their storage may be reused once wave `after` has finished;
    -1 stands for before the first wave.

    **Constraints:**
    - `from` and `to` are the same device; `after` is at least -1;
    - the pieces lie inside the param; the states are the param's.

    Example:
    ```mlir
    dt.release @proj <[i: 3] on i + 1 at [0, 0, i * 1024] size [1, 4096, 1024]> after 0
    ```
  }];
  let arguments = !con(common, (ins I64Prop:$after));
  let assemblyFormat = [{
    $param (`for` $states^)? $pieces `after` $after attr-dict
  }];
  let hasVerifier = 1;
}

#endif // DT_DIALECT_TRANSPORTOPS_TD
