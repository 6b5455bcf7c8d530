// A page has as many elements of every state, here the 32 that 64 bytes have of
// the narrowest, so that what comes or goes of all states is one op: also where
// blocks of 72 elements end within pages.
// RUN: dt-opt %s --dt-lower | FileCheck %s
// RUN: dt-opt %s -o %t.dtplan
// RUN: dt-plan verify %t.dtplan
// RUN: dt-run %t.dtplan --check

// CHECK: dt.create @w <on 0 at [0, 0] size [1, 96],
// CHECK: dt.release @w <on 0 at [0, 0] size [1, 160],
// CHECK: dt.create @w <on 0 at [0, 96] size [1, 96], on 0 at [0, 672] size [1, 64],
// CHECK: dt.release @w <on 0 at [0, 160] size [1, 128],
// CHECK-NOT: for [
dt.space @model {
  dt.param @w [2, 64, 36] of <param = bf16, exp_avg = f32, exp_avg_sq = f32> named "layers.{}.w" [0 step 1]
}
dt.mesh @two <["tp"=2]>
dt.layout @src of @model on [@two] world 2 {
  dt.place @w [{}, {"tp"}, {}]
}
dt.layout @dst of @model on [@two] world 2 {
  dt.place @w [{}, {}, {"tp"}]
}
dt.transition @flat from @src to @dst memory <staging 4096, flat>
