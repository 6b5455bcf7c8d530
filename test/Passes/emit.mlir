// Emission: a lowered transition becomes a plan that verifies and runs.
// RUN: dt-opt %s --dt-emit=output=%t.dtplan -o /dev/null
// RUN: dt-plan verify %t.dtplan
// RUN: dt-run %t.dtplan --check
// RUN: dt-plan dump %t.dtplan --deliveries | FileCheck %s

// Tensors get their own names back, whatever families they were moved as.
// CHECK-DAG: {"tensor":{{ ?}}"layers.1.w",{{ ?}}"state":{{ ?}}"param",{{ ?}}"src":{{ ?}}0,{{ ?}}"dst":{{ ?}}0,
// CHECK-DAG: {"tensor":{{ ?}}"layers.2.w",{{ ?}}"state":{{ ?}}"param",{{ ?}}"src":{{ ?}}0,{{ ?}}"dst":{{ ?}}1,
dt.space @model {
  dt.param @w [2, 8] of <param = f32> named "layers.{}.w" [1]
}
dt.mesh @one <["pp"=1]>
dt.mesh @two <["pp"=2]>
dt.layout @src of @model on [@one] world 1 {
  dt.place @w [{"pp"}, {}]
}
dt.layout @dst of @model on [@two] world 2 {
  dt.place @w [{"pp"}, {}]
}
dt.transition @t from @src to @dst {
  dt.copy @w <on 0 at [0, 0] size [1, 8]>
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, -1, 32)> {
    dt.sendrecv @w <from 0 to 1 at [1, 0] size [1, 8]>
  }
}
