// What closes the transport level refuses: one case each.
// RUN: dt-opt %s --dt-verify-transport -split-input-file -verify-diagnostics

// Transfers belong to the level before.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @too_high from @src to @dst {
  // expected-error@+1 {{is illegal at the transport level}}
  dt.transfer @w <from 0 to 1 at [0] size [8]>
}

// -----

// Waves out of order.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @descending from @src to @dst {
  dt.wave 1 {
    dt.sendrecv @w <from 0 to 1 at [0] size [4]>
  }
  // expected-error@+1 {{has number 0, expected one above that of the wave before, 1}}
  dt.wave 0 {
    dt.sendrecv @w <from 0 to 1 at [4] size [4]>
  }
}

// -----

// One number twice: its messages would be two of one pair in one group.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @number_twice from @src to @dst {
  dt.wave 2 {
    dt.sendrecv @w <from 0 to 1 at [0] size [4]>
  }
  // expected-error@+1 {{has number 2, expected one above that of the wave before, 2}}
  dt.wave 2 {
    dt.sendrecv @w <from 0 to 1 at [4] size [4]>
  }
}

// -----

// A wave that is missing.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
// expected-error@+1 {{does not deliver @w[4:8) to device 1}}
dt.transition @wave_missing from @src to @dst {
  dt.wave 0 {
    dt.sendrecv @w <from 0 to 1 at [0] size [4]>
  }
}

// -----

// A region that two waves deliver.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @delivered_twice from @src to @dst {
  dt.wave 0 {
    // expected-note@+1 {{the first time is here}}
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
  dt.wave 1 {
    // expected-error@+1 {{delivers @w[0:8) to device 1 a second time}}
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
}

// -----

// A forward in the wave that feeds it.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [1, 2] {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
dt.transition @forward_in_the_same_wave from @src to @dst {
  dt.wave 1 {
    // expected-error@+1 {{reads @w[0:8) from device 1, which does not hold it}}
    dt.sendrecv @w <[i: 2] from i to i + 1 at [0] size [8]>
  }
}

// -----

// A device that never has what it sends.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
  dt.place @w shards [i: 2] rank i at [i * 4] size [4]
}
dt.layout @dst of @model world 1 devices [2] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @never_held from @src to @dst {
  dt.wave 0 {
    // expected-error@+1 {{reads @w[2:4) from device 1, which does not hold it}}
    dt.sendrecv @w <from 0 to 2 at [0] size [2], from 1 to 2 at [2] size [2],
                    from 1 to 2 at [4] size [4]>
  }
}

// -----

// A region that is read after its release.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @released from @src to @dst {
  dt.wave 0 {
    dt.sendrecv @w <from 0 to 1 at [0] size [4]>
  }
  // expected-note@+1 {{it is released after wave 0}}
  dt.release @w <on 0 at [0] size [8]> after 0
  dt.wave 1 {
    // expected-error@+1 {{reads @w[4:8) from device 0 after its release}}
    dt.sendrecv @w <from 0 to 1 at [4] size [4]>
  }
}

// -----

// A release of more than was there.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
  dt.place @w shards rank 0 at [0] size [8], rank 1 at [0] size [4]
}
dt.layout @dst of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @release_of_nothing from @src to @dst {
  dt.copy @w <on 0 at [0] size [8]>
  // expected-error@+1 {{releases @w[0:8) on device 1, which does not hold it at the source}}
  dt.release @w <on 1 at [0] size [8]> after -1
}

// -----

// Padding that no dt.zero names.
dt.space @model {
  dt.param @w [6] of <param = f32>
}
dt.mesh @one <["tp"=1]>
dt.layout @src of @model on [@one] world 1 {
  dt.place @w [{}]
}
dt.layout @dst of @model on [@one] world 1 {
  dt.place @w [{"tp"} extent 8]
}
// expected-error@+1 {{does not zero the padding @w[6:8) of device 0}}
dt.transition @padding from @src to @dst {
  dt.copy @w <on 0 at [0] size [6]>
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
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @states_apart from @src to @dst {
  dt.wave 0 {
    // expected-error@+1 {{names states that do not lie alike}}
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
}

// -----

// A message without a slot at its receiver.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @slot_missing from @src to @dst {
  // expected-error@+1 {{has no slot of 32 bytes on device 1 for the message 0 -> 1}}
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
}

// -----

// A slot of another size than its message.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @slot_too_small from @src to @dst {
  // expected-error@+1 {{has no slot of 32 bytes on device 0 for the message 0 -> 1}}
  dt.wave 0 slots <5 columns, (0, 1, 0, 0, 16), (1, 0, 1, -1, 32)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
}

// -----

// A slot beyond the limit.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @beyond_the_limit from @src to @dst memory <staging 128, rollback> {
  // expected-error@+1 {{uses staging up to byte 160 on device 1, more than the limit of 128}}
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, 128, 32)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
}

// -----

// A slot that the next wave packs into while this one still sends from it.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [1, 2] {
  dt.place @w shards [i: 2] rank i at [i * 4] size [4]
}
dt.transition @reused_in_flight from @src to @dst {
  // expected-note@+1 {{the slot at bytes 0 to 16 belongs to wave 0}}
  dt.wave 0 slots <5 columns, (0, 1, 0, 0, 16), (1, 0, 1, -1, 16)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [4]>
  }
  // expected-error@+1 {{reuses staging bytes 8 to 24 of device 0 while they are in flight}}
  dt.wave 3 slots <5 columns, (0, 2, 0, 8, 16), (2, 0, 1, -1, 16)> {
    dt.sendrecv @w <from 0 to 2 at [4] size [4]>
  }
}

// -----

// Two messages of one wave in one slot.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [1, 2] {
  dt.place @w shards [i: 2] rank i at [i * 4] size [4]
}
dt.transition @shared_slot from @src to @dst {
  // expected-note@+2 {{the slot at bytes 0 to 16 belongs to wave 0}}
  // expected-error@+1 {{reuses staging bytes 0 to 16 of device 0 while they are in flight}}
  dt.wave 0 slots <5 columns, (0, 1, 0, 0, 16), (1, 0, 1, -1, 16), (0, 2, 0, 0, 16), (2, 0, 1, -1, 16)> {
    dt.sendrecv @w <[i: 2] from 0 to i + 1 at [i * 4] size [4]>
  }
}
