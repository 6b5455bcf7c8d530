// What routing refuses: one case each.
// RUN: dt-opt %s --dt-route -split-input-file -verify-diagnostics

// A hole in a box of the source.
dt.space @model {
  dt.param @w [8, 6] of <param = bf16> named "layers.w"
}
// expected-note@+1 {{source layout is here}}
dt.layout @src of @model world 2 {
  dt.place @w shards rank 0 at [0, 0] size [4, 6], rank 1 at [4, 0] size [4, 4]
}
dt.layout @dst of @model world 1 {
  dt.place @w shards rank 0 at [0, 0] size [8, 6]
}
// expected-error@+1 {{wants @w[4:8)x[4:6) of tensor 'layers.w' on device 0 (rank 0), which no source device holds}}
dt.transition @hole_in_a_box from @src to @dst

// -----

// A hole between flat ranges of the source.
dt.space @model {
  dt.param @w [4, 6] of <param = bf16>
}
// expected-note@+1 {{source layout is here}}
dt.layout @src of @model world 2 {
  dt.place @w shards rank 0 at [0, 0] size [4, 6] range [0, 8],
      rank 1 at [0, 0] size [4, 6] range [9, 24]
}
dt.layout @dst of @model world 1 {
  dt.place @w shards rank 0 at [0, 0] size [4, 6]
}
// expected-error@+1 {{wants @w[1:2)x[2:3) of tensor 'w' on device 0 (rank 0), which no source device holds}}
dt.transition @hole_in_a_range from @src to @dst

// -----

dt.space @model {
  dt.param @w [8] of <param = bf16>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
// expected-error@+1 {{is routed already}}
dt.transition @twice from @src to @src {
  dt.keep @w <on 0 at [0] size [8]>
}

// -----

// A hole in a family names the tensor that its user knows.
dt.space @model {
  dt.param @w [4, 6] of <param = bf16> named "layers.{}.w" [3]
}
// expected-note@+1 {{source layout is here}}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0, 0] size [2, 6], rank 0 at [3, 0] size [1, 6]
}
dt.layout @dst of @model world 2 devices [5, 6] {
  dt.place @w shards rank 1 at [0, 0] size [4, 6]
}
// expected-error@+1 {{wants @w[2:3)x[0:6) of tensor 'layers.5.w' on device 6 (rank 1), which no source device holds}}
dt.transition @hole_in_a_family from @src to @dst
