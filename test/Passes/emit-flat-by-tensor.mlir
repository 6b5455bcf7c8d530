// By tensor, storage comes and goes whole: every member of a family by itself,
// and all that shares a storage at once.
// RUN: dt-opt %s -o %t.dtplan
// RUN: dt-plan verify %t.dtplan
// RUN: dt-run %t.dtplan --check
// RUN: dt-plan dump %t.dtplan --rank 0 | FileCheck %s --check-prefix=ALONE
// RUN: dt-plan inspect %t.dtplan | FileCheck %s --check-prefix=MEMORY
// RUN: dt-plan inspect %t.dtplan --json | FileCheck %s --check-prefix=JSON

// Four members of 1024 bytes; there is room for one at a time.
// ALONE:      create
// ALONE-NEXT:   destination #0 layers.{}.w {param} {{.*}} elements [0:256)
// ALONE:      release
// ALONE-NEXT:   source #0 layers.{}.w {param} {{.*}} elements [0:256)
// ALONE:      create
// ALONE:      release
// MEMORY: mode flat by tensor
// MEMORY: point of no return {{ *}}when all processes have begun the transfer
// JSON: "granularity": "tensor"

// As one storage they need room for all four, and come and go at once.
// RUN: sed 's/named "layers.{}.w" .0 step 1./& storage "all"/' %s > %t.all.mlir
// RUN: not dt-opt %t.all.mlir -o %t.none.dtplan 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: sed 's/staging 4096/staging 10240/' %t.all.mlir | dt-opt - -o %t.all.dtplan
// RUN: dt-plan verify %t.all.dtplan
// RUN: dt-run %t.all.dtplan --check
// RUN: dt-plan dump %t.all.dtplan --rank 0 | FileCheck %s --check-prefix=SHARED
// SMALL: error: 'dt.transition' op cannot hold to the larger of source and destination plus 4096 bytes (memory.staging) by tensor, the smallest limit that works is {{[0-9]+}}
// SHARED:      create
// SHARED-NEXT:   destination #0 layers.{}.w {param} [0:4) elements [0:256)
// SHARED-NOT:  create
// SHARED:      release
// SHARED-NEXT:   source #0 layers.{}.w {param} [0:4) elements [0:256)
// SHARED-NOT:  release

// So do several states of them, which is said at once.
// RUN: sed 's/f32> named/f32, momentum = f32> named/; s/staging 4096/staging 20480/' %t.all.mlir | dt-opt - -o %t.both.dtplan
// RUN: dt-plan verify %t.both.dtplan
// RUN: dt-run %t.both.dtplan --check
// RUN: dt-plan dump %t.both.dtplan --rank 0 | FileCheck %s --check-prefix=BOTH
// BOTH:        create
// BOTH-NEXT:     destination #0 layers.{}.w {param, momentum} [0:4) elements [0:256)
// BOTH-NOT:    create
// BOTH:        release
// BOTH-NEXT:     source #0 layers.{}.w {param, momentum} [0:4) elements [0:256)
// BOTH-NOT:    release
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
dt.transition @flat from @src to @dst memory <staging 4096, flat by tensor>
