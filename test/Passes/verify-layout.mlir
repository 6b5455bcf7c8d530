// Layouts that place every state once pass: by mesh, by shards, by buckets.
// RUN: dt-opt %s --dt-verify-layout | FileCheck %s

dt.space @model {
  dt.param @w [8] of <param = bf16, master = f32>
  dt.param @b [4] of <param = bf16, master = f32>
}
dt.mesh @mesh <["dp"=2]>
dt.layout @src of @model on [@mesh] world 2 zero <[["dp"]] bucket 1024> {
  dt.place @w for ["param"] [{}]
  dt.place @w for ["master"] [{}] bucketed
  dt.place @b [{}]
}
dt.layout @dst of @model world 2 {
  dt.place @w for ["master"] shards rank 0 at [0] size [8]
  dt.place @w for ["param"] shards rank 1 at [0] size [8]
  dt.place @b shards [i: 2] rank i at [i * 2] size [2]
}
// CHECK: dt.transition @states_in_several_places from @src to @dst{{$}}
dt.transition @states_in_several_places from @src to @dst

// Of a partial param a layout may lack some.
// CHECK: dt.param @rng [2, 3] of <param = u8> partial{{$}}
dt.space @values {
  dt.param @rng [2, 3] of <param = u8> partial
}
dt.layout @two of @values world 2 {
  dt.place @rng shards [i: 2] rank i at [i, 0] size [1, 3]
}
dt.layout @one of @values world 1 {
  dt.place @rng shards rank 0 at [0, 0] size [1, 3]
}
// CHECK: dt.transition @fewer_values from @two to @one{{$}}
dt.transition @fewer_values from @two to @one
