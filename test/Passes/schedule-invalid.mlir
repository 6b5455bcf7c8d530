// What scheduling refuses: one case each.
// RUN: dt-opt %s --dt-schedule -split-input-file -verify-diagnostics

// All states of one element travel together: 20 of 8 bytes do not fit a slot of
// 128 bytes, of which the limit has room for two.
dt.space @model {
  dt.param @w [8] of <s0 = f64, s1 = f64, s2 = f64, s3 = f64, s4 = f64, s5 = f64, s6 = f64,
      s7 = f64, s8 = f64, s9 = f64, s10 = f64, s11 = f64, s12 = f64, s13 =
      f64, s14 = f64, s15 = f64, s16 = f64, s17 = f64, s18 = f64, s19 = f64>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
// expected-error-re@+1 {{needs at least {{[0-9]+}} bytes of staging per device, more than the limit of 256}}
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
  // expected-error@+1 {{names states that are not one flow, expected exactly those of one layout}}
  dt.transfer @w <from 0 to 1 at [0] size [8]>
}

// -----

dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
// expected-error@+1 {{cannot be scheduled: device 0 forwards [0:8) of flow 0 at hop 1, which no move brings there at a lower hop}}
dt.transition @unfed_forward from @src to @dst {
  dt.transfer @w <from 0 to 1 at [0] size [8]> hop 1
}
