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
  // expected-error@+1 {{is not scheduled yet: run --dt-schedule first}}
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
  // expected-error@+1 {{has no slot of 32 bytes on device 0 for the message 0 -> 7}}
  dt.wave 0 {
    dt.sendrecv @w <from 0 to 7 at [0] size [8]>
  }
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
dt.transition @collective from @src to @dst {
  dt.wave 0 {
    // expected-error@+1 {{has no instruction in a plan, expected dt.sendrecv}}
    dt.collective broadcast @w <from 0 to 7 at [0] size [8]> among [0, 7] root 0
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
  // expected-error@+1 {{names states that do not lie alike}}
  dt.copy @w <on 7 at [0] size [8]>
}
