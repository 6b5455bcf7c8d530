// Flat plans consist of little: what a phase moves, copies, creates and releases
// of whole layers is one piece each, although experts are one tensor each.
// RUN: dt-opt %s --dt-lower | FileCheck %s
// RUN: dt-opt %s -o %t.dtplan
// RUN: dt-plan verify %t.dtplan
// RUN: dt-run %t.dtplan --check

// CHECK:      dt.create @w <on 0 at [0, 0, 0] size [4, 4, 2048], on 1 at [0, 0, 0] size [4, 4, 2048]>
// CHECK-NEXT: dt.copy @w <on 0 at [0, 0, 0, 0] size [2, 2, 64, 32], on 1 at [0, 2, 0, 32] size [2, 2, 64, 32]> wave 0
// CHECK-NEXT: dt.wave 0
// CHECK-NEXT: dt.sendrecv @w <from 0 to 1 at [0, 0, 0, 32] size [2, 2, 64, 32], from 1 to 0 at [0, 2, 0, 0] size [2, 2, 64, 32]>
// CHECK:      dt.wave 1
// CHECK:      dt.release @w <on 0 at [0, 0, 0] size [4, 2, 4096], on 1 at [0, 2, 0] size [4, 2, 4096]>
// CHECK-NEXT: dt.create @w <on 0 at [4, 0, 0]
dt.space @model {
  dt.param @w [16, 4, 64, 64] of <param = bf16> named "layers.{}.experts.{}.w" [0 step 1, 0 step 1]
}
dt.mesh @two <["ep"=2]>
dt.layout @src of @model on [@two] world 2 {
  dt.place @w [{}, {"ep"}, {}, {}]
}
dt.layout @dst of @model on [@two] world 2 {
  dt.place @w [{}, {}, {}, {"ep"}]
}
dt.transition @flat from @src to @dst memory <staging 131072, flat>
