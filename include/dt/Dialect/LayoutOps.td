//===- LayoutOps.td - What exists, and who holds it --------*- tablegen -*-===//

#ifndef DT_DIALECT_LAYOUTOPS_TD
#define DT_DIALECT_LAYOUTOPS_TD

include "dt/Dialect/RowAttrs.td"

def DT_SpaceOp : DT_BodyOp<"space", [SymbolTable, Symbol, DT_LayoutLevel,
                                     IsolatedFromAbove]> {
  let opDocGroup = DT_LayoutChapter;
  let summary = "the Virtual Parameter Space: every state tensor, unsharded";
  let description = [{
    Holds one `dt.param` per tensor or tensor family, in registration order.

    **Constraints:**
    - only `dt.param` ops inside; no two of them name one tensor;
    - at most 2^18 tensors, of 2^60 bytes together.

    Example:
    ```mlir
    dt.space @model {
      dt.param @norm [4096] of <param = bf16>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def DT_ParamOp : DT_Op<"param", [Symbol, DT_LayoutLevel,
                                 HasParent<"SpaceOp">]> {
  let opDocGroup = DT_LayoutChapter;
  let summary = "one tensor, or a family of tensors of one shape";
  let description = [{
    The shape is the full one; the first dims (as many as `named` lists
    numbers for) enumerate the members of a family: index i stands for number
    first + step * i, put into the name at that dim's `{}`. Without `named`
    the tensor's name is the symbol's.

    Both layouts have all of a param, but of a `partial` one: a set of values,
    such as one per coordinate of some axes, of which a layout may lack some.

    `order` gives the position in registration order (it decides ZeRO
    buckets): base plus one stride per leading dim; without it, the position
    in the space.

    Numbers that have no one step are a list in braces, one for each index, and
    so are distances in registration order: of layers of one kind among others,
    and of what layers of several kinds have at different places.

    `storage` names a group: all tensors of params of that group that a device
    holds share one storage for each state, which comes and goes whole in
    memory of mode `flat by tensor`.

    **Constraints:**
    - dims are positive, at most 8; all states together have at most 2^60
      bytes;
    - the name is UTF-8 without control characters, of at most 1024 bytes, and
      has one `{}` per leading dim; steps are not 0;
    - so is that of a storage, without `{}`;
    - `order` has one stride per leading dim;
    - a list is as long as its dim, and has distinct numbers that are not of one
      step; one of an order begins with 0.

    Example:
    ```mlir
    dt.param @qkv [32, 12288, 4096] of <param = bf16, master = f32>
        named "layers.{}.qkv" [0 step 1] order 7 + [263]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
    DT_Ints:$shape, DT_StatesAttr:$states, OptionalAttr<StrAttr>:$tensor,
    DT_OptionalInts:$leading_first, DT_OptionalInts:$leading_step,
    DT_OptionalInts:$leading_lists,
    DefaultValuedProp<I64Prop, "-1">:$order, DT_OptionalInts:$order_strides,
    DT_OptionalInts:$order_lists,
    UnitAttr:$partial, OptionalAttr<StrAttr>:$storage);
  let assemblyFormat = [{
    $sym_name custom<Ints>($shape) `of` $states (`partial` $partial^)?
    `` custom<Naming>($tensor, $leading_first, $leading_step, $leading_lists)
    `` custom<Order>($order, $order_strides, $order_lists) (`storage` $storage^)? attr-dict
  }];
  let builders = [
    // A single tensor, as importers make thousands of.
    OpBuilder<(ins "::llvm::StringRef":$name,
                   "::llvm::ArrayRef<int64_t>":$shape,
                   "::dt::StatesAttr":$states)>,
  ];
  let extraClassDeclaration = [{
    unsigned numLeading() { return getLeadingFirst().size(); }
    unsigned rank() { return getShape().size(); }
    int64_t numMembers();
    /// The tensor name, with one "{}" per leading dim.
    ::llvm::StringRef nameTemplate();
    /// The name of one member; one index per leading dim.
    std::string memberName(::llvm::ArrayRef<int64_t> member);
    /// By leading dim: the numbers in the names of members, and how far these
    /// stand behind the first in registration order; none where it has none.
    std::vector<::dt::Sequence> numbers();
    std::vector<::dt::Sequence> orderOffsets();
    void setNumbers(::llvm::ArrayRef<::dt::Sequence> numbers);
    void setOrderOffsets(::llvm::ArrayRef<::dt::Sequence> offsets);
    /// Calls fn with one index per leading dim for each member, the last
    /// fastest; stops where it fails.
    ::llvm::LogicalResult forEachMember(
        ::llvm::function_ref<::llvm::LogicalResult(::llvm::ArrayRef<int64_t>)>
            fn);
  }];
  let hasVerifier = 1;
}

def DT_MeshOp : DT_Op<"mesh", [Symbol, DT_LayoutLevel]> {
  let opDocGroup = DT_LayoutChapter;
  let summary = "names an arrangement of devices along axes";
  let description = [{
    Example:
    ```mlir
    dt.mesh @dense <["pp"=2, "dp"=2, "tp"=2]>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, DT_MeshAttr:$mesh);
  let assemblyFormat = "$sym_name $mesh attr-dict";
}

def DT_LayoutOp : DT_BodyOp<"layout", [Symbol, DT_LayoutLevel,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let opDocGroup = DT_LayoutChapter;
  let summary = "which rank holds which part of every param of a space";
  let description = [{
    Several meshes may arrange the same ranks (dense and expert axes); the
    first is the default of the places inside. `devices` gives the physical
    device of each rank where no mesh does. `zero` describes the buckets that
    cut the `bucketed` places.

    **Constraints:**
    - each mesh has `world` ranks, at most 2^17, all with the same devices;
    - each state of each param is placed, and once only (checked by
      `--dt-verify-layout`);
    - `zero` lists axes for each mesh.

    Example:
    ```mlir
    dt.layout @src of @model on [@dense, @expert] world 8
        zero <[["dp"], ["edp"]] bucket 40000000> {
      dt.place @norm [{} ]
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$space,
    OptionalAttr<FlatSymbolRefArrayAttr>:$meshes, I64Prop:$world,
    DT_OptionalInts:$devices, OptionalAttr<DT_ZeroAttr>:$zero);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `of` $space (`on` $meshes^)? `world` $world
    (`devices` custom<Ints>($devices)^)? (`zero` $zero^)?
    attr-dict-with-keyword $body
  }];
  let extraClassDeclaration = [{
    ::dt::SpaceOp lookupSpace(::mlir::SymbolTableCollection &tables);
    ::dt::MeshOp lookupMesh(::mlir::SymbolTableCollection &tables,
                            ::mlir::FlatSymbolRefAttr name);
    /// Device of each rank, `world` of them; nullopt when it is the rank.
    std::optional<::llvm::ArrayRef<int64_t>>
    lookupDevices(::mlir::SymbolTableCollection &tables);
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def DT_PlaceOp : DT_Op<"place", [DT_LayoutLevel, HasParent<"LayoutOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let opDocGroup = DT_LayoutChapter;
  let summary = "which rank holds which part of some states of one param";
  let description = [{
    Either a placement over a mesh of the layout, or explicit shards. Without
    `on` the layout's first mesh, without `for` all states. With `as` it places
    a tensor of this side that is a view of the param, in the coordinates of
    that tensor; leading dims are the param's. `bucketed` states
    are cut by the layout's ZeRO buckets after the placement has cut them:
    `alone` puts the param into a bucket of its own (Megatron-Core's
    shared_embedding).

    **Constraints:**
    - the placement has one entry per dim of the param (or of the tensor), its
      axes are the mesh's, and its cuts, blocks and owners fit the dim and the
      axis;
    - shards are inside the param, on ranks of the world;
    - the tensor has one number per leading dim of the param, and of every inner
      dim a part; tensors of a layout have different names, and every element
      of the param is in one of them (checked by `--dt-verify-layout`);
    - the states are the param's; `bucketed` needs a placement, and `zero` on
      the layout; `alone` needs `bucketed`.

    Example:
    ```mlir
    dt.place @heads on @dense for ["param", "grad"] [{"pp" cuts [0, 17, 32]}, {"tp"}, {} ]
    dt.place @norm shards [i: 4] rank i at [i * 1024] size [1024]
    dt.place @qkv as <"h.{}.k" [0] order 1, [{4:5 by 6 x 2}, {0:64} ]> [{}, {"tp"}, {} ]
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$param,
    OptionalAttr<DT_TensorAttr>:$tensor,
    OptionalAttr<FlatSymbolRefAttr>:$mesh, OptionalAttr<StrArrayAttr>:$states,
    AnyAttrOf<[DT_PlacementAttr, DT_ShardsAttr]>:$how, UnitProp:$bucketed,
    UnitProp:$alone);
  let assemblyFormat = [{
    $param (`as` $tensor^)? (`on` $mesh^)? (`for` $states^)? custom<Holder>($how)
    (`bucketed` $bucketed^)? (`alone` $alone^)? attr-dict
  }];
  let extraClassDeclaration = [{
    ::dt::ParamOp lookupParam(::mlir::SymbolTableCollection &tables);
    /// What is placed: the param's leading dims, then the inner dims of the
    /// tensor or of the param.
    std::vector<int64_t> placedShape(::dt::ParamOp param);
    /// What errors call it: "@qkv", "'k_proj' of @qkv".
    std::string placedName();
    /// The mesh of the placement: its own, or the layout's first.
    ::dt::MeshOp lookupMesh(::mlir::SymbolTableCollection &tables);
    /// Its holdings, by device, in the coordinates of what is placed. A
    /// `bucketed` place is evaluated as its placement cuts it, before the
    /// buckets do. On a placement that does not fit, emits an error at the op.
    ::mlir::FailureOr<std::vector<::dt::Holding>>
    evaluate(::mlir::SymbolTableCollection &tables);
  }];
  let hasVerifier = 1;
}

def DT_TransitionOp : DT_BodyOp<"transition", [Symbol, DT_LayoutLevel,
    IsolatedFromAbove, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let opDocGroup = DT_LayoutChapter;
  let summary = "the change from one layout to another";
  let description = [{
    Its body is empty at the layout level; routing and transport ops fill it. At
    the transport level it runs top to bottom on every device that an op names.
    Where it has relays, `seconds_without_relays` is what its schedule was
    predicted to take without.

    **Constraints:**
    - both layouts are of the same space;
    - the devices that the ops inside name belong to the layouts;
    - staging has room for what compression takes.

    Example:
    ```mlir
    dt.transition @shrink from @src to @dst
        cluster <8 per node, intra 200.0, inter 25.0, latency 10.0>
        memory <staging 1073741824, rollback>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$source,
    FlatSymbolRefAttr:$destination, OptionalAttr<DT_ClusterAttr>:$cluster,
    OptionalAttr<DT_MemoryAttr>:$memory,
    OptionalAttr<DT_CompressionAttr>:$compression,
    OptionalAttr<F64Attr>:$seconds_without_relays);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `from` $source `to` $destination (`cluster` $cluster^)?
    (`memory` $memory^)? (`compression` $compression^)?
    attr-dict-with-keyword `` custom<OptionalBody>($body)
  }];
  let extraClassDeclaration = [{
    ::dt::LayoutOp lookupSource(::mlir::SymbolTableCollection &tables);
    ::dt::LayoutOp lookupDestination(::mlir::SymbolTableCollection &tables);
    ::dt::SpaceOp lookupSpace(::mlir::SymbolTableCollection &tables);
  }];
}

#endif // DT_DIALECT_LAYOUTOPS_TD
