// Emission into a folder that does not exist names the path.
// RUN: not dt-opt %s --dt-emit=output=%t.missing/x.dtplan 2>&1 | FileCheck %s
// CHECK: error: 'dt.transition' op {{.*}}.missing/x.dtplan

dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @src {
  dt.keep @w <on 0 at [0] size [8]>
}
