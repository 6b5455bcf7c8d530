// A right program passes: neighbouring waves use other slots.
// RUN: dt-opt %s --dt-verify-program | FileCheck %s

dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 2 {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
dt.transition @t from @src to @src
// CHECK-LABEL: dt.program @t device 0
// CHECK: dt.pack
// CHECK: dt.unpack
dt.program @t device 0 source rank 0 destination rank 0 staging 64 {
  %old = dt.shard source @w <[[0:8]]> : !dt.buffer<32>
  %new = dt.shard destination @w <[[0:8]]> : !dt.buffer<32>
  %out = dt.slot at 0 : !dt.buffer<16>
  %next = dt.slot at 16 : !dt.buffer<16>
  %in = dt.slot at 32 : !dt.buffer<16>
  %last = dt.slot at 48 : !dt.buffer<16>
  dt.pack %old at [#dt.view<[0] size [4]>] into %out wave 0 : !dt.buffer<32> into !dt.buffer<16>
  dt.group wave 0 {
    dt.send %out to 1 : !dt.buffer<16>
    dt.recv %in from 1 : !dt.buffer<16>
  }
  dt.unpack %in into %new at [#dt.view<[0] size [4]>] wave 0 : !dt.buffer<16> into !dt.buffer<32>
  dt.pack %old at [#dt.view<[4] size [4]>] into %next wave 1 : !dt.buffer<32> into !dt.buffer<16>
  dt.group wave 1 {
    dt.send %next to 1 : !dt.buffer<16>
    dt.recv %last from 1 : !dt.buffer<16>
  }
  dt.unpack %last into %new at [#dt.view<[4] size [4]>] wave 1 : !dt.buffer<16> into !dt.buffer<32>
}
