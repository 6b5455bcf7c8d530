// Staging: messages that do not lie in one run of a shard get slots.
// RUN: dt-opt %s --dt-allocate-staging --dt-verify-transport -split-input-file | FileCheck %s

// Rows are whole on both sides: sent and received in place, offset -1.
dt.space @model {
  dt.param @w [8, 16] of <param = f32> partial
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0, 0] size [8, 16]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [2, 0] size [4, 16]
}
// CHECK-LABEL: dt.transition @in_place
// CHECK-NEXT: dt.wave 0 slots <5 columns, (0, 1, 0, -1, 256), (1, 0, 1, -1, 256)>
dt.transition @in_place from @src to @dst {
  dt.wave 0 {
    dt.sendrecv @w <from 0 to 1 at [2, 0] size [4, 16]>
  }
}

// -----

// Columns are gathered at the source, and lie in one run at the destination.
dt.space @model {
  dt.param @w [8, 16] of <param = f32> partial
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0, 0] size [8, 16]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0, 4] size [8, 4]
}
// CHECK-LABEL: dt.transition @packed_at_the_source
// CHECK-NEXT: dt.wave 0 slots <5 columns, (0, 1, 0, 0, 128), (1, 0, 1, -1, 128)>
dt.transition @packed_at_the_source from @src to @dst {
  dt.wave 0 {
    dt.sendrecv @w <from 0 to 1 at [0, 4] size [8, 4]>
  }
}

// -----

// States are buffers of their own: a message of two is packed at both ends.
dt.space @model {
  dt.param @w [64] of <exp_avg = f32, exp_avg_sq = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [64]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [64]
}
// CHECK-LABEL: dt.transition @two_states
// CHECK-NEXT: dt.wave 0 slots <5 columns, (0, 1, 0, 0, 512), (1, 0, 1, 0, 512)>
dt.transition @two_states from @src to @dst {
  dt.wave 0 {
    dt.sendrecv @w <from 0 to 1 at [0] size [64]>
  }
}

// -----

// Slots of waves that follow each other lie apart, since wave 1 is packed while
// wave 0 runs; those of wave 2 may take the place of wave 0's.
dt.space @model {
  dt.param @w [4, 12] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0, 0] size [4, 12]
}
dt.layout @dst of @model world 3 devices [1, 2, 3] {
  dt.place @w shards [i: 3] rank i at [0, i * 4] size [4, 4]
}
// CHECK-LABEL: dt.transition @even_and_odd_waves
// CHECK-NEXT: dt.wave 0 slots <5 columns, (0, 1, 0, [[EVEN:0]], 64), (1, 0, 1, -1, 64)>
// CHECK: dt.wave 1 slots <5 columns, (0, 2, 0, 128, 64), (2, 0, 1, -1, 64)>
// CHECK: dt.wave 2 slots <5 columns, (0, 3, 0, [[EVEN]], 64), (3, 0, 1, -1, 64)>
dt.transition @even_and_odd_waves from @src to @dst {
  dt.wave 0 {
    dt.sendrecv @w <from 0 to 1 at [0, 0] size [4, 4]>
  }
  dt.wave 1 {
    dt.sendrecv @w <from 0 to 2 at [0, 4] size [4, 4]>
  }
  dt.wave 2 {
    dt.sendrecv @w <from 0 to 3 at [0, 8] size [4, 4]>
  }
}
