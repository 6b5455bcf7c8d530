// In flat mode a tensor is freed when its last byte has left and allocated when
// its first byte arrives; padding is zeroed when its tensor is made.
// RUN: dt-opt %s -o %t.dtplan
// RUN: dt-plan verify %t.dtplan
// RUN: dt-run %t.dtplan --check
// RUN: dt-plan dump %t.dtplan --rank 0 | FileCheck %s --check-prefix=FIRST
// RUN: dt-plan dump %t.dtplan --rank 1 | FileCheck %s --check-prefix=SECOND
// RUN: dt-plan inspect %t.dtplan | FileCheck %s --check-prefix=MEMORY

// Device 0 keeps its half: it is copied out of the old tensor, which goes.
// FIRST: pack
// FIRST: create
// FIRST: copy
// FIRST: release

// Device 1 makes the tensor when the first message is unpacked.
// SECOND: group
// SECOND: create
// SECOND: unpack

// MEMORY: mode flat
dt.space @model {
  dt.param @w [4, 64, 8] of <param = f32> named "layers.{}.w" [0 step 1]
}
dt.mesh @two <["tp"=2], devices=[0, 2]>
dt.mesh @other <["tp"=2]>
dt.layout @src of @model on [@two] world 2 {
  dt.place @w [{}, {"tp"}, {}]
}
dt.layout @dst of @model on [@other] world 2 {
  dt.place @w [{}, {}, {"tp"}]
}
dt.transition @flat from @src to @dst memory <staging 65536, flat>
