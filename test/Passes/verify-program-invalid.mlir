// What closes the program level refuses: one case each.
// RUN: dt-opt %s --dt-verify-program -split-input-file -verify-diagnostics

// A slot that is sent but never packed.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
}
dt.transition @t from @src to @src
dt.program @t device 0 staging 64 {
  %old = dt.shard source @w <[[0:8]]> : !dt.buffer<32>
  %new = dt.shard destination @w <[[0:8]]> : !dt.buffer<32>
  %slot = dt.slot at 0 : !dt.buffer<32>
  dt.group wave 0 {
    // expected-error@+1 {{sends a slot that nothing packed}}
    dt.send %slot to 1 : !dt.buffer<32>
  }
}

// -----

// A slot that is sent a second time.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
}
dt.transition @t from @src to @src
dt.program @t device 0 staging 64 {
  %old = dt.shard source @w <[[0:8]]> : !dt.buffer<32>
  %new = dt.shard destination @w <[[0:8]]> : !dt.buffer<32>
  %slot = dt.slot at 0 : !dt.buffer<32>
  dt.pack %old at [#dt.view<[0] size [8]>] into %slot wave 0 : !dt.buffer<32> into !dt.buffer<32>
  dt.group wave 0 {
    dt.send %slot to 1 : !dt.buffer<32>
  }
  dt.group wave 1 {
    // expected-error@+1 {{sends a slot that nothing packed}}
    dt.send %slot to 1 : !dt.buffer<32>
  }
}

// -----

// A slot that is unpacked but never received.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
}
dt.transition @t from @src to @src
dt.program @t device 0 staging 64 {
  %old = dt.shard source @w <[[0:8]]> : !dt.buffer<32>
  %new = dt.shard destination @w <[[0:8]]> : !dt.buffer<32>
  %slot = dt.slot at 0 : !dt.buffer<32>
  // expected-error@+1 {{unpacks a slot that nothing received}}
  dt.unpack %slot into %new at [#dt.view<[0] size [8]>] wave 0 : !dt.buffer<32> into !dt.buffer<32>
}

// -----

// A slot that is packed again before it is sent.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
}
dt.transition @t from @src to @src
dt.program @t device 0 staging 64 {
  %old = dt.shard source @w <[[0:8]]> : !dt.buffer<32>
  %new = dt.shard destination @w <[[0:8]]> : !dt.buffer<32>
  %slot = dt.slot at 0 : !dt.buffer<32>
  // expected-note@+1 {{they were written here}}
  dt.pack %old at [#dt.view<[0] size [8]>] into %slot wave 0 : !dt.buffer<32> into !dt.buffer<32>
  // expected-error@+1 {{writes a slot whose bytes were not read yet}}
  dt.pack %old at [#dt.view<[0] size [8]>] into %slot wave 1 : !dt.buffer<32> into !dt.buffer<32>
  dt.group wave 1 {
    dt.send %slot to 1 : !dt.buffer<32>
  }
}

// -----

// A slot that is received into before it is sent.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
}
dt.transition @t from @src to @src
dt.program @t device 0 staging 64 {
  %old = dt.shard source @w <[[0:8]]> : !dt.buffer<32>
  %new = dt.shard destination @w <[[0:8]]> : !dt.buffer<32>
  %slot = dt.slot at 0 : !dt.buffer<32>
  // expected-note@+1 {{they were written here}}
  dt.pack %old at [#dt.view<[0] size [8]>] into %slot wave 0 : !dt.buffer<32> into !dt.buffer<32>
  dt.group wave 0 {
    // expected-error@+1 {{writes a slot whose bytes were not read yet}}
    dt.recv %slot from 1 : !dt.buffer<32>
  }
}

// -----

// A slot that is packed before it is unpacked.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
}
dt.transition @t from @src to @src
dt.program @t device 0 staging 64 {
  %old = dt.shard source @w <[[0:8]]> : !dt.buffer<32>
  %new = dt.shard destination @w <[[0:8]]> : !dt.buffer<32>
  %slot = dt.slot at 0 : !dt.buffer<32>
  dt.group wave 0 {
    // expected-note@+1 {{they were written here}}
    dt.recv %slot from 1 : !dt.buffer<32>
  }
  // expected-error@+1 {{writes a slot whose bytes were not read yet}}
  dt.pack %old at [#dt.view<[0] size [8]>] into %slot wave 1 : !dt.buffer<32> into !dt.buffer<32>
}

// -----

// A slot that is packed and then unpacked.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
}
dt.transition @t from @src to @src
dt.program @t device 0 staging 64 {
  %old = dt.shard source @w <[[0:8]]> : !dt.buffer<32>
  %new = dt.shard destination @w <[[0:8]]> : !dt.buffer<32>
  %slot = dt.slot at 0 : !dt.buffer<32>
  dt.pack %old at [#dt.view<[0] size [8]>] into %slot wave 0 : !dt.buffer<32> into !dt.buffer<32>
  // expected-error@+1 {{unpacks a slot that was packed here}}
  dt.unpack %slot into %new at [#dt.view<[0] size [8]>] wave 0 : !dt.buffer<32> into !dt.buffer<32>
}

// -----

// A slot that is received and then sent.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
}
dt.transition @t from @src to @src
dt.program @t device 0 staging 64 {
  %old = dt.shard source @w <[[0:8]]> : !dt.buffer<32>
  %new = dt.shard destination @w <[[0:8]]> : !dt.buffer<32>
  %slot = dt.slot at 0 : !dt.buffer<32>
  dt.group wave 0 {
    dt.recv %slot from 1 : !dt.buffer<32>
  }
  dt.group wave 1 {
    // expected-error@+1 {{sends a slot that was received}}
    dt.send %slot to 1 : !dt.buffer<32>
  }
}

// -----

// What the runtime would find: elements that nothing writes.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
dt.transition @t from @src to @src
// expected-error@+1 {{would be refused in a plan: device 0: }}
dt.program @t device 0 source rank 0 destination rank 0 {
  %old = dt.shard source @w <[[0:8]]> : !dt.buffer<32>
  %new = dt.shard destination @w <[[0:8]]> : !dt.buffer<32>
  dt.copy_local %old at [#dt.view<[0] size [4]>] to %new at [#dt.view<[0] size [4]>] : !dt.buffer<32> to !dt.buffer<32>
}

// -----

// Elements that are written twice.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
dt.transition @t from @src to @src
dt.program @t device 0 source rank 0 destination rank 0 {
  %old = dt.shard source @w <[[0:8]]> : !dt.buffer<32>
  %new = dt.shard destination @w <[[0:8]]> : !dt.buffer<32>
  dt.copy_local %old at [#dt.view<[0] size [8]>] to %new at [#dt.view<[0] size [8]>] : !dt.buffer<32> to !dt.buffer<32>
  // expected-error@+1 {{would be refused in a plan: }}
  dt.zero_fill %new at [#dt.view<[0] size [4]>] : !dt.buffer<32>
}

// -----

// Storage that is given back before it is read.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
dt.transition @t from @src to @src memory <staging 4096, flat>
dt.program @t device 0 source rank 0 destination rank 0 {
  %old = dt.shard source @w <[[0:8]]> : !dt.buffer<32>
  %new = dt.shard destination @w <[[0:8]]> : !dt.buffer<32>
  dt.release_shard %old at [#dt.view<[0] size [8]>] : !dt.buffer<32>
  // expected-error@+1 {{would be refused in a plan: }}
  dt.copy_local %old at [#dt.view<[0] size [8]>] to %new at [#dt.view<[0] size [8]>] : !dt.buffer<32> to !dt.buffer<32>
}

// -----

// Staging that no instruction uses.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
dt.transition @t from @src to @src memory <staging 4096, rollback>
// expected-error@+1 {{would be refused in a plan: device 0: staging arena has 8192 bytes, instructions use 0}}
dt.program @t device 0 source rank 0 destination rank 0 staging 8192 {
  %old = dt.shard source @w <[[0:8]]> : !dt.buffer<32>
  %new = dt.shard destination @w <[[0:8]]> : !dt.buffer<32>
  dt.copy_local %old at [#dt.view<[0] size [8]>] to %new at [#dt.view<[0] size [8]>] : !dt.buffer<32> to !dt.buffer<32>
}

// -----

// A slot that is relayed but never received.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
}
dt.transition @t from @src to @src
dt.program @t device 0 staging 64 {
  %slot = dt.slot at 0 : !dt.buffer<32>
  // expected-error@+1 {{relays a slot that nothing received}}
  dt.relay %slot of [@w] at [#dt.view<[0] size [8]>] wave 1 : !dt.buffer<32>
}

// -----

// A slot that is received again where it waits to be sent on.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
}
dt.transition @t from @src to @src
dt.program @t device 0 staging 64 {
  %slot = dt.slot at 0 : !dt.buffer<32>
  dt.group wave 0 {
    dt.recv %slot from 1 : !dt.buffer<32>
  }
  // expected-note@+1 {{they were written here}}
  dt.relay %slot of [@w] at [#dt.view<[0] size [8]>] wave 1 : !dt.buffer<32>
  dt.group wave 1 {
    // expected-error@+1 {{writes a slot whose bytes were not read yet}}
    dt.recv %slot from 1 : !dt.buffer<32>
  }
}

// -----

// A relay where the cluster has none.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 3 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @src
// expected-error@+1 {{would be refused in a plan: program of device 0: instruction 1 (relay): appears in a plan that has no relays}}
dt.program @t device 0 staging 64 {
  %slot = dt.slot at 0 : !dt.buffer<32>
  dt.group wave 0 {
    dt.recv %slot from 1 : !dt.buffer<32>
  }
  dt.relay %slot of [@w] at [#dt.view<[0] size [8]>] wave 1 : !dt.buffer<32>
  dt.group wave 1 {
    dt.send %slot to 2 : !dt.buffer<32>
  }
}

// -----

// What a call gives is packed once, for all that it goes to, and no more often
// sent.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 3 {
  dt.place @w shards [i: 3] rank i at [0] size [8]
}
dt.transition @t from @src to @dst
dt.program @t device 0 staging 256 {
  %old = dt.shard source @w <[[0:8]]> : !dt.buffer<32>
  %slot = dt.slot at 0 : !dt.buffer<32>
  %block = dt.slot at 0 : !dt.buffer<128>
  dt.pack %old at [#dt.view<[0] size [8]>] into %slot wave 0 : !dt.buffer<32> into !dt.buffer<32>
  dt.group wave 0 call <broadcast among [0, 1, 2] from 0 blocks 128> gives %block : !dt.buffer<128> {
    dt.send %slot to 1 : !dt.buffer<32>
    dt.send %slot to 2 : !dt.buffer<32>
  }
  dt.group wave 1 {
    // expected-error@+1 {{sends a slot that nothing packed}}
    dt.send %slot to 1 : !dt.buffer<32>
  }
}

// -----

// What a call gives was not packed.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 3 {
  dt.place @w shards [i: 3] rank i at [0] size [8]
}
dt.transition @t from @src to @dst
dt.program @t device 0 staging 256 {
  %slot = dt.slot at 0 : !dt.buffer<32>
  %block = dt.slot at 0 : !dt.buffer<128>
  dt.group wave 0 call <broadcast among [0, 1, 2] from 0 blocks 128> gives %block : !dt.buffer<128> {
    // expected-error@+1 {{sends a slot that nothing packed}}
    dt.send %slot to 1 : !dt.buffer<32>
    dt.send %slot to 2 : !dt.buffer<32>
  }
}

// -----

// Without a call, one slot is sent once.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 3 {
  dt.place @w shards [i: 3] rank i at [0] size [8]
}
dt.transition @t from @src to @dst
dt.program @t device 0 staging 256 {
  %old = dt.shard source @w <[[0:8]]> : !dt.buffer<32>
  %slot = dt.slot at 0 : !dt.buffer<32>
  dt.pack %old at [#dt.view<[0] size [8]>] into %slot wave 0 : !dt.buffer<32> into !dt.buffer<32>
  dt.group wave 0 {
    dt.send %slot to 1 : !dt.buffer<32>
    // expected-error@+1 {{sends a slot that nothing packed}}
    dt.send %slot to 2 : !dt.buffer<32>
  }
}

// -----

// What comes lies beside its block.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 3 {
  dt.place @w shards [i: 3] rank i at [0] size [8]
}
dt.transition @t from @src to @dst
// expected-error@+1 {{would be refused in a plan: program of device 1: instruction 0 (group): message 0: lies elsewhere than in the block at 0 of 128 bytes}}
dt.program @t device 1 destination rank 1 staging 256 {
  %new = dt.shard destination @w <[[0:8]]> : !dt.buffer<32>
  %slot = dt.slot at 64 : !dt.buffer<32>
  %block = dt.slot at 0 : !dt.buffer<128>
  dt.group wave 0 call <broadcast among [0, 1, 2] from 0 blocks 128> gets %block : !dt.buffer<128> {
    dt.recv %slot from 0 : !dt.buffer<32>
  }
  dt.unpack %slot into %new at [#dt.view<[0] size [8]>] wave 0 : !dt.buffer<32> into !dt.buffer<32>
}

// -----

// Some members are given nothing.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 3 {
  dt.place @w shards [i: 3] rank i at [0] size [8]
}
dt.transition @t from @src to @dst
// expected-error@+1 {{would be refused in a plan: program of device 0: instruction 2 (group): gives to 1 devices, expected all 2 others}}
dt.program @t device 0 source rank 0 destination rank 0 staging 128 {
  %old = dt.shard source @w <[[0:8]]> : !dt.buffer<32>
  %new = dt.shard destination @w <[[0:8]]> : !dt.buffer<32>
  %slot = dt.slot at 0 : !dt.buffer<32>
  %block = dt.slot at 0 : !dt.buffer<128>
  dt.copy_local %old at [#dt.view<[0] size [8]>] to %new at [#dt.view<[0] size [8]>] : !dt.buffer<32> to !dt.buffer<32>
  dt.pack %old at [#dt.view<[0] size [8]>] into %slot wave 0 : !dt.buffer<32> into !dt.buffer<32>
  dt.group wave 0 call <broadcast among [0, 1, 2] from 0 blocks 128> gives %block : !dt.buffer<128> {
    dt.send %slot to 1 : !dt.buffer<32>
  }
}

// -----

// A call's blocks overwrite what waits in staging.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 3 {
  dt.place @w shards [i: 3] rank i at [0] size [8]
}
dt.transition @t from @src to @dst
dt.program @t device 1 destination rank 1 staging 128 {
  %new = dt.shard destination @w <[[0:8]]> : !dt.buffer<32>
  %slot = dt.slot at 64 : !dt.buffer<32>
  %block = dt.slot at 0 : !dt.buffer<128>
  dt.group wave 0 {
    dt.recv %slot from 0 : !dt.buffer<32>
  }
  // expected-error@+1 {{would be refused in a plan: }}
  dt.group wave 1 call <broadcast among [0, 1, 2] from 0 blocks 128> gets %block : !dt.buffer<128> {
  }
  dt.unpack %slot into %new at [#dt.view<[0] size [8]>] wave 1 : !dt.buffer<32> into !dt.buffer<32>
}
