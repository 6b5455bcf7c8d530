// Programs that can never complete: one case each, with a note per edge.
// RUN: dt-opt %s --dt-prove -split-input-file -verify-diagnostics

// A crossed pair: both send first.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @move from @src to @dst
dt.program @move device 0 staging 64 {
  %s = dt.slot at 0 : !dt.buffer<32>
  dt.group wave 0 {
    // expected-error@+2 {{can never complete: ranks 0 and 1 wait on each other}}
    // expected-note@+1 {{rank 0 waits here for rank 1}}
    dt.send %s to 1 : !dt.buffer<32>
  }
  dt.group wave 1 {
    dt.recv %s from 1 : !dt.buffer<32>
  }
}
dt.program @move device 1 staging 64 {
  %s = dt.slot at 0 : !dt.buffer<32>
  dt.group wave 0 {
    // expected-note@+1 {{rank 1 waits here for rank 0}}
    dt.send %s to 0 : !dt.buffer<32>
  }
  dt.group wave 1 {
    dt.recv %s from 0 : !dt.buffer<32>
  }
}

// -----

// A ring of three: all receive first.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @move from @src to @dst
dt.program @move device 0 staging 64 {
  %s = dt.slot at 0 : !dt.buffer<32>
  dt.group wave 0 {
    // expected-error@+2 {{can never complete: ranks 0, 1 and 2 wait on each other}}
    // expected-note@+1 {{rank 0 waits here for rank 2}}
    dt.recv %s from 2 : !dt.buffer<32>
  }
  dt.group wave 1 {
    dt.send %s to 1 : !dt.buffer<32>
  }
}
dt.program @move device 1 staging 64 {
  %s = dt.slot at 0 : !dt.buffer<32>
  dt.group wave 0 {
    // expected-note@+1 {{rank 1 waits here for rank 0}}
    dt.recv %s from 0 : !dt.buffer<32>
  }
  dt.group wave 1 {
    dt.send %s to 2 : !dt.buffer<32>
  }
}
dt.program @move device 2 staging 64 {
  %s = dt.slot at 0 : !dt.buffer<32>
  dt.group wave 0 {
    // expected-note@+1 {{rank 2 waits here for rank 1}}
    dt.recv %s from 1 : !dt.buffer<32>
  }
  dt.group wave 1 {
    dt.send %s to 0 : !dt.buffer<32>
  }
}

// -----

// The loop `peer = rank xor u`, u = 1 .. n - 1, at n = 3: ranks 1 and 2 never
// meet, and rank 2 waits for what nobody sends.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @move from @src to @dst
dt.program @move device 0 staging 64 {
  %s = dt.slot at 0 : !dt.buffer<32>
  dt.group wave 0 {
    dt.send %s to 1 : !dt.buffer<32>
    dt.recv %s from 1 : !dt.buffer<32>
  }
  dt.group wave 1 {
    dt.send %s to 2 : !dt.buffer<32>
    dt.recv %s from 2 : !dt.buffer<32>
  }
}
dt.program @move device 1 staging 64 {
  %s = dt.slot at 0 : !dt.buffer<32>
  dt.group wave 0 {
    dt.send %s to 0 : !dt.buffer<32>
    dt.recv %s from 0 : !dt.buffer<32>
  }
}
dt.program @move device 2 staging 64 {
  %s = dt.slot at 0 : !dt.buffer<32>
  dt.group wave 1 {
    dt.send %s to 0 : !dt.buffer<32>
    dt.recv %s from 0 : !dt.buffer<32>
  }
  dt.group wave 2 {
    // expected-error@+1 {{can never complete: rank 2 waits for rank 1, which has no other end for it}}
    dt.recv %s from 1 : !dt.buffer<32>
  }
}

// -----

// The ends of a message in different waves: no circle here, and yet no order
// that all ranks share.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @move from @src to @dst
dt.program @move device 0 staging 64 {
  %s = dt.slot at 0 : !dt.buffer<32>
  dt.group wave 0 {
    // expected-note@+1 {{sent here}}
    dt.send %s to 1 : !dt.buffer<32>
  }
}
dt.program @move device 1 staging 64 {
  %s = dt.slot at 0 : !dt.buffer<32>
  dt.group wave 1 {
    // expected-error@+1 {{is in wave 1, its send in wave 0}}
    dt.recv %s from 0 : !dt.buffer<32>
  }
}

// -----

// A group that does not fit one kernel plan.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @move from @src to @dst
dt.program @move device 0 staging 64 {
  %s = dt.slot at 0 : !dt.buffer<32>
  dt.group wave 0 {
    dt.send %s to 1 : !dt.buffer<32>
    dt.send %s to 2 : !dt.buffer<32>
    dt.send %s to 3 : !dt.buffer<32>
    dt.send %s to 4 : !dt.buffer<32>
    dt.send %s to 5 : !dt.buffer<32>
    dt.send %s to 6 : !dt.buffer<32>
    dt.send %s to 7 : !dt.buffer<32>
    // expected-error@+1 {{is one message more than the 7 of a group that fits one kernel plan}}
    dt.send %s to 8 : !dt.buffer<32>
  }
}

// -----

// Two programs of one device.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @move from @src to @dst
dt.program @move device 0 staging 64 {
  %s = dt.slot at 0 : !dt.buffer<32>
}
// expected-error@+1 {{is the second program of device 0}}
dt.program @move device 0 staging 64 {
  %s = dt.slot at 0 : !dt.buffer<32>
}

// -----

// Collectives of two member sets in another order on two ranks.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @move from @src to @dst
dt.program @move device 0 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  %b = dt.slot at 128 : !dt.buffer<256>
  %c = dt.slot at 384 : !dt.buffer<384>
  // expected-error@+2 {{can never complete: ranks 0 and 1 wait on each other}}
  // expected-note@+1 {{rank 0 waits here for rank 1}}
  dt.group wave 0 call <all_gather among [0, 1] blocks 128> gives %a : !dt.buffer<128> gets %b : !dt.buffer<256> {
  }
  dt.group wave 1 call <all_gather among [0, 1, 2] blocks 128> gives %a : !dt.buffer<128> gets %c : !dt.buffer<384> {
  }
}
dt.program @move device 1 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  %b = dt.slot at 128 : !dt.buffer<256>
  %c = dt.slot at 384 : !dt.buffer<384>
  // expected-note@+1 {{rank 1 waits here for rank 0}}
  dt.group wave 0 call <all_gather among [0, 1, 2] blocks 128> gives %a : !dt.buffer<128> gets %c : !dt.buffer<384> {
  }
  dt.group wave 1 call <all_gather among [0, 1] blocks 128> gives %a : !dt.buffer<128> gets %b : !dt.buffer<256> {
  }
}
dt.program @move device 2 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  %b = dt.slot at 128 : !dt.buffer<256>
  %c = dt.slot at 384 : !dt.buffer<384>
  dt.group wave 0 call <all_gather among [0, 1, 2] blocks 128> gives %a : !dt.buffer<128> gets %c : !dt.buffer<384> {
  }
}

// -----

// A member that makes no call.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @move from @src to @dst
dt.program @move device 0 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  %b = dt.slot at 128 : !dt.buffer<256>
  %c = dt.slot at 384 : !dt.buffer<384>
  // expected-error@+1 {{can never complete: rank 0 waits for rank 2, which has no other end for it}}
  dt.group wave 0 call <all_gather among [0, 1, 2] blocks 128> gives %a : !dt.buffer<128> gets %c : !dt.buffer<384> {
  }
}
dt.program @move device 1 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  %b = dt.slot at 128 : !dt.buffer<256>
  %c = dt.slot at 384 : !dt.buffer<384>
  dt.group wave 0 call <all_gather among [0, 1, 2] blocks 128> gives %a : !dt.buffer<128> gets %c : !dt.buffer<384> {
  }
}
dt.program @move device 2 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  %b = dt.slot at 128 : !dt.buffer<256>
  %c = dt.slot at 384 : !dt.buffer<384>
}

// -----

// A call beside a message is no other end of it.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @move from @src to @dst
dt.program @move device 0 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  %b = dt.slot at 128 : !dt.buffer<256>
  %c = dt.slot at 384 : !dt.buffer<384>
  // expected-error@+2 {{can never complete: ranks 0 and 1 wait on each other}}
  // expected-note@+1 {{rank 0 waits here for rank 1}}
  dt.group wave 0 call <all_gather among [0, 1] blocks 128> gives %a : !dt.buffer<128> gets %b : !dt.buffer<256> {
  }
}
dt.program @move device 1 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  %b = dt.slot at 128 : !dt.buffer<256>
  %c = dt.slot at 384 : !dt.buffer<384>
  dt.group wave 0 {
    // expected-note@+1 {{rank 1 waits here for rank 0}}
    dt.recv %a from 0 : !dt.buffer<128>
  }
}

// -----

// A broadcast from another member.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @move from @src to @dst
dt.program @move device 0 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  %b = dt.slot at 128 : !dt.buffer<256>
  %c = dt.slot at 384 : !dt.buffer<384>
  // expected-error@+1 {{is another call than that of rank 1}}
  dt.group wave 0 call <broadcast among [0, 1] from 0 blocks 128> gives %a : !dt.buffer<128> {
  }
}
dt.program @move device 1 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  %b = dt.slot at 128 : !dt.buffer<256>
  %c = dt.slot at 384 : !dt.buffer<384>
  // expected-note@+1 {{that one is here}}
  dt.group wave 0 call <broadcast among [0, 1] from 1 blocks 128> gives %a : !dt.buffer<128> {
  }
}

// -----

// The call of another wave.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @move from @src to @dst
dt.program @move device 0 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  %b = dt.slot at 128 : !dt.buffer<256>
  %c = dt.slot at 384 : !dt.buffer<384>
  // expected-error@+1 {{is in wave 0, the same call of rank 1 in wave 1}}
  dt.group wave 0 call <all_gather among [0, 1] blocks 128> gives %a : !dt.buffer<128> gets %b : !dt.buffer<256> {
  }
}
dt.program @move device 1 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  %b = dt.slot at 128 : !dt.buffer<256>
  %c = dt.slot at 384 : !dt.buffer<384>
  // expected-note@+1 {{called here}}
  dt.group wave 1 call <all_gather among [0, 1] blocks 128> gives %a : !dt.buffer<128> gets %b : !dt.buffer<256> {
  }
}

// -----

// What one gives the other does not get.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @move from @src to @dst
dt.program @move device 0 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  %b = dt.slot at 128 : !dt.buffer<256>
  %c = dt.slot at 384 : !dt.buffer<384>
  dt.group wave 0 call <broadcast among [0, 1] from 0 blocks 128> gives %a : !dt.buffer<128> {
    // expected-note@+1 {{that one is here}}
    dt.send %a to 1 : !dt.buffer<128>
  }
}
dt.program @move device 1 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  %b = dt.slot at 128 : !dt.buffer<256>
  %c = dt.slot at 384 : !dt.buffer<384>
  // expected-error@+1 {{does not get what is given by rank 0}}
  dt.group wave 0 call <broadcast among [0, 1] from 0 blocks 128> gets %a : !dt.buffer<128> {
  }
}

// -----

// What one gets the other does not give.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @move from @src to @dst
dt.program @move device 0 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  %b = dt.slot at 128 : !dt.buffer<256>
  %c = dt.slot at 384 : !dt.buffer<384>
  // expected-note@+1 {{that one is here}}
  dt.group wave 0 call <broadcast among [0, 1] from 0 blocks 128> gives %a : !dt.buffer<128> {
  }
}
dt.program @move device 1 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  %b = dt.slot at 128 : !dt.buffer<256>
  %c = dt.slot at 384 : !dt.buffer<384>
  dt.group wave 0 call <broadcast among [0, 1] from 0 blocks 128> gets %a : !dt.buffer<128> {
    // expected-error@+1 {{gets what is not given by rank 0}}
    dt.recv %a from 0 : !dt.buffer<128>
  }
}
