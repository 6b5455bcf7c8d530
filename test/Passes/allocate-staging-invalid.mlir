// What the allocation of staging refuses: one case each.
// RUN: dt-opt %s --dt-allocate-staging -split-input-file -verify-diagnostics

dt.space @model {
  dt.param @w [8, 16] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0, 0] size [8, 16]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0, 4] size [8, 4]
}
// expected-error@+1 {{needs 128 bytes of staging on device 0, more than the limit of 127}}
dt.transition @limit from @src to @dst memory <staging 127, rollback> {
  dt.wave 0 {
    dt.sendrecv @w <from 0 to 1 at [0, 4] size [8, 4]>
  }
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
  dt.wave 0 {
    // expected-error@+1 {{names states that are not one flow, expected exactly those of one layout}}
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
}
