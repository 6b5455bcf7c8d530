// The pipelines: --dt-lower stops before the plan file, --dt-compile writes it.
// RUN: dt-opt %s --dt-lower | FileCheck %s
// RUN: dt-opt %s --dt-compile=output=%t.dtplan -o /dev/null
// RUN: dt-plan verify %t.dtplan
// RUN: dt-run %t.dtplan --check
// RUN: dt-opt %s -o %t.direct.dtplan
// RUN: cmp %t.dtplan %t.direct.dtplan
// RUN: dt-opt %s --emit=plan -o - | cmp - %t.dtplan

// CHECK-LABEL: dt.transition @shrink
// CHECK-NOT: dt.transfer
// CHECK: dt.wave 0 slots
// CHECK-NOT: dt.program
dt.space @model {
  dt.param @layers.0.w [8, 6] of <param = bf16>
  dt.param @layers.1.w [8, 6] of <param = bf16>
}
dt.mesh @before <["tp"=2]>
dt.mesh @after <["tp"=1]>
dt.layout @src of @model on [@before] world 2 {
  dt.place @layers.0.w [{"tp"}, {}]
  dt.place @layers.1.w [{"tp"}, {}]
}
dt.layout @dst of @model on [@after] world 1 {
  dt.place @layers.0.w [{"tp"}, {}]
  dt.place @layers.1.w [{"tp"}, {}]
}
dt.transition @shrink from @src to @dst memory <staging 65536, rollback>
