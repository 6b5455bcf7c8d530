// What the prover refuses of waves with a library's collectives: one case each.
// RUN: dt-opt %s --dt-prove -split-input-file -verify-diagnostics

// Device 2 is a member, and is given nothing.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
dt.transition @t from @src to @dst
    cluster <8 per node, intra 200.0, inter 25.0, latency 10.0>
    memory <staging 1024, rollback> {
  dt.copy @w <on 0 at [0] size [8]>
  dt.wave 0 slots <5 columns, (0, 0, 0, 0, 128), (1, 1, 1, 0, 128), (2, 2, 1, 0, 128)> {
    dt.library_collective broadcast among [0, 1, 2] from 0 {
      // expected-error@+1 {{gives to device 1 in a broadcast of wave 0 what it does not give to member 2}}
      dt.sendrecv @w <from 0 to 1 at [0] size [8]>
    }
  }
}

// -----

// Device 1 is in two collectives of a wave.
dt.space @model {
  dt.param @w [8] of <param = f32>
  dt.param @v [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
  dt.place @v shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 {
  dt.place @w shards [i: 2] rank i at [0] size [8]
  dt.place @v shards [i: 2] rank i at [0] size [8]
}
dt.transition @t from @src to @dst
    cluster <8 per node, intra 200.0, inter 25.0, latency 10.0>
    memory <staging 1024, rollback> {
  dt.copy @w <on 0 at [0] size [8]>
  dt.copy @v <on 0 at [0] size [8]>
  dt.wave 0 slots <5 columns, (0, 0, 0, 0, 128), (1, 1, 1, 0, 128)> {
    // expected-note@+1 {{the other one is here}}
    dt.library_collective broadcast among [0, 1] from 0 {
      dt.sendrecv @w <from 0 to 1 at [0] size [8]>
    }
    // expected-error@+1 {{has device 0 in a broadcast of wave 0, which is in another one there}}
    dt.library_collective broadcast among [0, 1] from 0 {
      dt.sendrecv @v <from 0 to 1 at [0] size [8]>
    }
  }
}

// -----

// Device 1 has a message beside its collective.
dt.space @model {
  dt.param @w [8] of <param = f32>
  dt.param @v [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
  dt.place @v shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 3 {
  dt.place @w shards [i: 2] rank i at [0] size [8]
  dt.place @v shards rank 2 at [0] size [8]
}
dt.transition @t from @src to @dst
    cluster <8 per node, intra 200.0, inter 25.0, latency 10.0>
    memory <staging 1024, rollback> {
  dt.copy @w <on 0 at [0] size [8]>
  dt.wave 0 slots <5 columns, (0, 0, 0, 0, 128), (1, 1, 1, 0, 128), (0, 2, 0, -1, 32), (2, 0, 1, -1, 32)> {
    // expected-note@+1 {{that one is here}}
    dt.library_collective broadcast among [0, 1] from 0 {
      dt.sendrecv @w <from 0 to 1 at [0] size [8]>
    }
    // expected-error@+1 {{is a message of device 0 beside a broadcast of wave 0 that it is a member of}}
    dt.sendrecv @v <from 0 to 2 at [0] size [8]>
  }
}

// -----

// The receiver has no blocks.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
dt.transition @t from @src to @dst
    cluster <8 per node, intra 200.0, inter 25.0, latency 10.0>
    memory <staging 1024, rollback> {
  dt.copy @w <on 0 at [0] size [8]>
  dt.wave 0 slots <5 columns, (0, 0, 0, 0, 128), (1, 1, 1, 0, 64)> {
    // expected-error@+1 {{has blocks of 64 bytes for what device 1 gets in a broadcast of wave 0, expected 128}}
    dt.library_collective broadcast among [0, 1] from 0 {
      dt.sendrecv @w <from 0 to 1 at [0] size [8]>
    }
  }
}

// -----

// Blocks without a collective.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
dt.transition @t from @src to @dst
    cluster <8 per node, intra 200.0, inter 25.0, latency 10.0>
    memory <staging 1024, rollback> {
  dt.copy @w <on 0 at [0] size [8]>
  // expected-error@+1 {{has a slot of device 1 for itself in wave 0, where it is in no collective}}
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, -1, 32), (1, 1, 1, 0, 128)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
}

// -----

// What device 1 gets in two waves that follow each other lies in the same bytes.
dt.space @model {
  dt.param @w [8] of <param = f32>
  dt.param @v [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
  dt.place @v shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 {
  dt.place @w shards [i: 2] rank i at [0] size [8]
  dt.place @v shards [i: 2] rank i at [0] size [8]
}
dt.transition @t from @src to @dst
    cluster <8 per node, intra 200.0, inter 25.0, latency 10.0>
    memory <staging 1024, rollback> {
  dt.copy @w <on 0 at [0] size [8]>
  dt.copy @v <on 0 at [0] size [8]>
  // expected-note@+1 {{they hold the message of wave 0}}
  dt.wave 0 slots <5 columns, (0, 0, 0, 0, 128), (1, 1, 1, 0, 128)> {
    dt.library_collective broadcast among [0, 1] from 0 {
      dt.sendrecv @w <from 0 to 1 at [0] size [8]>
    }
  }
  // expected-error@+1 {{reuses staging bytes 0 to 128 of device 1 while they are in flight}}
  dt.wave 1 slots <5 columns, (0, 0, 0, 128, 128), (1, 1, 1, 0, 128)> {
    dt.library_collective broadcast among [0, 1] from 0 {
      dt.sendrecv @v <from 0 to 1 at [0] size [8]>
    }
  }
}

// -----

// In flat memory there are none.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
dt.transition @t from @src to @dst
    cluster <8 per node, intra 200.0, inter 25.0, latency 10.0>
    memory <staging 1024, flat> {
  dt.keep @w <on 0 at [0] size [8]>
  dt.wave 0 slots <5 columns, (0, 0, 0, 0, 128), (1, 1, 1, 0, 128)> {
    // expected-error@+1 {{stands in flat memory, expected mode rollback}}
    dt.library_collective broadcast among [0, 1] from 0 {
      dt.sendrecv @w <from 0 to 1 at [0] size [8]>
    }
  }
}
