// What the prover refuses: one case each.
// RUN: dt-opt %s --dt-prove -split-input-file -verify-diagnostics

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
dt.transition @twice from @src to @dst {
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, -1, 32)> {
    // expected-note@+1 {{the first time is here}}
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
  dt.wave 1 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, -1, 16)> {
    // expected-error@+1 {{delivers @w[4:8) to device 1 a second time}}
    dt.sendrecv @w <from 0 to 1 at [4] size [4]>
  }
}

// -----

// A region that nothing delivers.
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
dt.transition @hole from @src to @dst {
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, -1, 16)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [4]>
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
dt.transition @forward_too_early from @src to @dst {
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, -1, 32), (1, 2, 0, -1, 32), (2, 1, 1, -1, 32)> {
    // expected-error@+2 {{sends @w[0:8) from device 1 in wave 0, before it holds it}}
    // expected-note@+1 {{it arrives here}}
    dt.sendrecv @w <[i: 2] from i to i + 1 at [0] size [8]>
  }
}

// -----

// A sender that receives later what it sends.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [1, 2] {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
dt.transition @backwards from @src to @dst {
  dt.wave 0 slots <5 columns, (2, 1, 0, -1, 32), (1, 2, 1, -1, 32)> {
    // expected-error@+1 {{sends @w[0:8) from device 2 in wave 0, before it holds it}}
    dt.sendrecv @w <from 2 to 1 at [0] size [8]>
  }
  dt.wave 1 slots <5 columns, (0, 2, 0, -1, 32), (2, 0, 1, -1, 32)> {
    // expected-note@+1 {{it arrives here}}
    dt.sendrecv @w <from 0 to 2 at [0] size [8]>
  }
}

// -----

// A receiver without its slot.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @one_end from @src to @dst {
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32)> {
    // expected-error@+1 {{never receives the message 0 -> 1 of wave 0}}
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
}

// -----

// Two messages of a pair in one group.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @two_messages from @src to @dst {
  // expected-error@+1 {{sends the message 0 -> 1 of wave 0 twice: expected one message per ordered pair}}
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (0, 1, 0, -1, 32), (1, 0, 1, -1, 32)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
}

// -----

// Other bytes than the pieces have.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @bytes from @src to @dst {
  // expected-error@+1 {{receives 16 bytes as the message 0 -> 1 of wave 0, expected 32}}
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, -1, 16)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
}

// -----

// A slot that is packed while the group before still sends it.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @slot_in_flight from @src to @dst {
  // expected-note@+1 {{they hold the message of wave 0}}
  dt.wave 0 slots <5 columns, (0, 1, 0, 0, 16), (1, 0, 1, 0, 16)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [4]>
  }
  // expected-error@+1 {{reuses staging bytes 0 to 16 of device 0 while they are in flight}}
  dt.wave 1 slots <5 columns, (0, 1, 0, 0, 16), (1, 0, 1, 16, 16)> {
    dt.sendrecv @w <from 0 to 1 at [4] size [4]>
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
dt.transition @limit from @src to @dst memory <staging 32, rollback> {
  // expected-error@+1 {{uses staging bytes 16 to 48 on device 1, more than the limit of 32}}
  dt.wave 0 slots <5 columns, (0, 1, 0, 0, 32), (1, 0, 1, 16, 32)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
}

// -----

// A source that is read after its release.
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
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, -1, 16)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [4]>
  }
  // expected-note@+1 {{released here}}
  dt.release @w <on 0 at [0] size [8]>
  dt.wave 1 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, -1, 16)> {
    // expected-error@+1 {{reads @w[4:8) on device 0 after its storage is released}}
    dt.sendrecv @w <from 0 to 1 at [4] size [4]>
  }
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
dt.transition @order from @src to @dst {
  dt.wave 1 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, -1, 16)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [4]>
  }
  // expected-error@+1 {{has number 1, expected one above that of the wave before, 1}}
  dt.wave 1 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, -1, 16)> {
    dt.sendrecv @w <from 0 to 1 at [4] size [4]>
  }
}

// -----

// What is not scheduled has no order to prove.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @routing_level from @src to @dst {
  // expected-error@+1 {{is illegal at the transport level: run --dt-schedule first}}
  dt.transfer @w <from 0 to 1 at [0] size [8]>
}

// -----

// No slots, no proof.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @unstaged from @src to @dst {
  // expected-error@+1 {{has no slots: run --dt-allocate-staging first}}
  dt.wave 0 {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
}

// -----

// Eight messages in one group.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 8 devices [1, 2, 3, 4, 5, 6, 7, 8] {
  dt.place @w shards [i: 8] rank i at [0] size [8]
}
dt.transition @large_group from @src to @dst {
  dt.wave 0 slots <5 columns, [i: 8] (0, i + 1, 0, -1, 32), [i: 8] (i + 1, 0, 1, -1, 32)> {
    // expected-error@+1 {{gives device 0 more than 7 messages in wave 0: a group must fit one kernel plan}}
    dt.sendrecv @w <[i: 8] from 0 to i + 1 at [0] size [8]>
  }
}

// -----

// A state made where the one that it is made from does not arrive.
dt.space @model {
  dt.param @w [8] of <param = bf16 from master, master = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [1, 2] {
  dt.place @w for ["param"] shards rank 0 at [0] size [8]
  dt.place @w for ["master"] shards rank 1 at [0] size [8]
}
dt.transition @made_of_nothing from @src to @dst {
  // expected-error@+1 {{makes @w[0:8) on device 1 from @w, which does not arrive there}}
  dt.derive @w for ["param"] <on 1 at [0] size [8]>
  dt.wave 0 slots <5 columns, (0, 2, 0, -1, 32), (2, 0, 1, -1, 32)> {
    dt.sendrecv @w for ["master"] <from 0 to 2 at [0] size [8]>
  }
}

// -----

// One that is made only in part.
dt.space @model {
  dt.param @w [8] of <param = bf16 from master, master = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w for ["param"] shards rank 0 at [0] size [8]
  dt.place @w for ["master"] shards rank 0 at [0] size [8]
}
// expected-error@+1 {{does not deliver @w[0:2) to device 1}}
dt.transition @made_in_part from @src to @dst {
  dt.derive @w for ["param"] <on 1 at [2] size [6]>
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, -1, 32)> {
    dt.sendrecv @w for ["master"] <from 0 to 1 at [0] size [8]>
  }
}
