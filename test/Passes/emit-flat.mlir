// In flat mode storage comes and goes by pages of every tensor's own buffer: a
// page of the destination when the first box that spans it is written, a page
// of the source when the last box that spans it has left.
// RUN: dt-opt %s -o %t.dtplan
// RUN: dt-plan verify %t.dtplan 2>&1 | FileCheck %s --check-prefix=VERIFIED
// RUN: dt-run %t.dtplan --check
// RUN: dt-plan dump %t.dtplan --rank 0 | FileCheck %s --check-prefix=FIRST
// RUN: dt-plan inspect %t.dtplan | FileCheck %s --check-prefix=MEMORY
// RUN: dt-opt %s --dt-lower | FileCheck %s --check-prefix=COPIES

// VERIFIED: verified: 3 programs, {{.*}} at most {{[0-9]+}} bytes above the larger of source and destination

// Device 0 makes room for all of its new tensors, copies its half, sends and
// receives, and lets the old ones go: the limit has room for that.
// FIRST:      create
// FIRST-NEXT:   destination #0 layers.{}.w {param} [0:4) elements [0:256)
// FIRST-NEXT: copy
// FIRST:      pack
// FIRST:      group
// FIRST:      unpack
// FIRST:      release
// FIRST-NEXT:   source #0 layers.{}.w {param} [0:4) elements [0:256)

// With less, storage comes as it is needed.
// RUN: sed "s/staging 65536/staging 2048/" %s | dt-opt - -o %t.less.dtplan
// RUN: dt-plan verify %t.less.dtplan
// RUN: dt-run %t.less.dtplan --check
// RUN: dt-plan dump %t.less.dtplan --rank 0 | FileCheck %s --check-prefix=LESS
// LESS:      create
// LESS:      release
// LESS:      create
// LESS:      release

// MEMORY: mode flat
// COPIES: dt.copy @w <{{.*}}on 0 at
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
