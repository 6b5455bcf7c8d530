// An element whose master arrives anyway is made there, not sent: device 1
// gets both halves of master, holds the first half of param, and makes the
// second.
// RUN: dt-opt %s --dt-route | FileCheck %s
// RUN: dt-opt %s --dt-route --dt-verify-routing -o /dev/null

dt.space @model {
  dt.param @w [8] of <param = bf16 from master, master = f32>
}
dt.mesh @two <["tp"=2]>
dt.mesh @one <["tp"=1], devices=[1]>
dt.layout @src of @model on [@two] world 2 {
  dt.place @w for ["param"] [{"tp"}]
  dt.place @w for ["master"] [{"tp"}]
}
dt.layout @dst of @model on [@one] world 1 {
  dt.place @w [{}]
}
// CHECK-LABEL: dt.transition
// CHECK-DAG: dt.copy @w for ["param"] <on 1 at [4] size [4]>
// CHECK-DAG: dt.derive @w for ["param"] <on 1 at [0] size [4]>
// CHECK-DAG: dt.transfer @w for ["master"] <from 0 to 1 at [0] size [4]>
// CHECK-NOT: dt.transfer @w for ["param"]
dt.transition @grow from @src to @dst {
}

// What a device gets no master for is sent: each of them makes the half whose
// master it gets.
dt.mesh @later <["tp"=2], devices=[2, 3]>
dt.layout @src_two of @model on [@two] world 2 {
  dt.place @w [{"tp"}]
}
dt.layout @dst_two of @model on [@later] world 2 {
  dt.place @w for ["param"] [{}]
  dt.place @w for ["master"] [{"tp"}]
}
// CHECK: dt.transition @spread
// CHECK-DAG: dt.derive @w for ["param"] <on 2 at [0] size [4], on 3 at [4] size [4]>
// CHECK-DAG: dt.transfer @w for ["param"] <from 0 to 3 at [0] size [4], from 1 to 2 at [4] size [4]>
// CHECK-DAG: dt.transfer @w for ["master"] <from 0 to 2 at [0] size [4], from 1 to 3 at [4] size [4]>
dt.transition @spread from @src_two to @dst_two {
}

// Of a partial param the destination may want more of one state than of the
// other: what has no master is sent.
dt.space @values {
  dt.param @v [8] of <param = bf16 from master, master = f32> partial
}
dt.layout @all of @values world 1 {
  dt.place @v shards rank 0 at [0] size [8]
}
dt.layout @some of @values world 1 devices [1] {
  dt.place @v for ["param"] shards rank 0 at [0] size [8]
  dt.place @v for ["master"] shards rank 0 at [0] size [4]
}
// CHECK: dt.transition @fewer_masters
// CHECK-DAG: dt.derive @v for ["param"] <on 1 at [0] size [4]>
// CHECK-DAG: dt.transfer @v for ["param"] <from 0 to 1 at [4] size [4]>
// CHECK-DAG: dt.transfer @v for ["master"] <from 0 to 1 at [0] size [4]>
dt.transition @fewer_masters from @all to @some {
}
