// What the prover refuses of messages over a third device: one case each.
// RUN: dt-opt %s --dt-prove -split-input-file -verify-diagnostics

// Sent on before it has come.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [2, 1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @dst
    cluster <1 per node, intra 200.0, inter 25.0, latency 10.0, relays>
    memory <staging 1024, rollback> {
  // expected-error@+1 {{sends on the message 1 -> 2 of wave 0, which no earlier wave brought to its slot}}
  dt.wave 0 slots <5 columns, (1, 2, 0, 0, 32), (2, 1, 1, -1, 32)> {
    dt.sendrecv @w <from 1 to 2 at [0] size [8]> from_relay
  }
  dt.wave 1 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, 0, 32)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]> to_relay
  }
}

// -----

// Never sent on, while the elements come another way.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [2, 1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @dst
    cluster <1 per node, intra 200.0, inter 25.0, latency 10.0, relays>
    memory <staging 1024, rollback> {
  // expected-error@+1 {{brings the message 0 -> 1 of wave 0 to a relay, which never sends it on}}
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, 0, 32)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]> to_relay
  }
  dt.wave 1 slots <5 columns, (0, 2, 0, -1, 32), (2, 0, 1, -1, 32)> {
    dt.sendrecv @w <from 0 to 2 at [0] size [8]>
  }
}

// -----

// From another slot than it came to.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [2, 1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @dst
    cluster <1 per node, intra 200.0, inter 25.0, latency 10.0, relays>
    memory <staging 1024, rollback> {
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, 0, 32)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]> to_relay
  }
  // expected-error@+1 {{sends on the message 1 -> 2 of wave 1, which no earlier wave brought to its slot}}
  dt.wave 1 slots <5 columns, (1, 2, 0, 128, 32), (2, 1, 1, -1, 32)> {
    dt.sendrecv @w <from 1 to 2 at [0] size [8]> from_relay
  }
}

// -----

// Other pieces than came.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [2, 1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @dst
    cluster <1 per node, intra 200.0, inter 25.0, latency 10.0, relays>
    memory <staging 1024, rollback> {
  // expected-note@+1 {{they came here}}
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, 0, 16)> {
    dt.sendrecv @w <from 0 to 1 at [4] size [4]> to_relay
  }
  // expected-error@+1 {{sends on other pieces as the message 1 -> 2 of wave 1 than the message 0 -> 1 of wave 0 brought to its slot}}
  dt.wave 1 slots <5 columns, (1, 2, 0, 0, 16), (2, 1, 1, -1, 16)> {
    dt.sendrecv @w <from 1 to 2 at [0] size [4]> from_relay
  }
  dt.wave 2 slots <5 columns, (0, 2, 0, -1, 16), (2, 0, 1, -1, 16)> {
    dt.sendrecv @w <from 0 to 2 at [4] size [4]>
  }
}

// -----

// A second one comes to the slot in between.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [2, 1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @dst
    cluster <1 per node, intra 200.0, inter 25.0, latency 10.0, relays>
    memory <staging 1024, rollback> {
  // expected-note@+1 {{that one is here}}
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, 0, 16)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [4]> to_relay
  }
  // expected-error@+1 {{brings the message 0 -> 1 of wave 1 to the slot of the message 0 -> 1 of wave 0, which has not been sent on}}
  dt.wave 1 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, 0, 16)> {
    dt.sendrecv @w <from 0 to 1 at [4] size [4]> to_relay
  }
  dt.wave 2 slots <5 columns, (1, 2, 0, 0, 16), (2, 1, 1, -1, 16)> {
    dt.sendrecv @w <from 1 to 2 at [0] size [4]> from_relay
  }
  dt.wave 3 slots <5 columns, (1, 2, 0, 0, 16), (2, 1, 1, -1, 16)> {
    dt.sendrecv @w <from 1 to 2 at [4] size [4]> from_relay
  }
}

// -----

// A part of its slot is used in between.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [2, 1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @dst
    cluster <1 per node, intra 200.0, inter 25.0, latency 10.0, relays>
    memory <staging 1024, rollback> {
  // expected-note@+1 {{they hold the message of wave 0}}
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, 0, 16)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [4]> to_relay
  }
  // expected-error@+1 {{reuses staging bytes 8 to 24 of device 1 while they are in flight}}
  dt.wave 1 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, 8, 16)> {
    dt.sendrecv @w <from 0 to 1 at [4] size [4]> to_relay
  }
  dt.wave 2 slots <5 columns, (1, 2, 0, 0, 16), (2, 1, 1, -1, 16)> {
    dt.sendrecv @w <from 1 to 2 at [0] size [4]> from_relay
  }
  dt.wave 3 slots <5 columns, (1, 2, 0, 8, 16), (2, 1, 1, -1, 16)> {
    dt.sendrecv @w <from 1 to 2 at [4] size [4]> from_relay
  }
}

// -----

// The same some waves later: it is in use until it is sent on.
dt.space @model {
  dt.param @w [12] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [12]
}
dt.layout @dst of @model world 2 devices [2, 1] {
  dt.place @w shards rank 0 at [0] size [12]
}
dt.transition @t from @src to @dst
    cluster <1 per node, intra 200.0, inter 25.0, latency 10.0, relays>
    memory <staging 1024, rollback> {
  // expected-note@+1 {{they hold the message of wave 0}}
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, 0, 16)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [4]> to_relay
  }
  dt.wave 1 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, 64, 16)> {
    dt.sendrecv @w <from 0 to 1 at [8] size [4]> to_relay
  }
  // expected-error@+1 {{reuses staging bytes 8 to 24 of device 1 while they are in flight}}
  dt.wave 2 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, 8, 16)> {
    dt.sendrecv @w <from 0 to 1 at [4] size [4]> to_relay
  }
  dt.wave 3 slots <5 columns, (1, 2, 0, 64, 16), (2, 1, 1, -1, 16)> {
    dt.sendrecv @w <from 1 to 2 at [8] size [4]> from_relay
  }
  dt.wave 4 slots <5 columns, (1, 2, 0, 0, 16), (2, 1, 1, -1, 16)> {
    dt.sendrecv @w <from 1 to 2 at [0] size [4]> from_relay
  }
  dt.wave 5 slots <5 columns, (1, 2, 0, 8, 16), (2, 1, 1, -1, 16)> {
    dt.sendrecv @w <from 1 to 2 at [4] size [4]> from_relay
  }
}

// -----

// No slot at the relay.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [2, 1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @dst
    cluster <1 per node, intra 200.0, inter 25.0, latency 10.0, relays>
    memory <staging 1024, rollback> {
  // expected-error@+1 {{has no slot on device 1 for the message 0 -> 1 of wave 0, which is relayed}}
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, -1, 32)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]> to_relay
  }
  dt.wave 1 slots <5 columns, (1, 2, 0, 0, 32), (2, 1, 1, -1, 32)> {
    dt.sendrecv @w <from 1 to 2 at [0] size [8]> from_relay
  }
}

// -----

// A message of which a part stays.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [2, 1] {
  dt.place @w shards rank 0 at [0] size [8], rank 1 at [4] size [4]
}
dt.transition @t from @src to @dst
    cluster <1 per node, intra 200.0, inter 25.0, latency 10.0, relays>
    memory <staging 1024, rollback> {
  dt.wave 0 slots <5 columns, (0, 1, 0, 0, 48), (1, 0, 1, 0, 48)> {
    // expected-error@+1 {{relays a part of the message 0 -> 1 of wave 0, expected all or none}}
    dt.sendrecv @w <from 0 to 1 at [0] size [8]> to_relay
    // expected-note@+1 {{another part is here}}
    dt.sendrecv @w <from 0 to 1 at [4] size [4]>
  }
  dt.wave 1 slots <5 columns, (1, 2, 0, 0, 32), (2, 1, 1, -1, 32)> {
    dt.sendrecv @w <from 1 to 2 at [0] size [8]> from_relay
  }
}

// -----

// What is delivered twice, once over a relay.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [2, 1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @dst
    cluster <1 per node, intra 200.0, inter 25.0, latency 10.0, relays>
    memory <staging 1024, rollback> {
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, 0, 32)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]> to_relay
  }
  dt.wave 1 slots <5 columns, (1, 2, 0, 0, 32), (2, 1, 1, -1, 32)> {
    // expected-note@+1 {{the first time is here}}
    dt.sendrecv @w <from 1 to 2 at [0] size [8]> from_relay
  }
  dt.wave 2 slots <5 columns, (0, 2, 0, -1, 16), (2, 0, 1, -1, 16)> {
    // expected-error@+1 {{delivers @w[4:8) to device 2 a second time}}
    dt.sendrecv @w <from 0 to 2 at [4] size [4]>
  }
}

// -----

// A cluster without relays.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [2, 1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @dst
    memory <staging 1024, rollback> {
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, 0, 32)> {
    // expected-error@+1 {{is relayed, which the cluster does not allow}}
    dt.sendrecv @w <from 0 to 1 at [0] size [8]> to_relay
  }
}

// -----

// Flat memory.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [2, 1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @dst
    cluster <1 per node, intra 200.0, inter 25.0, latency 10.0, relays>
    memory <staging 1024, flat> {
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, 0, 32)> {
    // expected-error@+1 {{is relayed, expected memory of mode rollback}}
    dt.sendrecv @w <from 0 to 1 at [0] size [8]> to_relay
  }
}

// -----

// To a relay and on at once.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [2, 1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @dst
    cluster <1 per node, intra 200.0, inter 25.0, latency 10.0, relays>
    memory <staging 1024, rollback> {
  dt.wave 0 {
    // expected-error@+1 {{goes to a relay and on from one, expected either}}
    dt.sendrecv @w <from 0 to 1 at [0] size [8]> to_relay from_relay
  }
}
