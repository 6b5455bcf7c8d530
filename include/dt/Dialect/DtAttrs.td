//===- DtAttrs.td - Attributes and types of the dt dialect -*- tablegen -*-===//

#ifndef DT_DIALECT_DTATTRS_TD
#define DT_DIALECT_DTATTRS_TD

include "dt/Dialect/DtDialect.td"
include "mlir/IR/AttrTypeBase.td"

class DT_Attr<string name, string attrMnemonic>
    : AttrDef<DT_Dialect, name> {
  let mnemonic = attrMnemonic;
  let hasCustomAssemblyFormat = 1;
}

//===----------------------------------------------------------------------===//
// Layout level
//===----------------------------------------------------------------------===//

def DT_StatesAttr : DT_Attr<"States", "states"> {
  let summary = "the states of a param, in order, each with its dtype";
  let description = [{
    dtypes are named as safetensors names them (`bf16`, `f32`, `f8_e4m3`, ...).
    `f32 -> bf16` changes the dtype in flight, `f32 -> none` drops the state
    and `none -> bf16 from master` makes it from another; with a dtype on both
    sides, `from master` allows to make elements from those of `master` that
    their device gets anyway, where that saves wire bytes.

    **Constraints:**
    - names are distinct, and what a plan can hold (as of `dt.param`);
      between 1 and 64 states;
    - a state exists on one side at least; dtypes that change are both of
      f64, f32, f16 and bf16;
    - a state that the source lacks is made `from` one that it has.

    Example: `#dt.states<param = bf16, master = f32 -> none>`
  }];
  let parameters = (ins ArrayRefParameter<"::dt::StateEntry">:$entries);
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Index of a state, or -1.
    int indexOf(::llvm::StringRef name) const;
    /// The mask of the named states; all of them for a null array. Unknown
    /// names set nothing.
    uint64_t mask(::mlir::ArrayAttr names) const;
    /// Dtype of what a state is read from: its own, or that of `from`.
    ::dt::DType readDType(unsigned state) const;
    /// Bytes of one element, all states of the mask together: as stored on
    /// either side (a state that is made from another is not stored), and as
    /// sent.
    int64_t sourceBytes(uint64_t mask) const;
    int64_t destinationBytes(uint64_t mask) const;
    int64_t wireBytes(uint64_t mask) const;
  }];
}

def DT_MeshAttr : DT_Attr<"Mesh", "mesh"> {
  let summary = "named axes over devices, slowest axis first";
  let description = [{
    Rank = row-major index of the axis coordinates; `devices` gives the
    physical device of each rank and is dropped when it is 0, 1, 2, ....
    Axes of size 1 stay, since placements may name them.

    **Constraints:**
    - axis names are distinct, sizes positive; at most 2^17 ranks;
    - `devices` has one entry per rank, all distinct and from 0 to 2^31 - 1.

    Example: `#dt.mesh<["pp"=2, "tp"=2], devices=[8, 9, 0, 1]>`
  }];
  let parameters = (ins ArrayRefParameter<"::dt::AxisEntry">:$axes,
                        ArrayRefParameter<"int64_t">:$devices);
  let skipDefaultBuilders = 1;
  let builders = [
    AttrBuilder<(ins "::llvm::ArrayRef<::dt::AxisEntry>":$axes,
                     "::llvm::ArrayRef<int64_t>":$devices), [{
      // Canonical: the identity is not stored.
      if (isIota(devices))
        devices = {};
      return $_get($_ctxt, axes, devices);
    }]>,
    AttrBuilder<(ins "const ::dt::Mesh &":$mesh)>,
  ];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static bool isIota(::llvm::ArrayRef<int64_t> devices);
    ::dt::Mesh toGeometry() const;
    int64_t numRanks() const;
    bool hasAxis(::llvm::StringRef name) const;
    /// Size of a named axis; 1 when the mesh does not have it.
    int64_t axisSize(::llvm::StringRef name) const;
  }];
}

def DT_SplitAttr : DT_Attr<"Split", "split"> {
  let summary = "one cut of a dim over a mesh axis";
  let description = [{
    Mirrors `dt::Split`: even pieces, or pieces at `cuts`, held by coordinate
    `owners[i]` (owner v is coordinate v mod size in model chunk v / size,
    Megatron-Core's virtual stage); `blocks` cuts each packed part by itself;
    `chunk` is torch.chunk's rule for extents that do not divide; `replicas`
    says of each block how many coordinates that follow each other hold a piece.

    **Constraints:**
    - `cuts` start at 0 and do not decrease; `owners` has one entry per piece;
    - `blocks` are positive; `replicas` has one positive number for each, and
      neither `cuts` nor `owners` beside it.

    Example: `#dt.split<"pp" cuts [0, 2, 4, 6, 8] owners [0, 1, 0, 1]>`
  }];
  let parameters = (ins "::mlir::StringAttr":$axis,
                        ArrayRefParameter<"int64_t">:$cuts,
                        ArrayRefParameter<"int64_t">:$owners,
                        ArrayRefParameter<"int64_t">:$blocks, "bool":$chunk,
                        ArrayRefParameter<"int64_t">:$replicas);
  let genVerifyDecl = 1;
}

def DT_DimAttr : DT_Attr<"Dim", "dim"> {
  let summary = "the cuts of one dim, each applied to what the last left";
  let description = [{
    `extent` is the padded size that the cuts divide; without it they divide
    the dim's own size.

    **Constraints:**
    - no axis twice; `extent` is not negative.

    Example: `#dt.dim<{"tp", "fsdp" chunk} extent 129024>`
  }];
  let parameters = (ins ArrayRefParameter<"::dt::SplitAttr">:$splits,
                        "int64_t":$extent);
}

def DT_RestrictionAttr : DT_Attr<"Restriction", "restriction"> {
  let summary = "the coordinates of one axis that hold a param at all";
  let description = [{
    They count on beyond the axis like the owners of a split.

    Example: `#dt.restriction<"pp" = [0]>` (an embedding on the first stage)
  }];
  let parameters = (ins "::mlir::StringAttr":$axis,
                        ArrayRefParameter<"int64_t">:$coordinates);
}

def DT_PlacementAttr : DT_Attr<"Placement", "placement"> {
  let summary = "how a param is cut over a mesh";
  let description = [{
    One entry per dim, leading dims first. Axes that nothing mentions hold
    replicas. `at` restricts the param to some coordinates; `flat` cuts the
    local elements of each member evenly over the axes (FSDP1, ZeRO-3).

    Dims that it does not list are replicated.

    **Constraints:**
    - no axis of more than one coordinate cuts twice (checked where it is used).

    Example:
    `#dt.placement<[{"pp" cuts [0, 17, 32]}, {"tp" blocks [64, 64]}, {} ] at {"cp" = [0]} flat ["dp"]>`
  }];
  let parameters = (ins ArrayRefParameter<"::dt::DimAttr">:$dims,
                        ArrayRefParameter<"::dt::RestrictionAttr">:$at,
                        ArrayRefParameter<"::mlir::StringAttr">:$flat);
  let builders = [AttrBuilder<(ins "const ::dt::Placement &":$placement)>];
  let extraClassDeclaration = [{
    ::dt::Placement toGeometry() const;
    /// The body without angle brackets, as `dt.place` prints it.
    void printBody(::mlir::AsmPrinter &printer) const;
    static ::mlir::Attribute parseBody(::mlir::AsmParser &parser);
  }];
}

def DT_TensorAttr : DT_Attr<"Tensor", "tensor"> {
  let summary = "a tensor of one side, as a view of a param";
  let description = [{
    Frameworks cut one model into different tensors. Its name on this side, with
    one `{}` per leading dim of the param and the numbers that stand there (as
    of `dt.param`), `order` its position in this side's registration order, and
    what it has of each inner dim of the param: intervals in the tensor's own
    order, `lo:hi by step x count` for several at one distance, or one index,
    `at 5`, of a dim that the tensor does not have. What is beyond the param's
    size is padding. `permute` has the param's dims in the order in which the
    tensor has them, and is row-major in, as of torch; a dim that it does not
    have stays at its place. `parts` has, for each dim of the tensor, how many
    of these dims it is made of: neighbours in the tensor's order, flattened.
    `fill` has, for each state of the param, the bits of an element of padding,
    in the dtype that the state has on this side; without it padding is zeros.

    **Constraints:**
    - the name is what a plan can hold (as of `dt.param`), and has one `{}` for
      each number; steps are not 0;
    - intervals are not empty, and none overlap in a dim;
    - `permute` names each dim once, not all in their order;
    - `parts` are the dims that the tensor has, two at least in one;
    - `fill` is of each state, within the bytes of its elements, and not zeros
      alone.

    Example: two groups of 4 rows of q, 1 of k and 1 of v in one param, of which
    this is q
    `#dt.tensor<"layers.{}.q_proj.weight" [0] order 1 + [9], [{0:4 by 6 x 2}, {0:64} ]>`;
    a matrix of 8 rows and 4 columns that this side has transposed
    `#dt.tensor<"fc.weight" order 0, [{0:8}, {0:4} ] permute [1, 0]>`;
    gate and up of 8 rows each, the rows of both in turns in one dim of 16
    `#dt.tensor<"gate_up" order 0, [{0:2}, {0:8}, {0:4} ] permute [1, 0, 2] parts [2, 1]>`;
    100 rows and 28 of padding, which are -1 in bf16 and f32
    `#dt.tensor<"embed" order 0, [{0:128}, {0:64} ] fill [0xbf80, 0xbf800000]>`
  }];
  let parameters = (ins "::mlir::StringAttr":$name,
                        ArrayRefParameter<"int64_t">:$first,
                        ArrayRefParameter<"int64_t">:$step,
                        ArrayRefParameter<"int64_t">:$lists,
                        "int64_t":$order,
                        ArrayRefParameter<"int64_t">:$orderStrides,
                        ArrayRefParameter<"int64_t">:$orderLists,
                        ArrayRefParameter<"int64_t">:$bounds,
                        ArrayRefParameter<"int64_t">:$permutation,
                        ArrayRefParameter<"int64_t">:$parts,
                        ArrayRefParameter<"uint64_t">:$fill);
  let builders = [
    // Of one tensor alone.
    AttrBuilder<(ins "::mlir::StringAttr":$name, "int64_t":$order,
                     "const ::dt::TensorView &":$view)>];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    ::dt::TensorView toGeometry() const;
    /// The name for one member of the param; one index per leading dim.
    std::string memberName(::llvm::ArrayRef<int64_t> member) const;
    /// By leading dim, as of `dt.param`.
    std::vector<::dt::Sequence> numbers() const;
    std::vector<::dt::Sequence> orderOffsets() const;
    /// The tensors of a family, of which this is the first.
    TensorAttr ofFamily(::mlir::StringAttr name,
                        ::llvm::ArrayRef<::dt::Sequence> numbers,
                        ::llvm::ArrayRef<::dt::Sequence> offsets) const;
  }];
}

def DT_ZeroAttr : DT_Attr<"Zero", "zero"> {
  let summary = "Megatron-Core's distributed optimizer: axes and bucket size";
  let description = [{
    Per mesh of the layout the axes that its buckets are divided over, slowest
    first, and the size of a bucket in elements.

    **Constraints:**
    - the bucket size is positive.

    Example: `#dt.zero<[["dp"], ["edp"]] bucket 40000000>`
  }];
  let parameters = (ins "::mlir::ArrayAttr":$axes, "int64_t":$bucketSize);
  let builders = [
    AttrBuilder<(ins "const std::vector<std::vector<std::string>> &":$axes,
                     "int64_t":$bucketSize)>];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    std::vector<std::vector<std::string>> axesAsStrings() const;
  }];
}

def DT_ClusterAttr : DT_Attr<"Cluster", "cluster"> {
  let summary = "a two-level cluster: links of one device, each way";
  let description = [{
    Rates in GBps (1e9 bytes/s), latency in microseconds. A NIC, whose rate
    `inter` is, belongs to one device, or to as many consecutive ones as
    `per nic` says. With `pxn` a message leaves its node by the NIC of its
    receiver's place in the node, else by its sender's. `launch` is what a wave
    costs each of its devices, in microseconds. `channels` is how many of a
    library's channels a pair has, and the rate of one inside a node and between
    two; without it a pair fills its ports. With `relays` a message may go over
    a third device, which keeps nothing of it. `collectives` says that those of
    a library are used, or messages; without it the compiler chooses. `multicast`
    and `copy engine` are what a library's call inside a node takes in
    microseconds, where its switch multicasts or copy engines reach all peers.
    `links` differ from the two levels, one way each; of several that fit, the last holds.

    **Constraints:**
    - devices per node are positive, rates from 1e-6 to 1e6, the latency, the
      launch and a library's times from 0 to 1e6;
    - a pair has 1 to 64 channels;
    - devices per NIC divide those per node.

    Example:
    `#dt.cluster<8 per node, intra 200.0, inter 25.0, latency 10.0, 2 per nic, pxn, launch 5.0, channels 2 of 10.3 and 14.0, relays, collectives library, multicast 4.0, copy engine 3.0, links [node 0 to device 9 = 12.5]>`
  }];
  let parameters = (ins "int64_t":$devicesPerNode,
                        "::mlir::FloatAttr":$intra, "::mlir::FloatAttr":$inter,
                        "::mlir::FloatAttr":$latency, "int64_t":$devicesPerNic,
                        "bool":$pxn, "::mlir::FloatAttr":$launch,
                        "int64_t":$channelsPerPeer,
                        "::mlir::FloatAttr":$intraChannel,
                        "::mlir::FloatAttr":$interChannel,
                        "bool":$relays,
                        "::dtrt::CollectiveChoice":$collectives,
                        "::mlir::FloatAttr":$multicast,
                        "::mlir::FloatAttr":$copyEngine,
                        ArrayRefParameter<"::dt::Link">:$links);
  let builders = [
    AttrBuilder<(ins "const ::dt::Cluster &":$cluster)>];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    ::dt::Cluster toCluster() const;
  }];
}

def DT_MemoryAttr : DT_Attr<"Memory", "memory"> {
  let summary = "memory limits of one device, in bytes, and the mode";
  let description = [{
    `rollback` keeps the source until commit; `flat` releases it while the
    destination is filled, by pages, or storage by storage when it is followed
    by `by tensor`. Pages have at least the bytes behind `by page`, where that
    is said. Without `device` only the staging is limited. `over nccl` counts
    what GPUs and NCCL have for the plan, beside tensors and staging.

    **Constraints:**
    - limits are not negative, and at most 2^60 bytes;
    - only `flat` is `by tensor` or `by page`;
    - a page has a power of two of bytes, from 64 to 1,073,741,824.

    Examples: `#dt.memory<staging 1073741824, device 85899345920, rollback>`,
    `#dt.memory<staging 1073741824, flat by page 2097152 over nccl>`
  }];
  let parameters = (ins "int64_t":$stagingBytes, "int64_t":$deviceBytes,
                        "::dtrt::MemoryMode":$mode,
                        "::dtrt::Granularity":$granularity,
                        "int64_t":$pageBytes, "bool":$overNccl);
  let genVerifyDecl = 1;
}

def DT_CompressionAttr : DT_Attr<"Compression", "compression"> {
  let summary = "which links are compressed, and in which blocks";
  let description = [{
    Messages between nodes may travel in fewer bytes where a pair is slower than
    `below`, in GBps. They go in blocks of so many bytes; what holds these
    counts as staging.

    **Constraints:**
    - the rate is from 1e-6 to 1e6;
    - a block has from 4,096 to 67,108,864 bytes.

    Example: `#dt.compression<below 0.25, block 1048576>`
  }];
  let parameters = (ins "::mlir::FloatAttr":$below, "int64_t":$block);
  let builders = [
    AttrBuilder<(ins "const ::dtrt::Compression &":$compression)>];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    ::dtrt::Compression toCompression() const;
  }];
}

#endif // DT_DIALECT_DTATTRS_TD
