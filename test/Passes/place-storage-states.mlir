// What comes or goes of several states at the same time is one op, whatever
// their widths.
// RUN: dt-opt %s --dt-lower | FileCheck %s
// RUN: dt-opt %s -o %t.dtplan
// RUN: dt-plan verify %t.dtplan
// RUN: dt-run %t.dtplan --check

// CHECK: dt.create @w <
// CHECK-NOT: for [
// CHECK: dt.release @w <
// CHECK-NOT: for [
dt.space @model {
  dt.param @w [4, 64, 64] of <param = bf16, master = f32> named "layers.{}.w" [0 step 1]
}
dt.mesh @two <["tp"=2]>
dt.layout @src of @model on [@two] world 2 {
  dt.place @w [{}, {"tp"}, {}]
}
dt.layout @dst of @model on [@two] world 2 {
  dt.place @w [{}, {}, {"tp"}]
}
dt.transition @flat from @src to @dst memory <staging 16384, flat>
