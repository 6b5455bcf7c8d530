// What closes the routing level refuses: one case each.
// RUN: dt-opt %s --dt-verify-routing -split-input-file -verify-diagnostics

// A region that no op delivers.
dt.space @model {
  dt.param @w [8] of <param = bf16>
}
dt.layout @src of @model world 2 {
  dt.place @w shards [i: 2] rank i at [i * 4] size [4]
}
dt.layout @dst of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
// expected-error@+1 {{does not deliver @w[4:8) to device 0}}
dt.transition @hole from @src to @dst {
  dt.copy @w <on 0 at [0] size [4]>
}

// -----

// A device to which nothing goes.
dt.space @model {
  dt.param @w [8] of <param = bf16>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
// expected-error@+1 {{does not deliver @w[0:8) to device 1}}
dt.transition @nothing from @src to @dst

// -----

// A region delivered twice, by two ops.
dt.space @model {
  dt.param @w [8] of <param = bf16>
}
dt.layout @src of @model world 2 {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
dt.layout @dst of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @twice from @src to @dst {
  // expected-note@+1 {{the first time is here}}
  dt.copy @w <on 0 at [0] size [8]>
  // expected-error@+1 {{delivers @w[2:4) to device 0 a second time}}
  dt.transfer @w <from 1 to 0 at [2] size [2]>
}

// -----

// A region delivered twice, by two rows of one op.
dt.space @model {
  dt.param @w [8] of <param = bf16>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @twice_in_one_op from @src to @dst {
  // expected-note@+2 {{the first time is here}}
  // expected-error@+1 {{delivers @w[4:6) to device 1 a second time}}
  dt.transfer @w <from 0 to 1 at [0] size [6], from 0 to 1 at [4] size [4]>
}

// -----

// Elements that the destination layout does not place there.
dt.space @model {
  dt.param @w [8] of <param = bf16>
}
dt.layout @src of @model world 2 {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
dt.layout @dst of @model world 2 {
  dt.place @w shards [i: 2] rank i at [i * 4] size [4]
}
dt.transition @too_much from @src to @dst {
  // expected-error@+1 {{delivers @w[0:8) to device 0, which does not want it in one piece}}
  dt.copy @w <on 0 at [0] size [8], on 1 at [4] size [4]>
}

// -----

// A source that never held what is read from it.
dt.space @model {
  dt.param @w [8] of <param = bf16>
}
dt.layout @src of @model world 2 {
  dt.place @w shards [i: 2] rank i at [i * 4] size [4]
}
dt.layout @dst of @model world 1 devices [2] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @never_held from @src to @dst {
  dt.transfer @w <from 0 to 2 at [0] size [4]>
  // expected-error@+1 {{sends @w[4:8) from device 0, which does not hold it}}
  dt.transfer @w <from 0 to 2 at [4] size [4]>
}

// -----

// A local copy of what the device did not hold.
dt.space @model {
  dt.param @w [8] of <param = bf16>
}
dt.layout @src of @model world 2 {
  dt.place @w shards rank 0 at [0] size [8], rank 1 at [0] size [4]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @copy_of_nothing from @src to @dst {
  // expected-error@+1 {{reads @w[0:8) on device 1, which does not hold it}}
  dt.copy @w <on 1 at [0] size [8]>
}

// -----

// A forward reads at hop 1 what arrives at hop 0, not at its own hop.
dt.space @model {
  dt.param @w [8] of <param = bf16>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [1, 2] {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
dt.transition @forward_at_the_same_hop from @src to @dst {
  // expected-note@+1 {{it arrives here}}
  dt.transfer @w <from 0 to 1 at [0] size [8]> hop 1
  // expected-error@+1 {{sends @w[0:8) from device 1 in hop 1, before it holds it}}
  dt.transfer @w <from 1 to 2 at [0] size [8]> hop 1
}

// -----

// A forward of more than arrived before.
dt.space @model {
  dt.param @w [8] of <param = bf16>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [1, 2] {
  dt.place @w shards rank 0 at [0] size [4], rank 1 at [0] size [8]
}
dt.transition @forward_of_too_much from @src to @dst {
  dt.transfer @w <from 0 to 1 at [0] size [4]>
  // expected-error@+1 {{sends @w[0:8) from device 1, which does not hold it}}
  dt.transfer @w <from 1 to 2 at [0] size [8]> hop 1
}

// -----

// Padding that is not zeroed.
dt.space @model {
  dt.param @w [6] of <param = bf16>
}
dt.mesh @before <["tp"=1]>
dt.mesh @after <["tp"=1]>
dt.layout @src of @model on [@before] world 1 {
  dt.place @w [{"tp"}]
}
dt.layout @dst of @model on [@after] world 1 {
  dt.place @w [{"tp"} extent 8]
}
// expected-error@+1 {{does not zero the padding @w[6:8) of device 0}}
dt.transition @padding_left from @src to @dst {
  dt.copy @w <on 0 at [0] size [6]>
}

// -----

// Padding that is zeroed twice.
dt.space @model {
  dt.param @w [6] of <param = bf16>
}
dt.mesh @before <["tp"=1]>
dt.mesh @after <["tp"=1]>
dt.layout @src of @model on [@before] world 1 {
  dt.place @w [{"tp"}]
}
dt.layout @dst of @model on [@after] world 1 {
  dt.place @w [{"tp"} extent 8]
}
dt.transition @padding_twice from @src to @dst {
  dt.copy @w <on 0 at [0] size [6]>
  // expected-note@+1 {{the first time is here}}
  dt.zero @w <on 0 at [6] size [2]>
  // expected-error@+1 {{zeroes @w[7:8) of device 0 a second time}}
  dt.zero @w <on 0 at [7] size [1]>
}

// -----

// Zeros over elements that are no padding.
dt.space @model {
  dt.param @w [6] of <param = bf16>
}
dt.mesh @before <["tp"=1]>
dt.mesh @after <["tp"=1]>
dt.layout @src of @model on [@before] world 1 {
  dt.place @w [{"tp"}]
}
dt.layout @dst of @model on [@after] world 1 {
  dt.place @w [{"tp"} extent 8]
}
dt.transition @zeros_over_data from @src to @dst {
  dt.copy @w <on 0 at [0] size [6]>
  // expected-error@+1 {{zeroes @w[5:8) on device 0, which is not padding there}}
  dt.zero @w <on 0 at [5] size [3]>
}

// -----

// States that lie apart are moved apart.
dt.space @model {
  dt.param @w [8] of <param = bf16, master = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w for ["param"] shards rank 0 at [0] size [8]
  dt.place @w for ["master"] shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @states_apart from @src to @dst {
  // expected-error@+1 {{names states that are not one flow, expected exactly those of one layout}}
  dt.copy @w <on 0 at [0] size [8]>
}

// -----

// Waves belong to the next level.
dt.space @model {
  dt.param @w [8] of <param = bf16>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @too_low from @src to @src {
  // expected-error@+1 {{is illegal at the routing level}}
  dt.wave 0 {
  }
}
