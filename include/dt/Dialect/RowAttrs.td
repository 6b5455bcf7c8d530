//===- RowAttrs.td - Attributes that hold many rows --------*- tablegen -*-===//

#ifndef DT_DIALECT_ROWATTRS_TD
#define DT_DIALECT_ROWATTRS_TD

include "dt/Dialect/DtAttrs.td"

def DT_RowsAttr : DT_Attr<"Rows", "rows"> {
  let summary = "rows of integers: affine classes, then a table";
  let description = [{
    A class is the image of a range product under one linear expression per
    column; rows that fit no class follow one by one, many of them as one
    string (`table "0 1 2; 3 4 5"`), which reads and prints fast.

    **Constraints:**
    - every class and row has `columns` entries, at most 64; counts are
      positive; at most 2^24 rows.

    Example: `#dt.rows<3 columns, [i: 4, j: 2] (i, j * 8 + 1, 0), (7, 7, 7)>`
  }];
  // `classes` holds, per class: the number of counts n, the n counts, the
  // base row, the n stride rows.
  let parameters = (ins "unsigned":$numColumns,
                        ArrayRefParameter<"int64_t">:$classes,
                        ArrayRefParameter<"int64_t">:$table);
  let builders = [AttrBuilder<(ins "const ::dt::RowSet &":$rows)>];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Rows read from text, checked, at most kMaxPieces of them. Null after an
    /// error.
    static RowsAttr getChecked(::mlir::AsmParser &parser, ::llvm::SMLoc loc,
                               const ::dt::RowSet &rows);
    ::dt::RowSet toRowSet() const;
    int64_t numRows() const;
    /// The classes alone, decoded.
    std::vector<::dt::RowClass> decodeClasses() const;
    /// Smallest and largest value of each column over all rows; false when
    /// there are no rows.
    bool bounds(::dt::Row &lo, ::dt::Row &hi) const;
    /// Sorted distinct values of one column.
    std::vector<int64_t> distinct(unsigned column) const;
    /// Each row in order: classes (slowest index first), then the table.
    void forEach(::llvm::function_ref<void(::llvm::ArrayRef<int64_t>)>) const;
  }];
}

def DT_PiecesAttr : DT_Attr<"Pieces", "pieces"> {
  let summary = "boxes of a param, each with the device it is on and goes to";
  let description = [{
    Each row is (from, to, offset per dim, size per dim): devices, and elements
    of the param, leading dims included. `on d` stands for `from d to d`.
    Rows are affine classes over ranges, then single rows, as in `#dt.rows`.

    **Constraints:**
    - sizes are positive, devices and offsets not negative; no piece has or
      ends beyond 2^60 elements.

    Example:
    `#dt.pieces<[i: 32, j: 4] from j to 0 at [i, 0, j * 1024] size [1, 4096, 1024], on 0 at [0, 0, 0] size [1, 4, 4]>`
  }];
  let parameters = (ins "unsigned":$rank, "::dt::RowsAttr":$rows);
  let builders = [
    AttrBuilder<(ins "const ::dt::RowSet &":$rows, "unsigned":$rank)>];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Columns of a row.
    static constexpr unsigned kFrom = 0;
    static constexpr unsigned kTo = 1;
    static constexpr unsigned kOffset = 2;
    unsigned sizeColumn() const { return kOffset + getRank(); }
    static unsigned numColumns(unsigned rank) { return 2 + 2 * rank; }

    ::dt::RowSet toRowSet() const { return getRows().toRowSet(); }
    int64_t numPieces() const { return getRows().numRows(); }
    /// Sum of the pieces' volumes, in elements.
    int64_t numElements() const;
    void forEach(
        ::llvm::function_ref<void(int64_t from, int64_t to, const ::dt::Box &)>)
        const;
  }];
}

def DT_ShardsAttr : DT_Attr<"Shards", "shards"> {
  let summary = "explicit rows of a layout: which rank holds which box";
  let description = [{
    `range` keeps only elements [lo, hi) of the box (of each member's part of
    it, when the param has leading dims), flattened row-major: ZeRO.
    Rows are affine classes over ranges, then single rows, as in `#dt.rows`.

    **Constraints:**
    - ranks and offsets are not negative; a range is inside its box.

    Example:
    `#dt.shards<[i: 4] rank i at [i * 16, 0] size [16, 128], rank 4 at [64, 0] size [8, 128] range [0, 40]>`
  }];
  // Columns: rank, offset per dim, size per dim, range lo, range hi; lo = -1
  // where there is no range.
  let parameters = (ins "unsigned":$rank, "::dt::RowsAttr":$rows);
  let builders = [
    AttrBuilder<(ins "::llvm::ArrayRef<::dt::RankBox>":$boxes,
                     "unsigned":$rank)>];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static unsigned numColumns(unsigned rank) { return 3 + 2 * rank; }
    std::vector<::dt::RankBox> toGeometry() const;
    void forEach(::llvm::function_ref<void(const ::dt::RankBox &)> fn) const;
    void printBody(::mlir::AsmPrinter &printer) const;
    static ::mlir::Attribute parseBody(::mlir::AsmParser &parser);
  }];
}

//===----------------------------------------------------------------------===//
// Program level
//===----------------------------------------------------------------------===//

def DT_ShardAttr : DT_Attr<"Shard", "shard"> {
  let summary = "what one device holds of a param on one side";
  let description = [{
    Mirrors `dt::Shard`: per dim the intervals held, in local order; `leading`
    says how many dims enumerate members; `range` keeps only those elements of
    each member's local tensor. Intervals beyond the param are padding.

    **Constraints:**
    - intervals are not empty; `leading` is at most the number of dims.

    Example: `#dt.shard<[[0:32], [0:1024, 4096:5120]] leading 1 range 0:99>`
  }];
  // `bounds` holds lo, hi of all intervals; `counts` the intervals per dim.
  let parameters = (ins ArrayRefParameter<"int64_t">:$counts,
                        ArrayRefParameter<"int64_t">:$bounds,
                        "int64_t":$leading, "int64_t":$lo, "int64_t":$hi);
  let builders = [AttrBuilder<(ins "const ::dt::Shard &":$shard)>];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{ ::dt::Shard toGeometry() const; }];
}

def DT_ViewAttr : DT_Attr<"View", "view"> {
  let summary = "a box of a param inside a shard, for some states";
  let description = [{
    In the param's own coordinates, leading dims first; without `for`, all
    states of the shard.

    **Constraints:**
    - offset and size have one entry per dim; sizes are positive.

    Example: `#dt.view<[0, 0, 1024] size [1, 4096, 1024] for ["param"]>`
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$offset,
                        ArrayRefParameter<"int64_t">:$size,
                        OptionalParameter<"::mlir::ArrayAttr">:$states);
  let builders = [
    AttrBuilder<(ins "const ::dt::Box &":$box, "::mlir::ArrayAttr":$states)>];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{ ::dt::Box toBox() const; }];
}

def DT_CallAttr : DT_Attr<"Call", "call"> {
  let summary = "a collective that a library carries out, as its members call it";
  let description = [{
    Every member calls it alike. `blocks` are the bytes of each block: a member
    gives and gets as many as the kind says, in the order of the members.

    | kind | gives | gets |
    |---|---|---|
    | `broadcast` | the member that it is `from` its one block | all others that block |
    | `all_gather` | one block | one of each member |
    | `all_to_all` | one for each member | one of each member |

    **Constraints:**
    - broadcast, all_gather or all_to_all;
    - two members or more, ascending; `from` is one of them, and only a broadcast
      has it;
    - blocks have a byte or more, all of a member together at most 2^60.

    Example: `#dt.call<broadcast among [0, 1, 2] from 0 blocks 4096>`
  }];
  let parameters = (ins "::dt::Pattern":$kind,
                        ArrayRefParameter<"int64_t">:$members, "int64_t":$root,
                        "int64_t":$blockBytes);
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Of no root: those but a broadcast.
    static constexpr int64_t kNoRoot = -1;
    bool hasMember(int64_t device) const {
      return ::llvm::is_contained(getMembers(), device);
    }
    /// Bytes of the blocks that a member gives, and of those that it gets.
    int64_t bytesGiven(int64_t device) const;
    int64_t bytesGot(int64_t device) const;
  }];
}

def DT_Buffer : TypeDef<DT_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "bytes on one device: a shard, or a range of staging";
  let description = [{ Example: `!dt.buffer<8388608>` }];
  let parameters = (ins "int64_t":$bytes);
  let assemblyFormat = "`<` $bytes `>`";
  let genVerifyDecl = 1;
}

#endif // DT_DIALECT_ROWATTRS_TD
