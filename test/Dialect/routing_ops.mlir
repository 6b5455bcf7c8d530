// The routing level prints as it parses: pretty, generic, and as bytecode.
// RUN: dt-opt %s | dt-opt | FileCheck %s
// RUN: dt-opt %s --mlir-print-op-generic | dt-opt | FileCheck %s
// RUN: dt-opt %s --emit-bytecode | dt-opt | FileCheck %s

dt.space @model {
  dt.param @proj [32, 4096, 4096] of <param = bf16, master = f32>
      named "layers.{}.proj" [0]
  dt.param @norm [32, 4096] of <param = bf16> named "layers.{}.norm" [0]
}
dt.mesh @before <["tp"=4]>
dt.mesh @after <["tp"=2]>
dt.layout @src of @model on [@before] world 4 {
  dt.place @proj [{}, {}, {"tp"}]
  dt.place @norm [{}, {}]
}
dt.layout @dst of @model on [@after] world 2 {
  dt.place @proj [{}, {}, {"tp"}]
  dt.place @norm [{}, {}]
}

// CHECK-LABEL: dt.transition @shrink
dt.transition @shrink from @src to @dst {
  // CHECK-NEXT: dt.keep @norm <[i: 2] on i at [0, 0] size [32, 4096]>
  dt.keep @norm <[i: 2] on i at [0, 0] size [32, 4096]>
  // Ranges have canonical names, whatever they were called.
  // CHECK-NEXT: dt.copy @proj for ["param"] <[i: 32] on 0 at [i, 0, 0] size [1, 4096, 1024]>
  dt.copy @proj for ["param"] <[layer: 32] on 0 at [layer, 0, 0] size [1, 4096, 1024]>
  // CHECK-NEXT: dt.transfer @proj <[i: 32, j: 2] from j + 2 to j at [i, 0, j * 2048 + 1024] size [1, 4096, 1024], from 3 to 0 at [0, 0, 0] size [1, 1, 1]>
  dt.transfer @proj <[l: 32, to: 2] from 2 + to to to at [l, 0, to * 2048 + 1024] size [1, 4096, 1024], from 3 to 0 at [0, 0, 0] size [1, 1, 1]>
  // Strides may be negative, sizes may vary.
  // CHECK-NEXT: dt.transfer @norm <[i: 2] from i to i * -1 + 1 at [0, i * -7 + 100] size [1, i + 1]> hop 1
  dt.transfer @norm <[i: 2] from i to 1 + i * -1 at [0, i * -7 + 100] size [1, i + 1]> hop 1
  // Hop after hop, each with classes and rows of its own.
  // CHECK-NEXT: dt.transfer @norm <[i: 4] from 0 to 1 at [i, 0] size [1, 64], from 2 to 1 at [7, 0] size [1, 64]>,{{$}}
  // CHECK-NEXT: {{^}}      <from 1 to 0 at [7, 0] size [1, 64]> hop 2,{{$}}
  // CHECK-NEXT: {{^}}      <dims 2> hop 3{{$}}
  dt.transfer @norm <[i: 4] from 0 to 1 at [i, 0] size [1, 64], from 2 to 1 at [7, 0] size [1, 64]> hop 0, <from 1 to 0 at [7, 0] size [1, 64]> hop 2, <dims 2> hop 3
  // A class of one row is a row.
  // CHECK-NEXT: dt.copy @norm <on 1 at [3, 0] size [1, 4096]>
  dt.copy @norm <[i: 1] on i + 1 at [3, 0] size [1, 4096]>
  // CHECK-NEXT: dt.copy @norm <on 1 at [4, 0] size [1, 4096]>
  dt.copy @norm <on 1 at [4, 0] size [1, 4096]>
  // CHECK-NEXT: dt.zero @norm <on 1 at [0, 4096] size [32, 64]>
  dt.zero @norm <on 1 at [0, 4096] size [32, 64]>
  // CHECK-NEXT: dt.keep @norm <dims 2>
  dt.keep @norm <dims 2>
}

// More than 64 single rows are one string.
// CHECK-LABEL: dt.transition @many
dt.transition @many from @src to @dst {
  // CHECK-NEXT: dt.copy @norm <dims 2, table "0 0 0 0 1 1; 0 0 0 2 1 1; {{.*}}; 0 0 0 3999 1 1">
  dt.copy @norm <dims 2, table "0 0 0 0 1 1; 0 0 0 2 1 1; 0 0 0 5 1 1; 0 0 0 6 1 1; 0 0 0 9 1 1; 0 0 0 11 1 1; 0 0 0 13 1 1; 0 0 0 16 1 1; 0 0 0 18 1 1; 0 0 0 20 1 1; 0 0 1 0 1 1; 0 0 1 2 1 1; 0 0 1 5 1 1; 0 0 1 6 1 1; 0 0 1 9 1 1; 0 0 1 11 1 1; 0 0 1 13 1 1; 0 0 1 16 1 1; 0 0 1 18 1 1; 0 0 1 20 1 1; 0 0 2 0 1 1; 0 0 2 2 1 1; 0 0 2 5 1 1; 0 0 2 6 1 1; 0 0 2 9 1 1; 0 0 2 11 1 1; 0 0 2 13 1 1; 0 0 2 16 1 1; 0 0 2 18 1 1; 0 0 2 20 1 1; 0 0 3 0 1 1; 0 0 3 2 1 1; 0 0 3 5 1 1; 0 0 3 6 1 1; 0 0 3 9 1 1; 0 0 3 11 1 1; 0 0 3 13 1 1; 0 0 3 16 1 1; 0 0 3 18 1 1; 0 0 3 20 1 1; 0 0 4 0 1 1; 0 0 4 2 1 1; 0 0 4 5 1 1; 0 0 4 6 1 1; 0 0 4 9 1 1; 0 0 4 11 1 1; 0 0 4 13 1 1; 0 0 4 16 1 1; 0 0 4 18 1 1; 0 0 4 20 1 1; 0 0 5 0 1 1; 0 0 5 2 1 1; 0 0 5 5 1 1; 0 0 5 6 1 1; 0 0 5 9 1 1; 0 0 5 11 1 1; 0 0 5 13 1 1; 0 0 5 16 1 1; 0 0 5 18 1 1; 0 0 5 20 1 1; 0 0 6 0 1 1; 0 0 6 2 1 1; 0 0 6 5 1 1; 0 0 6 6 1 1; 0 0 0 3999 1 1">
}
