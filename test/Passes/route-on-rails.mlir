// Rails: several devices on each of several nodes want what one has.
// RUN: dt-opt %s --dt-route --dt-verify-routing -split-input-file | FileCheck %s
// RUN: dt-opt %s --dt-route --dt-schedule --dt-allocate-staging --dt-prove -split-input-file -o /dev/null

// Each NIC of the second node brings in a share. Device 1 gets its share, the
// first, from device 0 before that, and 2 and 3 exchange theirs.
dt.space @model {
  dt.param @w [16777216] of <param = bf16>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [16777216]
}
dt.layout @dst of @model world 4 {
  dt.place @w shards [i: 4] rank i at [0] size [16777216]
}
// CHECK-LABEL: dt.transition @two_nodes_of_two
// CHECK: dt.transfer @w <
// CHECK-SAME: from 0 to 3 at [838861] size [838861]
// CHECK-NEXT: {{^ +}}<from 1 to 2 at [0] size [838861]> hop 1,{{$}}
// CHECK-NEXT: {{^ +}}<
// CHECK-SAME: from 3 to 2 at [838861] size [838861]
// CHECK-SAME: from 2 to 3 at [0] size [838861]
// CHECK-SAME: hop 2
dt.transition @two_nodes_of_two from @src to @dst
    cluster <2 per node, intra 50.0, inter 25.0, latency 10.0>

// -----

// All four devices of a node send by their NICs, to a node of five and one of
// six: what is beyond four has no rail, and gets all from beside it.
dt.space @model {
  dt.param @w [16777216] of <param = bf16>
}
dt.layout @src of @model world 4 {
  dt.place @w shards [i: 4] rank i at [0] size [16777216]
}
dt.layout @dst of @model world 11 devices [8, 9, 10, 11, 12, 16, 17, 18, 19, 20, 21] {
  dt.place @w shards [i: 11] rank i at [0] size [16777216]
}
// CHECK-LABEL: dt.transition @uneven_nodes
// CHECK-NEXT: dt.transfer @w <[i: 2, j: 4] from j to i * 8 + j + 8 at
// CHECK-NEXT: {{^ +}}<[i: 4] from i + 8 to i + 16 at [i * 1864135]
// CHECK-SAME: hop
// CHECK: <[i: 4] from i + 16 to i + 17 at [i * 1864135] size [1864135]
dt.transition @uneven_nodes from @src to @dst
    cluster <8 per node, intra 200.0, inter 25.0, latency 10.0>
