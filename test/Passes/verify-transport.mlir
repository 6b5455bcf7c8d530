// Right schedules pass, with and without slots, releases and collectives.
// RUN: dt-opt %s --dt-verify-transport -split-input-file | FileCheck %s

// Wave numbers may skip; a release may stand anywhere after its wave.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [1, 2] {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
// CHECK-LABEL: dt.transition @forward_after_arrival
// CHECK: dt.release @w
dt.transition @forward_after_arrival from @src to @dst {
  dt.wave 0 {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
  dt.release @w <on 0 at [0] size [8]> after 0
  dt.wave 4 {
    dt.sendrecv @w <from 1 to 2 at [0] size [8]>
  }
}

// -----

// Slots two waves apart may share their bytes.
dt.space @model {
  dt.param @w [12] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [12]
}
dt.layout @dst of @model world 3 devices [1, 2, 3] {
  dt.place @w shards [i: 3] rank i at [i * 4] size [4]
}
// CHECK-LABEL: dt.transition @slot_reused_in_time
dt.transition @slot_reused_in_time from @src to @dst memory <staging 32, rollback> {
  dt.wave 0 slots <5 columns, (0, 1, 0, 0, 16), (1, 0, 1, -1, 16)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [4]>
  }
  dt.wave 1 slots <5 columns, (0, 2, 0, 16, 16), (2, 0, 1, -1, 16)> {
    dt.sendrecv @w <from 0 to 2 at [4] size [4]>
  }
  dt.wave 2 slots <5 columns, (0, 3, 0, 0, 16), (3, 0, 1, -1, 16)> {
    dt.sendrecv @w <from 0 to 3 at [8] size [4]>
  }
}

// -----

// A collective delivers as messages do.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [1, 2] {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
// CHECK-LABEL: dt.transition @broadcast
dt.transition @broadcast from @src to @dst {
  dt.wave 0 {
    dt.collective broadcast @w <[i: 2] from 0 to i + 1 at [0] size [8]> among [0, 1, 2] root 0
  }
}
