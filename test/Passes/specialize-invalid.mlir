// What specialization refuses: one case each.
// RUN: dt-opt %s --dt-specialize=device=7 -split-input-file -verify-diagnostics

dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
// expected-error@+1 {{has no device 7}}
dt.transition @unknown_device from @src to @src {
  dt.keep @w <on 0 at [0] size [8]>
}

// -----

dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [7] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @not_scheduled from @src to @dst {
  // expected-error@+1 {{is illegal at the transport level: run --dt-schedule first}}
  dt.transfer @w <from 0 to 7 at [0] size [8]>
}

// -----

dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [7] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @no_slots from @src to @dst {
  // expected-error@+1 {{has no slots: run --dt-allocate-staging first}}
  dt.wave 0 {
    dt.sendrecv @w <from 0 to 7 at [0] size [8]>
  }
}

// -----

dt.space @model {
  dt.param @w [8] of <param = bf16, master = f32>
}
dt.layout @src of @model world 1 devices [7] {
  dt.place @w for ["param"] shards rank 0 at [0] size [8]
  dt.place @w for ["master"] shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [7] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @states_apart from @src to @dst {
  // expected-error@+1 {{names states that are not one flow, expected exactly those of one layout}}
  dt.copy @w <on 7 at [0] size [8]>
}
