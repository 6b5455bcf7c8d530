//===- ProgramOps.td - What one device does ----------------*- tablegen -*-===//

#ifndef DT_DIALECT_PROGRAMOPS_TD
#define DT_DIALECT_PROGRAMOPS_TD

include "dt/Dialect/RowAttrs.td"

class DT_ProgramLevelOp<string mnemonic, list<Trait> traits = []>
    : DT_Op<mnemonic, !listconcat([DT_ProgramLevel], traits)>;

/// Ops that belong to a wave; -1 is local work outside all waves.
defvar waveProp = DefaultValuedProp<I64Prop, "-1">;

def DT_ViewArray : TypedArrayAttrBase<DT_ViewAttr, "list of views">;

def DT_ProgramOp : DT_BodyOp<"program", [DT_ProgramLevel, IsolatedFromAbove,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let opDocGroup = DT_ProgramChapter;
  let summary = "what one device does in a transition";
  let description = [{
    Runs top to bottom. The ranks are those that the device has in the two
    worlds, if any. `staging` is the arena that its slots are in. What no
    `dt.create_shard` creates exists from the start.

    **Constraints:**
    - the transition exists; slots are inside the arena;
    - shards come first, groups are in ascending wave order.

    Example:
    ```mlir
    dt.program @shrink device 1 source rank 1 destination rank 0 staging 8388608 {
      %new = dt.shard destination @proj <[[0:1], [0:4096], [0:512]] leading 1> : !dt.buffer<4194304>
      %slot = dt.slot at 0 : !dt.buffer<4194304>
      dt.group wave 0 {
        dt.recv %slot from 2 : !dt.buffer<4194304>
      }
      dt.unpack %slot into %new at [#dt.view<[0, 0, 0] size [1, 4096, 512]>] wave 0 : !dt.buffer<4194304> into !dt.buffer<4194304>
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$transition, I64Prop:$device,
    DefaultValuedProp<I64Prop, "-1">:$sourceRank,
    DefaultValuedProp<I64Prop, "-1">:$destinationRank,
    DefaultValuedProp<I64Prop, "0">:$staging);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $transition `device` $device (`source` `rank` $sourceRank^)?
    (`destination` `rank` $destinationRank^)? (`staging` $staging^)?
    attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def DT_SideSource : EnumCase<"Source", 0, "source", 8>;
def DT_SideDestination : EnumCase<"Destination", 1, "destination", 8>;
// The runtime's own enum, and as wide: none is made of this, and Dialect.h
// parses it.
def DT_Side : IntEnum<"Side", "which layout a shard belongs to",
                      [DT_SideSource, DT_SideDestination], 8> {
  let cppNamespace = "::dtrt";
}
/// EnumProp itself keeps the low bits of a number, so that 256 was a source.
def DT_SideProp : EnumProp<DT_Side> {
  let convertFromAttribute = [{
    auto number = ::llvm::dyn_cast_if_present<::mlir::IntegerAttr>($_attr);
    if (!number || number.getValue().ugt(1))
      return $_diag() << "expected side 0 (source) or 1 (destination), found "
                      << $_attr;
    $_storage = static_cast<::dtrt::Side>(number.getValue().getZExtValue());
    return ::mlir::success();
  }];
}
def DT_ShardOp : DT_ProgramLevelOp<"shard", [Pure, HasParent<"ProgramOp">]> {
  let opDocGroup = DT_ProgramChapter;
  let summary = "the storage of one shard of this device";
  let description = [{
    One buffer for all members of the family and the states named; `as` names
    the tensor of its side that it is a part of, where that is a view of the
    param.

    **Constraints:**
    - the buffer has a positive size.

    Example:
    ```mlir
    %old = dt.shard source @proj for ["param"] <[[0:1], [0:4096], [0:512]] leading 1> : !dt.buffer<4194304>
    ```
  }];
  let arguments = (ins DT_SideProp:$side, FlatSymbolRefAttr:$param,
    OptionalAttr<DT_TensorAttr>:$tensor, OptionalAttr<StrArrayAttr>:$states,
    DT_ShardAttr:$shard);
  let results = (outs DT_Buffer:$buffer);
  let assemblyFormat = [{
    $side $param (`as` $tensor^)? (`for` $states^)? $shard attr-dict `:` qualified(type($buffer))
  }];
}

def DT_SlotOp : DT_ProgramLevelOp<"slot", [Pure, HasParent<"ProgramOp">]> {
  let opDocGroup = DT_ProgramChapter;
  let summary = "a range of the staging arena";
  let description = [{
    **Constraints:**
    - [offset, offset + bytes) is inside the program's staging.

    Example:
    ```mlir
    %slot = dt.slot at 8388608 : !dt.buffer<4194304>
    ```
  }];
  let arguments = (ins I64Prop:$offset);
  let results = (outs DT_Buffer:$buffer);
  let assemblyFormat = "`at` $offset attr-dict `:` qualified(type($buffer))";
  let hasVerifier = 1;
}

def DT_PackOp : DT_ProgramLevelOp<"pack", [HasParent<"ProgramOp">]> {
  let opDocGroup = DT_ProgramChapter;
  let summary = "gathers views of shards into a slot";
  let description = [{
    View i is of shard i; they follow each other in the slot without gaps:
    per view the states in order, per state the members, per member the box,
    all row-major.

    **Constraints:**
    - as many views as shards.

    Example:
    ```mlir
    dt.pack %old at [#dt.view<[0, 0, 0] size [1, 4096, 512]>] into %slot wave 0 : !dt.buffer<4194304> into !dt.buffer<4194304>
    ```
  }];
  let arguments = (ins
    Arg<Variadic<DT_Buffer>, "the shards read", [MemRead]>:$shards,
    DT_ViewArray:$views, Arg<DT_Buffer, "the slot", [MemWrite]>:$slot,
    waveProp:$wave);
  let assemblyFormat = [{
    $shards `at` $views `into` $slot (`wave` $wave^)? attr-dict `:`
    qualified(type($shards)) `into` qualified(type($slot))
  }];
  let hasVerifier = 1;
}

def DT_UnpackOp : DT_ProgramLevelOp<"unpack", [HasParent<"ProgramOp">]> {
  let opDocGroup = DT_ProgramChapter;
  let summary = "scatters a slot to views of shards";
  let description = [{
    The reverse of `dt.pack`.

    **Constraints:**
    - as many views as shards.

    Example:
    ```mlir
    dt.unpack %slot into %new at [#dt.view<[0, 0, 0] size [1, 4096, 512]>] wave 0 : !dt.buffer<4194304> into !dt.buffer<4194304>
    ```
  }];
  let arguments = (ins Arg<DT_Buffer, "the slot", [MemRead]>:$slot,
    Arg<Variadic<DT_Buffer>, "the shards written", [MemWrite]>:$shards,
    DT_ViewArray:$views, waveProp:$wave);
  let assemblyFormat = [{
    $slot `into` $shards `at` $views (`wave` $wave^)? attr-dict `:`
    qualified(type($slot)) `into` qualified(type($shards))
  }];
  let hasVerifier = 1;
}

def DT_RelayOp : DT_ProgramLevelOp<"relay", [HasParent<"ProgramOp">]> {
  let opDocGroup = DT_ProgramChapter;
  let summary = "says what a slot received, which is sent on from there";
  let description = [{
    The device keeps nothing of it, so that view i is of a param, i of `params`,
    and not of a shard; views follow each other in the slot as in `dt.pack`.
    Views without states are of all of their param's.

    **Constraints:**
    - as many views as params, which exist.

    Example:
    ```mlir
    dt.relay %slot of [@proj] at [#dt.view<[0, 0, 0] size [1, 4096, 512]>] wave 1 : !dt.buffer<4194304>
    ```
  }];
  let arguments = (ins Arg<DT_Buffer, "the slot", [MemRead]>:$slot,
    TypedArrayAttrBase<FlatSymbolRefAttr, "list of params">:$params,
    DT_ViewArray:$views, waveProp:$wave);
  let assemblyFormat = [{
    $slot `of` $params `at` $views (`wave` $wave^)? attr-dict `:`
    qualified(type($slot))
  }];
  let hasVerifier = 1;
}

def DT_CopyLocalOp : DT_ProgramLevelOp<"copy_local",
    [HasParent<"ProgramOp">, AttrSizedOperandSegments]> {
  let opDocGroup = DT_ProgramChapter;
  let summary = "copies views of shards to views of others";
  let description = [{
    View i of what is read goes to view i of what is written: the same box, of
    other states where one is made from another. A copy of a wave may run beside
    its group, which is the next one.

    **Constraints:**
    - as many shards and views on both sides.

    Example:
    ```mlir
    dt.copy_local %old at [#dt.view<[0, 0, 0] size [1, 4096, 256]>] to %new at [#dt.view<[0, 0, 0] size [1, 4096, 256]>] : !dt.buffer<4194304> to !dt.buffer<4194304>
    ```
  }];
  let arguments = (ins
    Arg<Variadic<DT_Buffer>, "the shards read", [MemRead]>:$sources,
    DT_ViewArray:$sourceViews,
    Arg<Variadic<DT_Buffer>, "the shards written", [MemWrite]>:$destinations,
    DT_ViewArray:$destinationViews, waveProp:$wave);
  let assemblyFormat = [{
    $sources `at` $sourceViews `to` $destinations `at` $destinationViews
    (`wave` $wave^)? attr-dict `:` qualified(type($sources)) `to` qualified(type($destinations))
  }];
  let hasVerifier = 1;
}

def DT_ZeroFillOp : DT_ProgramLevelOp<"zero_fill", [HasParent<"ProgramOp">]> {
  let opDocGroup = DT_ProgramChapter;
  let summary = "writes padding to views of shards";
  let description = [{
    Zeros, or what the `fill` of a shard's tensor says.

    **Constraints:**
    - as many views as shards.

    Example:
    ```mlir
    dt.zero_fill %new at [#dt.view<[0, 4096, 0] size [1, 64, 512]>] : !dt.buffer<4194304>
    ```
  }];
  let arguments = (ins
    Arg<Variadic<DT_Buffer>, "the shards written", [MemWrite]>:$shards,
    DT_ViewArray:$views);
  let assemblyFormat = [{
    $shards `at` $views attr-dict `:` qualified(type($shards))
  }];
  let hasVerifier = 1;
}

def DT_GroupOp : DT_BodyOp<"group", [DT_ProgramLevel, HasParent<"ProgramOp">,
                                     AttrSizedOperandSegments]> {
  let opDocGroup = DT_ProgramChapter;
  let summary = "messages that start together, one group per wave";
  let description = [{
    With `call` it is a part in a library's collective: `gives` and `gets` are the
    device's blocks. What is inside then says what the collective brings: each
    lies in the block that is its pair's, and is no message.

    **Constraints:**
    - only `dt.send` and `dt.recv` inside, at most one of each per peer;
    - the wave is not negative;
    - of a call, the device and all peers are members, what is inside names
      slots, and `gives` and `gets` are slots of as many bytes as the device has
      blocks there; where it has none, they are left out.

    Example:
    ```mlir
    dt.group wave 0 {
      dt.send %slot to 2 : !dt.buffer<4194304>
    }
    dt.group wave 1 call <broadcast among [0, 1, 2] from 0 blocks 4194304> gets %slot : !dt.buffer<4194304> {
      dt.recv %slot from 0 : !dt.buffer<4194304>
    }
    ```
  }];
  let arguments = (ins I64Prop:$wave, OptionalAttr<DT_CallAttr>:$call,
    Optional<DT_Buffer>:$given, Optional<DT_Buffer>:$got);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `wave` $wave (`call` $call^)? (`gives` $given^ `:` qualified(type($given)))?
    (`gets` $got^ `:` qualified(type($got)))? attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

class DT_MessageOp<string mnemonic>
    : DT_ProgramLevelOp<mnemonic, [HasParent<"GroupOp">]>;

def DT_SendOp : DT_MessageOp<"send"> {
  let opDocGroup = DT_ProgramChapter;
  let summary = "sends a slot, or a contiguous view of a shard, to a device";
  let description = [{
    **Constraints:**
    - the peer is not negative; a shard needs `at`, a slot has none.

    Example:
    ```mlir
    dt.send %old at <[0, 0, 0] size [1, 4096, 512]> to 0 : !dt.buffer<4194304>
    ```
  }];
  let arguments = (ins Arg<DT_Buffer, "what is sent", [MemRead]>:$buffer,
    OptionalAttr<DT_ViewAttr>:$view, I64Prop:$peer);
  let assemblyFormat = [{
    $buffer (`at` $view^)? `to` $peer attr-dict `:` qualified(type($buffer))
  }];
  let hasVerifier = 1;
}

def DT_RecvOp : DT_MessageOp<"recv"> {
  let opDocGroup = DT_ProgramChapter;
  let summary = "receives a slot, or a contiguous view of a shard";
  let description = [{
    **Constraints:**
    - the peer is not negative; a shard needs `at`, a slot has none.

    Example:
    ```mlir
    dt.recv %slot from 2 : !dt.buffer<4194304>
    ```
  }];
  let arguments = (ins Arg<DT_Buffer, "what is filled", [MemWrite]>:$buffer,
    OptionalAttr<DT_ViewAttr>:$view, I64Prop:$peer);
  let assemblyFormat = [{
    $buffer (`at` $view^)? `from` $peer attr-dict `:` qualified(type($buffer))
  }];
  let hasVerifier = 1;
}

class DT_StorageShardOp<string mnemonic, string effect, list<MemoryEffect> effects>
    : DT_ProgramLevelOp<mnemonic, [HasParent<"ProgramOp">]> {
  let opDocGroup = DT_ProgramChapter;
  let arguments = (ins Arg<Variadic<DT_Buffer>, effect, effects>:$shards,
    DT_ViewArray:$views);
  let assemblyFormat = [{
    $shards `at` $views attr-dict `:` qualified(type($shards))
  }];
  let hasVerifier = 1;
}

def DT_CreateShardOp : DT_StorageShardOp<"create_shard", "what is made",
                                         [MemAlloc]> {
  let summary = "creates storage of destination shards (flat mode)";
  let description = [{
    View i names storage of shard i: members by the leading dims, then a range
    of each member's stored elements.

    **Constraints:**
    - each shard is of the destination; as many views as shards;
    - a view has the leading dims and one more.

    Example:
    ```mlir
    dt.create_shard %new at [#dt.view<[0, 0] size [1, 1048576]>] : !dt.buffer<4194304>
    ```
  }];
}

def DT_ReleaseShardOp : DT_StorageShardOp<"release_shard", "what is freed",
                                          [MemFree]> {
  let summary = "releases storage of source shards (flat mode)";
  let description = [{
    Views name storage as those of `dt.create_shard` do.

    **Constraints:**
    - each shard is of the source; as many views as shards;
    - a view has the leading dims and one more.

    Example:
    ```mlir
    dt.release_shard %old at [#dt.view<[0, 0] size [1, 1048576]>] : !dt.buffer<4194304>
    ```
  }];
}

#endif // DT_DIALECT_PROGRAMOPS_TD
