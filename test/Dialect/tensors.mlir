// A side's own tensors print as they parse: pretty, generic, and as bytecode.
// RUN: dt-opt %s | dt-opt | FileCheck %s
// RUN: dt-opt %s --mlir-print-op-generic | dt-opt | FileCheck %s
// RUN: dt-opt %s --emit-bytecode | dt-opt | FileCheck %s

dt.space @model {
  dt.param @qkv [3, 12, 64] of <param = bf16, master = f32> named "layers.{}.qkv" [0]
  dt.param @experts [8, 4, 64] of <param = bf16>
}
dt.mesh @m <["tp"=2]>

// CHECK-LABEL: dt.layout @side
dt.layout @side of @model on [@m] world 2 {
  // Two groups of four rows of q.
  // CHECK-NEXT: dt.place @qkv as <"h.{}.q" [1 step 2] order 0 + [3], [{0:4 by 6 x 2}, {0:64}]> for ["param"] [{}, {"tp"}, {}]
  dt.place @qkv as <"h.{}.q" [1 step 2] order 0 + [3], [{0:4, 6:10}, {0:64}]>
      for ["param"] [{}, {"tp"}, {}]
  // Numbers and places in the order that follow no step are listed.
  // CHECK-NEXT: dt.place @qkv as <"h.{}.z" [{4, 5, 9}] order 0 + [{0, 8, 9}], [{0:12}, {0:64}]> [{}, {}, {}]
  dt.place @qkv as <"h.{}.z" [{4, 5, 9}] order 0 + [{0, 8, 9}], [{0:12}, {0:64}]> [{}, {}, {}]
  // What follows no distance is told one by one; v stands before k here.
  // CHECK-NEXT: dt.place @qkv as <"h.{}.vk" [0] order 1 + [3], [{5:6 by 6 x 2, 4:5 by 6 x 2}, {0:64}]> [{}, {"tp"}, {}]
  dt.place @qkv as <"h.{}.vk" [0 step 1] order 1 + [3], [{5:6, 11:12, 4:5, 10:11}, {0:64}]>
      [{}, {"tp"}, {}]
  // One expert, the last rows first, and two rows of padding after it.
  // CHECK-NEXT: dt.place @experts as <"e.5" order 9, [at 5, {2:4 by -2 x 2, 4:6}, {0:64}]> [{}, {"tp"}]
  dt.place @experts as <"e.5" order 9, [at 5, {2:4, 0:2, 4:6}, {0:64}]> [{}, {"tp"}]
  // Two ranks share the last four rows of each.
  // CHECK-NEXT: dt.place @experts as <"f" order 11, [{0:8}, {0:4}, {0:64}]> [{}, {}, {"tp" blocks [60, 4] replicas [1, 2]}]
  dt.place @experts as <"f" order 11, [{0:8}, {0:4}, {0:64}]> [{}, {}, {"tp" blocks [60, 4] replicas [1, 2]}]
  // CHECK-NEXT: dt.place @experts as <"e" order 10, [{0:8}, {0:4}, {0:64}]> shards rank 0 at [0, 0, 0] size [8, 4, 64]
  dt.place @experts as <"e" order 10, [{0:8}, {0:4}, {0:64}]>
      shards rank 0 at [0, 0, 0] size [8, 4, 64]
  // All of an expert's elements in one dim, columns before rows.
  // CHECK-NEXT: dt.place @experts as <"f" order 13, [{0:8}, {0:4}, {0:64}] permute [0, 2, 1] parts [1, 2]> [{"tp"}, {}]
  dt.place @experts as <"f" order 13, [{0:8}, {0:4}, {0:64}] permute [0, 2, 1] parts [1, 2]> [{"tp"}, {}]
  // Two rows of minus infinity behind those of each expert.
  // CHECK-NEXT: dt.place @experts as <"p" order 14, [{0:8}, {0:6}, {0:64}] fill [0xff80]> [{"tp"}, {}, {}]
  dt.place @experts as <"p" order 14, [{0:8}, {0:6}, {0:64}] fill [65408]> [{"tp"}, {}, {}]
  // CHECK-NEXT: dt.place @qkv as <"h.{}.p" [0] order 2 + [3], [{0:16}, {0:64}] permute [1, 0] parts [2] fill [0x0, 0xff800000]> [{}, {}]
  dt.place @qkv as <"h.{}.p" [0] order 2 + [3], [{0:16}, {0:64}] permute [1, 0] parts [2] fill [0, 0xff800000]> [{}, {}]
  // Columns before rows, and the expert's number last.
  // CHECK-NEXT: dt.place @experts as <"t" order 12, [{0:8}, {0:4}, {0:64}] permute [2, 1, 0]> [{"tp"}, {}, {}]
  dt.place @experts as <"t" order 12, [{0:8}, {0:4}, {0:64}] permute [2, 1, 0]> [{"tp"}, {}, {}]
}
