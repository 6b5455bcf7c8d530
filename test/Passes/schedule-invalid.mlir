// What scheduling refuses: one case each.
// RUN: dt-opt %s --dt-schedule -split-input-file -verify-diagnostics

// Two slots each way of one element: 4 x 128 bytes, the alignment of a slot.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
// expected-error@+1 {{needs at least 512 bytes of staging per device, more than the limit of 256}}
dt.transition @limit_below_an_element from @src to @dst memory <staging 256, rollback> {
  dt.transfer @w <from 0 to 1 at [0] size [8]>
}

// -----

dt.space @model {
  dt.param @w [8] of <param = bf16, master = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w for ["param"] shards rank 0 at [0] size [8]
  dt.place @w for ["master"] shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @states_apart from @src to @dst {
  // expected-error@+1 {{names states that do not lie alike}}
  dt.transfer @w <from 0 to 1 at [0] size [8]>
}
