// Pieces of a message by what divides their bytes, so that one of odd size
// narrows the copies of no other one; pieces that are alike stay in op order.
// RUN: dt-opt %s --dt-allocate-staging --dt-emit=output=%t.dtplan | dt-opt --dt-specialize=device=0 | FileCheck %s
// RUN: dt-plan verify %t.dtplan
// RUN: dt-run %t.dtplan --check

dt.space @model {
  dt.param @a [3] of <param = bf16>
  dt.param @b [4] of <param = bf16>
  dt.param @c [5] of <param = bf16>
  dt.param @d [16] of <param = bf16>
  dt.param @e [8] of <param = bf16>
}
dt.layout @src of @model world 1 devices [0] {
  dt.place @a shards rank 0 at [0] size [3]
  dt.place @b shards rank 0 at [0] size [4]
  dt.place @c shards rank 0 at [0] size [5]
  dt.place @d shards rank 0 at [0] size [16]
  dt.place @e shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @a shards rank 0 at [0] size [3]
  dt.place @b shards rank 0 at [0] size [4]
  dt.place @c shards rank 0 at [0] size [5]
  dt.place @d shards rank 0 at [0] size [16]
  dt.place @e shards rank 0 at [0] size [8]
}
// CHECK: dt.slot at 0 : !dt.buffer<72>
// CHECK-NEXT: dt.pack
// CHECK-SAME: at [#dt.view<[0] size [16]>, #dt.view<[0] size [8]>, #dt.view<[0] size [4]>, #dt.view<[0] size [3]>, #dt.view<[0] size [5]>]
dt.transition @t from @src to @dst memory <staging 4096, rollback> {
  dt.wave 0 {
    dt.sendrecv @a <from 0 to 1 at [0] size [3]>
    dt.sendrecv @b <from 0 to 1 at [0] size [4]>
    dt.sendrecv @c <from 0 to 1 at [0] size [5]>
    dt.sendrecv @d <from 0 to 1 at [0] size [16]>
    dt.sendrecv @e <from 0 to 1 at [0] size [8]>
  }
}
