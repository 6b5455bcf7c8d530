// Right schedules pass.
// RUN: dt-opt %s --dt-verify-transport -split-input-file | FileCheck %s

// Wave numbers may skip; source storage goes when its last reader is done.
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
  dt.wave 0 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, -1, 32)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
  dt.release @w <on 0 at [0] size [8]>
  dt.wave 4 slots <5 columns, (1, 2, 0, -1, 32), (2, 1, 1, -1, 32)> {
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

// A device sends on its NIC and on its island port in one wave, and receives.
dt.space @model {
  dt.param @w [12] of <param = f32>
}
dt.layout @src of @model world 2 {
  dt.place @w shards rank 0 at [0] size [8], rank 1 at [8] size [4]
}
dt.layout @dst of @model world 3 {
  dt.place @w shards rank 0 at [8] size [4], rank 1 at [0] size [4], rank 2 at [4] size [4]
}
// CHECK-LABEL: dt.transition @both_ports
dt.transition @both_ports from @src to @dst cluster <2 per node, intra 200.0, inter 25.0, latency 10.0> {
  dt.wave 0 slots <5 columns, [i: 2] (0, i + 1, 0, -1, 16), [i: 2] (i + 1, 0, 1, -1, 16), (1, 0, 0, -1, 16), (0, 1, 1, -1, 16)> {
    dt.sendrecv @w <[i: 2] from 0 to i + 1 at [i * 4] size [4], from 1 to 0 at [8] size [4]>
  }
}

// -----

// In flat mode device 0 has room for one page more: a page goes before the next
// one comes.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
// CHECK-LABEL: dt.transition @page_by_page
dt.transition @page_by_page from @src to @src memory <staging 16, flat> {
  dt.create @w <on 0 at [0] size [4]>
  dt.copy @w <on 0 at [0] size [4]>
  dt.release @w <on 0 at [0] size [4]>
  dt.create @w <on 0 at [4] size [4]>
  dt.copy @w <on 0 at [4] size [4]>
  dt.release @w <on 0 at [4] size [4]>
}
