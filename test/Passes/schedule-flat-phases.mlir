// A plan of many phases: what a phase packs first and unpacks last is beside its
// neighbours, so that one message per phase and device is faster than two. By
// itself a phase is faster with two, of which one is packed beside the other.
// RUN: dt-opt %s -o %t.dtplan
// RUN: dt-plan verify %t.dtplan
// RUN: dt-plan inspect %t.dtplan --json | FileCheck %s

// CHECK: "waves": 64
// CHECK: "messages": 128
dt.space @model {
  dt.param @w [64, 8192, 8192] of <param = bf16> named "layers.{}.w" [0 step 1]
}
dt.mesh @two <["ep"=2]>
dt.layout @src of @model on [@two] world 2 {
  dt.place @w [{"ep"}, {}, {}]
}
dt.layout @dst of @model on [@two] world 2 {
  dt.place @w [{}, {}, {"ep"}]
}
dt.transition @flat from @src to @dst memory <staging 268435456, flat>
