// A message without a slot is one run of bytes, of one tensor and state, as it
// travels: where it is not, both passes that close the transport level say so.
// RUN: dt-opt %s --dt-verify-transport -split-input-file -verify-diagnostics
// RUN: dt-opt %s --dt-prove -split-input-file -verify-diagnostics

// Some columns of a row-major tensor.
dt.space @model {
  dt.param @w [8, 8] of <param = f32> partial
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0, 0] size [8, 8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0, 0] size [8, 4]
}
dt.transition @t from @src to @dst {
  // expected-error@+1 {{has no slot on device 0 for the message 0 -> 1 of wave 0, which is not one contiguous run there, of one state in its wire dtype}}
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 128), (1, 0, 1, -1, 128)> {
    dt.sendrecv @w <from 0 to 1 at [0, 0] size [8, 4]>
  }
}

// -----

// The same columns, which are all that the receiver has: one run there, so
// that the sender alone needs a slot.
dt.space @model {
  dt.param @w [8, 8] of <param = f32> partial
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0, 0] size [8, 8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0, 0] size [8, 4]
}
dt.transition @t from @src to @dst {
  dt.wave 0 slots <5 columns, (0, 1, 0, 0, 128), (1, 0, 1, -1, 128)> {
    dt.sendrecv @w <from 0 to 1 at [0, 0] size [8, 4]>
  }
}

// -----

// Two tensors.
dt.space @model {
  dt.param @w [8] of <param = f32>
  dt.param @v [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
  dt.place @v shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
  dt.place @v shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @dst {
  // expected-error@+1 {{has no slot on device 0 for the message 0 -> 1 of wave 0}}
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 64), (1, 0, 1, -1, 64)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
    dt.sendrecv @v <from 0 to 1 at [0] size [8]>
  }
}

// -----

// Two states; the receiver's end is at fault where the sender has a slot.
dt.space @model {
  dt.param @w [8] of <param = f32, master = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @dst {
  // expected-error@+1 {{has no slot on device 1 for the message 0 -> 1 of wave 0}}
  dt.wave 0 slots <5 columns, (0, 1, 0, 0, 64), (1, 0, 1, -1, 64)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
}

// -----

// Another dtype than travels: bf16 becomes f32 at the receiver.
dt.space @model {
  dt.param @w [8] of <param = bf16 -> f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @dst {
  // expected-error@+1 {{has no slot on device 1 for the message 0 -> 1 of wave 0}}
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, -1, 16)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
}

// -----

// Two members of a family.
dt.space @model {
  dt.param @w [2, 8] of <param = f32> named "l.{}.w" [0]
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0, 0] size [2, 8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0, 0] size [2, 8]
}
dt.transition @t from @src to @dst {
  // expected-error@+1 {{has no slot on device 0 for the message 0 -> 1 of wave 0}}
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 64), (1, 0, 1, -1, 64)> {
    dt.sendrecv @w <from 0 to 1 at [0, 0] size [2, 8]>
  }
}

// -----

// Nothing at all is not what the destination wants.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
// expected-error@+1 {{does not deliver @w[0:8) to device 1}}
dt.transition @t from @src to @dst {
}
