// Right routings pass, also those that the router would not choose.
// RUN: dt-opt %s --dt-verify-routing | FileCheck %s

dt.space @model {
  dt.param @w [6] of <param = bf16>
}
dt.mesh @one <["tp"=1]>
dt.mesh @three <["dp"=3], devices=[1, 2, 3]>
dt.layout @src of @model on [@one] world 1 {
  dt.place @w [{"tp"}]
}
dt.layout @dst of @model on [@three] world 3 {
  dt.place @w [{} extent 8]
}
// Device 3 gets its two halves from devices that received them in other cuts.
// CHECK: dt.transition @forwards_in_other_cuts
dt.transition @forwards_in_other_cuts from @src to @dst {
  dt.transfer @w <from 0 to 1 at [0] size [2], from 0 to 1 at [2] size [4],
                  from 0 to 2 at [0] size [6]>
  dt.transfer @w <from 1 to 3 at [1] size [3], from 2 to 3 at [4] size [2],
                  from 2 to 3 at [0] size [1]> hop 1
  dt.zero @w <[i: 3] on i + 1 at [6] size [2]>
}
