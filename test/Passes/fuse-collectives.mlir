// From layouts to collectives and back: one transition per kind.
// RUN: dt-opt %s -split-input-file --dt-route --dt-fuse-collectives --dt-verify-routing | FileCheck %s
// RUN: dt-opt %s -split-input-file --dt-route --dt-fuse-collectives | dt-opt -split-input-file | FileCheck %s
// RUN: dt-opt %s -split-input-file --dt-route --dt-fuse-collectives --emit-bytecode -o /dev/null
// RUN: dt-opt %s -split-input-file --dt-route --dt-fuse-collectives --dt-lower-collectives --dt-verify-routing | FileCheck %s --check-prefix=LOWERED
// RUN: dt-opt %s -split-input-file --dt-route --dt-fuse-collectives --dt-schedule --dt-allocate-staging --dt-prove -o /dev/null

// LOWERED-NOT: dt.collective

// Each node has all of it, and gathers by itself.
// CHECK-LABEL: dt.transition @all_gather
// CHECK-NOT: dt.transfer
// CHECK: dt.collective all_gather of @qkv over ["tp"] of @dense among <2 columns, {{.*}}> {
// CHECK-NEXT: dt.transfer @qkv
dt.space @model {
  dt.param @qkv [64, 32] of <param = bf16>
}
dt.mesh @dense <["dp"=2, "tp"=4], devices=[0, 1, 2, 3, 8, 9, 10, 11]>
dt.layout @src of @model on [@dense] world 8 {
  dt.place @qkv [{"tp"}, {}]
}
dt.layout @dst of @model on [@dense] world 8 {
  dt.place @qkv [{}, {}]
}
dt.transition @all_gather from @src to @dst

// -----

// CHECK-LABEL: dt.transition @uneven_all_gather
// CHECK: dt.collective all_gather uneven of @w over ["tp"] of @dense among
dt.space @model {
  dt.param @w [64] of <param = bf16>
}
dt.mesh @dense <["tp"=3]>
dt.layout @src of @model on [@dense] world 3 {
  dt.place @w [{"tp" cuts [0, 10, 30, 64]}]
}
dt.layout @dst of @model on [@dense] world 3 {
  dt.place @w [{}]
}
dt.transition @uneven_all_gather from @src to @dst

// -----

// One device's data for two nodes: it crosses to each once.
// CHECK-LABEL: dt.transition @broadcast
// CHECK: dt.collective broadcast two_level of @w among <2 columns, {{.*}}> from <2 columns, (0, 0)> {
// LOWERED-LABEL: dt.transition @broadcast
// LOWERED: dt.transfer @w {{.*}}
dt.space @model {
  dt.param @w [64] of <param = bf16>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [64]
}
dt.layout @dst of @model world 5 devices [0, 8, 9, 16, 17] {
  dt.place @w shards [i: 5] rank i at [0] size [64]
}
dt.transition @broadcast from @src to @dst

// -----

// CHECK-LABEL: dt.transition @scatter
// CHECK: dt.collective scatter of @w among <2 columns, {{.*}}> from <2 columns, (0, 0)> {
dt.space @model {
  dt.param @w [64] of <param = bf16>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [64]
}
dt.layout @dst of @model world 4 {
  dt.place @w shards [i: 4] rank i at [i * 16] size [16]
}
dt.transition @scatter from @src to @dst

// -----

// CHECK-LABEL: dt.transition @gather
// CHECK: dt.collective gather of @w among <2 columns, {{.*}}> from <2 columns, {{.*}}> {
dt.space @model {
  dt.param @w [64] of <param = bf16>
}
dt.layout @src of @model world 4 {
  dt.place @w shards [i: 4] rank i at [i * 16] size [16]
}
dt.layout @dst of @model world 1 {
  dt.place @w shards rank 0 at [0] size [64]
}
dt.transition @gather from @src to @dst

// -----

// Rows become columns.
// CHECK-LABEL: dt.transition @all_to_all
// CHECK: dt.collective all_to_all of @w over ["tp"] of @dense among <2 columns, {{.*}}> {
dt.space @model {
  dt.param @w [16, 16] of <param = bf16>
}
dt.mesh @dense <["tp"=4]>
dt.layout @src of @model on [@dense] world 4 {
  dt.place @w [{"tp"}, {}]
}
dt.layout @dst of @model on [@dense] world 4 {
  dt.place @w [{}, {"tp"}]
}
dt.transition @all_to_all from @src to @dst

// -----

// What is none stays: one device sends to one other.
// CHECK-LABEL: dt.transition @send
// CHECK-NOT: dt.collective
// CHECK: dt.transfer @w
dt.space @model {
  dt.param @w [64] of <param = bf16>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [64]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [64]
}
dt.transition @send from @src to @dst
