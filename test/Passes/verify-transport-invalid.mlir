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
  // expected-error@+1 {{is illegal at the transport level: run --dt-schedule first}}
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
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, -1, 16)> {
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
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, -1, 32)> {
    // expected-note@+1 {{the first time is here}}
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
  dt.wave 1 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, -1, 32)> {
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
  dt.wave 1 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, -1, 32), (1, 2, 0, -1, 32), (2, 1, 1, -1, 32)> {
    // expected-error@+2 {{sends @w[0:8) from device 1 in wave 1, before it holds it}}
    // expected-note@+1 {{it arrives here}}
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
  dt.wave 0 slots <5 columns, (0, 2, 0, -1, 8), (2, 0, 1, -1, 8), (1, 2, 0, 0, 24), (2, 1, 1, -1, 24)> {
    // expected-error@+1 {{sends @w[2:4) from device 1, which does not hold it}}
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
  // expected-error@+1 {{releases storage @w[0:8) on device 1, whose shard does not have it}}
  dt.release @w <on 1 at [0] size [8]>
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
    // expected-error@+1 {{names states that are not one flow, expected exactly those of one layout}}
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
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32)> {
    // expected-error@+1 {{never receives the message 0 -> 1 of wave 0}}
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
  // expected-error@+1 {{sends 16 bytes as the message 0 -> 1 of wave 0, expected 32}}
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
  // expected-error@+1 {{uses staging bytes 128 to 160 on device 1, more than the limit of 128}}
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
  // expected-note@+1 {{they hold the message of wave 0}}
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
dt.transition @shared_slot from @src to @dst cluster <2 per node, intra 200.0, inter 25.0, latency 10.0> {
  // expected-note@+2 {{they hold the message of wave 0}}
  // expected-error@+1 {{reuses staging bytes 0 to 16 of device 0 while they are in flight}}
  dt.wave 0 slots <5 columns, (0, 1, 0, 0, 16), (1, 0, 1, -1, 16), (0, 2, 0, 0, 16), (2, 0, 1, -1, 16)> {
    dt.sendrecv @w <[i: 2] from 0 to i + 1 at [i * 4] size [4]>
  }
}

// -----

// Two messages out of one NIC: they would share its rate, which no time counts.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [1, 2] {
  dt.place @w shards [i: 2] rank i at [i * 4] size [4]
}
dt.transition @nic_twice from @src to @dst cluster <1 per node, intra 200.0, inter 25.0, latency 10.0> {
  dt.wave 0 slots <5 columns, [i: 2] (0, i + 1, 0, -1, 16), [i: 2] (i + 1, 0, 1, -1, 16)> {
    // expected-error@+2 {{sends 0 -> 1 and 0 -> 2 over the NIC of device 0 in wave 0: expected one message each way per port and wave}}
    // expected-note@+1 {{the first of them is here}}
    dt.sendrecv @w <[i: 2] from 0 to i + 1 at [i * 4] size [4]>
  }
}

// -----

// Two messages into one island port.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
  dt.place @w shards [i: 2] rank i at [i * 4] size [4]
}
dt.layout @dst of @model world 1 devices [2] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @island_port_twice from @src to @dst {
  dt.wave 0 slots <5 columns, [i: 2] (i, 2, 0, -1, 16), [i: 2] (2, i, 1, -1, 16)> {
    // expected-error@+2 {{receives 0 -> 2 and 1 -> 2 over the island port of device 2 in wave 0: expected one message each way per port and wave}}
    // expected-note@+1 {{the first of them is here}}
    dt.sendrecv @w <[i: 2] from i to 2 at [i * 4] size [4]>
  }
}

// -----

// Devices 0 and 1 share a NIC, which sends for both.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
  dt.place @w shards [i: 2] rank i at [i * 4] size [4]
}
dt.layout @dst of @model world 2 devices [2, 4] {
  dt.place @w shards [i: 2] rank i at [i * 4] size [4]
}
dt.transition @shared_nic_twice from @src to @dst cluster <2 per node, intra 200.0, inter 25.0, latency 10.0, 2 per nic> {
  dt.wave 0 slots <5 columns, [i: 2] (i, i * 2 + 2, 0, -1, 16), [i: 2] (i * 2 + 2, i, 1, -1, 16)> {
    // expected-error@+2 {{sends 0 -> 2 and 1 -> 4 over the NIC of device 0 in wave 0: expected one message each way per port and wave}}
    // expected-note@+1 {{the first of them is here}}
    dt.sendrecv @w <[i: 2] from i to i * 2 + 2 at [i * 4] size [4]>
  }
}

// -----

// What is written before its storage exists.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @written_early from @src to @dst {
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, -1, 32)> {
    // expected-error@+1 {{writes @w[0:8) on device 1 before its storage is created}}
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
  // expected-note@+1 {{created here}}
  dt.create @w <on 1 at [6] size [2]>
}

// -----

// Storage that comes twice.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @created_twice from @src to @dst {
  // expected-note@+1 {{the first time is here}}
  dt.create @w <on 1 at [0] size [6]>
  // expected-error@+1 {{creates storage @w[4:6) on device 1 a second time}}
  dt.create @w <on 1 at [4] size [4]>
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, -1, 32)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
}

// -----

// Storage of a shard that the device does not have.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @no_such_shard from @src to @dst {
  // expected-error@+1 {{creates storage of shard 1 of @w on device 1, which has 1}}
  dt.create @w <on 1 at [0] size [8]> shard 1
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, -1, 32)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
}

// -----

// Flat mode holds to the larger side and the staging limit.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
// expected-error@+1 {{holds 32 bytes above the larger of source and destination on device 0, more than the limit of 16}}
dt.transition @above_the_limit from @src to @dst memory <staging 16, flat> {
  dt.create @w <on 0 at [0] size [8]>
  dt.copy @w <on 0 at [0] size [8]>
}

// -----

// In flat memory what is kept has one storage, which does not come.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @kept_and_created from @src to @dst memory <staging 64, flat> {
  dt.create @w <on 0 at [6] size [2]>
  // expected-error@+1 {{keeps @w[0:8) on device 0, where not all of its shard stays}}
  dt.keep @w <on 0 at [0] size [8]>
}

// -----

// Nor does it go.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @kept_and_released from @src to @dst memory <staging 64, flat> {
  // expected-error@+1 {{keeps @w[0:8) on device 0, where not all of its shard stays}}
  dt.keep @w <on 0 at [0] size [8]>
  dt.release @w <on 0 at [0] size [8]>
}

// -----

// What is kept is the same on both sides.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 devices [0, 1] {
  dt.place @w shards rank 0 at [0] size [8], rank 1 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [0, 1] {
  dt.place @w shards rank 0 at [0] size [8], rank 1 at [0] size [4]
}
dt.transition @kept_in_part from @src to @dst memory <staging 64, flat> {
  // expected-error@+1 {{keeps @w[0:4) on device 1, where not all of its shard stays}}
  dt.keep @w <on 0 at [0] size [8], on 1 at [0] size [4]>
}

// -----

// Nothing that is wanted is brought.
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
dt.transition @empty from @src to @dst {
}

// -----

// A copy beside a wave reads until that has ended.
dt.space @model {
  dt.param @v [4] of <param = f32>
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @v shards rank 0 at [0] size [4]
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 {
  dt.place @v shards rank 1 at [0] size [4]
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @released_beside from @src to @dst memory <staging 64, flat> {
  // expected-error@+1 {{reads @w[0:8) on device 0 after its storage is released}}
  dt.copy @w <on 0 at [0] size [8]> wave 0
  // expected-note@+1 {{released here}}
  dt.release @w <on 0 at [4] size [4]>
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, -1, 16)> {
    dt.sendrecv @v <from 0 to 1 at [0] size [4]>
  }
}

// -----

// It is the next one.
dt.space @model {
  dt.param @v [4] of <param = f32>
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @v shards rank 0 at [0] size [4]
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 {
  dt.place @v shards rank 1 at [0] size [4]
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @beside_another from @src to @dst memory <staging 64, flat> {
  // expected-error@+1 {{is of wave 1, the next wave is 0}}
  dt.copy @w <on 0 at [0] size [8]> wave 1
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, -1, 16)> {
    dt.sendrecv @v <from 0 to 1 at [0] size [4]>
  }
}

// -----

dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @beside_none from @src to @dst memory <staging 64, flat> {
  // expected-error@+1 {{is of wave 0, no wave follows}}
  dt.copy @w <on 0 at [0] size [8]> wave 0
}

// -----

// Elsewhere copies go beside all waves.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @not_flat from @src to @dst {
  // expected-error@+1 {{is of wave 0, expected flat memory}}
  dt.copy @w <on 0 at [0] size [8]> wave 0
}
