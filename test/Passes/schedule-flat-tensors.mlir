// A phase ends with whole tensors where hardly more fits, and what is copied in it
// goes beside the first waves that have time for it: as one piece here.
// RUN: dt-opt %s --dt-lower | FileCheck %s
// RUN: dt-opt %s -o %t.dtplan
// RUN: dt-plan verify %t.dtplan
// RUN: dt-run %t.dtplan --check

// CHECK:      dt.create @w <[i: 4, j: 4] on i at [j * 24, 0] size [4, 65536]>
// CHECK-NEXT: dt.copy @w <[i: 4] on i at [i * 24, 0, i * 128] size [4, 512, 128]> wave 0
// CHECK-NEXT: dt.wave 0
// CHECK-NOT:  dt.copy
// CHECK:      dt.wave 2
// CHECK:      dt.release @w <[i: 4] on i at [i * 24, 0] size [4, 262144]>
// CHECK-NEXT: dt.create @w <[i: 4, j: 4] on i at [j * 24 + 4, 0] size [4, 65536]>
// CHECK-NEXT: dt.copy @w <[i: 4] on i at [i * 24 + 4, 0, i * 128] size [4, 512, 128]> wave 3
dt.space @model {
  dt.param @w [96, 512, 512] of <param = bf16> named "layers.{}.w" [0 step 1]
}
dt.mesh @four <["ep"=4]>
dt.layout @src of @model on [@four] world 4 {
  dt.place @w [{"ep"}, {}, {}]
}
dt.layout @dst of @model on [@four] world 4 {
  dt.place @w [{}, {}, {"ep"}]
}
dt.transition @flat from @src to @dst
    cluster <1 per node, intra 200.0, inter 25.0, latency 10.0>
    memory <staging 4288000, flat>
