// Routing: where each destination byte comes from.
// RUN: dt-opt %s --dt-route -split-input-file | FileCheck %s

// What a device already holds does not move, whoever else holds it too.
dt.space @model {
  dt.param @w [8, 6] of <param = bf16>
}
dt.mesh @before <["dp"=2]>
dt.mesh @after <["tp"=2]>
dt.layout @src of @model on [@before] world 2 {
  dt.place @w [{}, {}]
}
dt.layout @dst of @model on [@after] world 2 {
  dt.place @w [{"tp"}, {}]
}
// CHECK-LABEL: dt.transition @local_first
// CHECK-NEXT: dt.copy @w <on 0 at [0, 0] size [4, 6], on 1 at [4, 0] size [4, 6]>
// CHECK-NEXT: }
dt.transition @local_first from @src to @dst

// -----

// Shards that stay as they are are kept, not copied.
dt.space @model {
  dt.param @w [8, 6] of <param = bf16>
}
dt.mesh @before <["tp"=2]>
dt.mesh @after <["dp"=2, "tp"=2]>
dt.layout @src of @model on [@before] world 2 {
  dt.place @w [{"tp"}, {}]
}
dt.layout @dst of @model on [@after] world 4 {
  dt.place @w [{"tp"}, {}]
}
// CHECK-LABEL: dt.transition @unchanged_shards
// CHECK-NEXT: dt.keep @w <on 0 at [0, 0] size [4, 6], on 1 at [4, 0] size [4, 6]>
// CHECK-NEXT: dt.transfer @w <from 0 to 2 at [0, 0] size [4, 6], from 1 to 3 at [4, 0] size [4, 6]>
// CHECK-NEXT: }
dt.transition @unchanged_shards from @src to @dst

// -----

// Devices 1 and 2 hold all; device 3 is in the node of 2 and reads there.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 devices [1, 2] {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
dt.layout @dst of @model world 1 devices [3] {
  dt.place @w shards rank 0 at [0] size [8]
}
// CHECK-LABEL: dt.transition @same_node
// CHECK-NEXT: dt.transfer @w <from 2 to 3 at [0] size [8]>
// CHECK-NEXT: }
dt.transition @same_node from @src to @dst
    cluster <2 per node, intra 200.0, inter 25.0, latency 10.0>

// -----

// Devices 2 and 3 of one node want the same: it crosses the network once, and
// hop 1 spreads it inside.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.mesh @before <["tp"=1]>
dt.mesh @after <["dp"=2], devices=[2, 3]>
dt.layout @src of @model on [@before] world 1 {
  dt.place @w [{}]
}
dt.layout @dst of @model on [@after] world 2 {
  dt.place @w [{}]
}
// CHECK-LABEL: dt.transition @once_across_then_fan_out
// CHECK-NEXT: dt.transfer @w <from 0 to [[FIRST:[23]]] at [0] size [8]>,{{$}}
// CHECK-NEXT: {{^ +}}<from [[FIRST]] to {{[23]}} at [0] size [8]> hop 1{{$}}
// CHECK-NEXT: }
dt.transition @once_across_then_fan_out from @src to @dst
    cluster <2 per node, intra 200.0, inter 25.0, latency 10.0>

// -----

// Four replicas, four readers of another node that want a fourth each.
dt.space @model {
  dt.param @w [4, 64, 1024] of <param = f32>
}
dt.mesh @before <["dp"=4]>
dt.mesh @after <["tp"=4], devices=[4, 5, 6, 7]>
dt.layout @src of @model on [@before] world 4 {
  dt.place @w [{}, {}, {}]
}
dt.layout @dst of @model on [@after] world 4 {
  dt.place @w [{"tp"}, {}, {}]
}
// CHECK-LABEL: dt.transition @balanced_over_replicas
// CHECK-NEXT: dt.transfer @w <[i: 4] from i to i + 4 at [i, 0, 0] size [1, 64, 1024]>
// CHECK-NEXT: }
dt.transition @balanced_over_replicas from @src to @dst
    cluster <4 per node, intra 200.0, inter 25.0, latency 10.0>

// -----

// Stages of 3 and 1 layers become stages of 2 and 2: layer 2 moves.
dt.space @model {
  dt.param @w [4, 6] of <param = bf16> named "layers.{}.w" [0]
}
dt.mesh @before <["pp"=2]>
dt.mesh @after <["pp"=2]>
dt.layout @src of @model on [@before] world 2 {
  dt.place @w [{"pp" cuts [0, 3, 4]}, {}]
}
dt.layout @dst of @model on [@after] world 2 {
  dt.place @w [{"pp"}, {}]
}
// CHECK-LABEL: dt.transition @uneven_cuts
// CHECK-NEXT: dt.copy @w <on 0 at [0, 0] size [2, 6], on 1 at [3, 0] size [1, 6]>
// CHECK-NEXT: dt.transfer @w <from 0 to 1 at [2, 0] size [1, 6]>
// CHECK-NEXT: }
dt.transition @uneven_cuts from @src to @dst

// -----

// Gate and up are packed in one tensor and cut one by one.
dt.space @model {
  dt.param @gate_up [16, 6] of <param = bf16>
}
dt.mesh @before <["tp"=1]>
dt.mesh @after <["tp"=2], devices=[1, 2]>
dt.layout @src of @model on [@before] world 1 {
  dt.place @gate_up [{}, {}]
}
dt.layout @dst of @model on [@after] world 2 {
  dt.place @gate_up [{"tp" blocks [8, 8]}, {}]
}
// CHECK-LABEL: dt.transition @blocks
// CHECK-NEXT: dt.transfer @gate_up
// CHECK-SAME: from 0 to 1 at [0, 0] size [4, 6]
// CHECK-SAME: from 0 to 1 at [8, 0] size [4, 6]
// CHECK-SAME: from 0 to 2 at [4, 0] size [4, 6]
// CHECK-SAME: from 0 to 2 at [12, 0] size [4, 6]>
// CHECK-NEXT: }
dt.transition @blocks from @src to @dst

// -----

// 10 rows are padded to 12 over three devices: real rows move, the padding is
// written as zeros, and none of it is read.
dt.space @model {
  dt.param @embedding [10, 4] of <param = bf16>
}
dt.mesh @before <["tp"=2]>
dt.mesh @after <["tp"=3]>
dt.layout @src of @model on [@before] world 2 {
  dt.place @embedding [{"tp"} extent 16, {}]
}
dt.layout @dst of @model on [@after] world 3 {
  dt.place @embedding [{"tp"} extent 12, {}]
}
// CHECK-LABEL: dt.transition @padded_vocabulary
// CHECK-NEXT: dt.copy @embedding <on 0 at [0, 0] size [4, 4]>
// CHECK-NEXT: dt.zero @embedding <on 2 at [10, 0] size [2, 4]>
// CHECK-NEXT: dt.transfer @embedding <from 0 to 1 at [4, 0] size [4, 4], from 1 to 2 at [8, 0] size [2, 4]>
// CHECK-NEXT: }
dt.transition @padded_vocabulary from @src to @dst

// -----

// Source shards may overlap: [4:6) lies on both devices, and moves once.
dt.space @model {
  dt.param @w [10] of <param = f32>
}
dt.layout @src of @model world 2 {
  dt.place @w shards rank 0 at [0] size [6], rank 1 at [4] size [6]
}
dt.layout @dst of @model world 1 devices [2] {
  dt.place @w shards rank 0 at [0] size [10]
}
// CHECK-LABEL: dt.transition @overlapping_source
// CHECK-NEXT: dt.transfer @w <
// CHECK-SAME: from {{[01]}} to 2 at [4] size [2]
// CHECK-SAME: from 0 to 2 at [0] size [4]
// CHECK-SAME: from 1 to 2 at [6] size [4]>
// CHECK-NEXT: }
dt.transition @overlapping_source from @src to @dst

// -----

// Flat ranges of a sharded box: in one hop, cut where rows end.
dt.space @model {
  dt.param @w [4, 6] of <param = f32>
}
dt.layout @src of @model world 2 {
  dt.place @w shards rank 0 at [0, 0] size [4, 6] range [0, 10],
      rank 1 at [0, 0] size [4, 6] range [10, 24]
}
dt.layout @dst of @model world 1 devices [2] {
  dt.place @w shards rank 0 at [0, 0] size [4, 6]
}
// CHECK-LABEL: dt.transition @flat_ranges
// CHECK-NEXT: dt.transfer @w <
// CHECK-SAME: from 0 to 2 at [0, 0] size [1, 6]
// CHECK-SAME: from 0 to 2 at [1, 0] size [1, 4]
// CHECK-SAME: from 1 to 2 at [2, 0] size [2, 6]
// CHECK-SAME: from 1 to 2 at [1, 4] size [1, 2]>
// CHECK-NEXT: }
dt.transition @flat_ranges from @src to @dst

// -----

// States with one layout move as one; those that do not have ops of their own.
dt.space @model {
  dt.param @w [8] of <param = bf16, master = f32, exp_avg = f32>
}
dt.mesh @before <["dp"=2]>
dt.mesh @after <["dp"=1], devices=[2]>
dt.layout @src of @model on [@before] world 2 {
  dt.place @w for ["param"] [{}]
  dt.place @w for ["master", "exp_avg"] [{"dp"}]
}
dt.layout @dst of @model on [@after] world 1 {
  dt.place @w [{}]
}
// CHECK-LABEL: dt.transition @state_groups
// CHECK-NEXT: dt.transfer @w for ["param"] <from {{[01]}} to 2 at [0] size [8]>
// CHECK-NEXT: dt.transfer @w for ["master", "exp_avg"] <from 0 to 2 at [0] size [4], from 1 to 2 at [4] size [4]>
// CHECK-NEXT: }
dt.transition @state_groups from @src to @dst
