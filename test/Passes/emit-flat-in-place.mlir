// In flat mode what does not change stays where it is: it has one storage for
// both sides, no page of it is created or released, and peaks count it once.
// RUN: dt-opt %s -o %t.dtplan
// RUN: dt-plan verify %t.dtplan
// RUN: dt-run %t.dtplan --check
// RUN: dt-plan inspect %t.dtplan --json | FileCheck %s --check-prefix=JSON
// RUN: dt-plan inspect %t.dtplan | FileCheck %s --check-prefix=TEXT
// RUN: dt-opt %s --dt-lower | FileCheck %s

// @fixed and @norm: 64 KiB and two copies of 256 bytes.
// JSON: "in_place": 66048
// TEXT: bytes in place {{ *}}64.50 KiB
// TEXT: features {{.*}}in-place
// RUN: dt-plan dump --rank 0 %t.dtplan | FileCheck %s --check-prefix=DUMP
// DUMP: fixed {param} [0:64)[0:128) source #{{[0-9]+}} -> destination #{{[0-9]+}}, where {param} stays

// CHECK-NOT: dt.create @fixed
// CHECK-NOT: dt.create @norm
// CHECK-NOT: dt.release @fixed
// CHECK-NOT: dt.release @norm
// CHECK-DAG: dt.keep @fixed
// CHECK-DAG: dt.keep @norm
// CHECK-DAG: dt.create @w
// CHECK-DAG: dt.release @w

// A limit far below what stays is enough for what moves.
// RUN: sed "s/staging 65536/staging 2048/" %s | dt-opt - -o %t.less.dtplan
// RUN: dt-plan verify %t.less.dtplan
// RUN: dt-run %t.less.dtplan --check

// By tensor, what shares a storage with what moves comes and goes with it.
// RUN: sed 's/flat>$/flat by tensor>/' %s > %t.tensor.mlir
// RUN: dt-opt %t.tensor.mlir --dt-lower | FileCheck %s
// RUN: sed 's/dt.param .*/& storage "all"/; s/staging 65536/staging 1048576/' %t.tensor.mlir > %t.shared.mlir
// RUN: dt-opt %t.shared.mlir --dt-lower | FileCheck %s --check-prefix=SHARED
// RUN: dt-opt %t.shared.mlir -o %t.shared.dtplan
// RUN: dt-plan verify %t.shared.dtplan
// RUN: dt-run %t.shared.dtplan --check
// SHARED-NOT: dt.keep
// SHARED-DAG: dt.create @fixed
// SHARED-DAG: dt.release @fixed

// In mode rollback the source stays whole beside it.
// RUN: sed 's/flat>$/rollback>/' %s | dt-opt - -o %t.rollback.dtplan
// RUN: dt-plan inspect %t.rollback.dtplan --json | FileCheck %s --check-prefix=ROLLBACK
// ROLLBACK-NOT: in_place
dt.space @model {
  dt.param @w [4, 64, 8] of <param = f32> named "layers.{}.w" [0 step 1]
  dt.param @fixed [128, 128] of <param = f32>
  dt.param @norm [64] of <param = f32>
}
dt.mesh @two <["tp"=2]>
dt.layout @src of @model on [@two] world 2 {
  dt.place @w [{}, {"tp"}, {}]
  dt.place @fixed [{"tp"}, {}]
  dt.place @norm [{}]
}
dt.layout @dst of @model on [@two] world 2 {
  dt.place @w [{}, {}, {"tp"}]
  dt.place @fixed [{"tp"}, {}]
  dt.place @norm [{}]
}
dt.transition @flat from @src to @dst memory <staging 65536, flat>
