// Scheduling: transfers become waves in which no two messages share a port.
// RUN: dt-opt %s --dt-schedule -split-input-file | FileCheck %s
// RUN: dt-opt %s --dt-schedule --dt-allocate-staging --dt-verify-transport -split-input-file -o /dev/null

// Two senders into one device take turns; the copy stays where it is.
dt.space @model {
  dt.param @w [12] of <param = f32>
}
dt.layout @src of @model world 3 {
  dt.place @w shards [i: 3] rank i at [i * 4] size [4]
}
dt.layout @dst of @model world 1 {
  dt.place @w shards rank 0 at [0] size [12]
}
// CHECK-LABEL: dt.transition @one_receiver
// CHECK-NEXT: dt.copy @w <on 0 at [0] size [4]>
// CHECK-NEXT: dt.wave {{[0-9]+}} {
// CHECK-NEXT: dt.sendrecv @w <from {{[12]}} to 0 at [{{[48]}}] size [4]>
// CHECK-NEXT: }
// CHECK-NEXT: dt.wave {{[0-9]+}} {
// CHECK-NEXT: dt.sendrecv @w <from {{[12]}} to 0 at [{{[48]}}] size [4]>
// CHECK-NEXT: }
// CHECK-NEXT: }
dt.transition @one_receiver from @src to @dst {
  dt.copy @w <on 0 at [0] size [4]>
  dt.transfer @w <[i: 2] from i + 1 to 0 at [i * 4 + 4] size [4]>
}

// -----

// A ring: all send and receive at once, in one wave.
dt.space @model {
  dt.param @w [12] of <param = f32>
}
dt.layout @src of @model world 3 {
  dt.place @w shards [i: 3] rank i at [i * 4] size [4]
}
dt.layout @dst of @model world 3 {
  dt.place @w shards [i: 3] rank i at [i * -4 + 8] size [4]
}
// CHECK-LABEL: dt.transition @full_duplex
// CHECK-NEXT: dt.copy @w
// CHECK-NEXT: dt.wave 0 {
// CHECK-NEXT: dt.sendrecv @w <from 0 to 2 at [0] size [4], from 2 to 0 at [8] size [4]>
// CHECK-NEXT: }
// CHECK-NEXT: }
dt.transition @full_duplex from @src to @dst {
  dt.copy @w <on 1 at [4] size [4]>
  dt.transfer @w <from 0 to 2 at [0] size [4], from 2 to 0 at [8] size [4]>
}

// -----

// All that one device has for another goes in one message of one wave.
dt.space @model {
  dt.param @a [4] of <param = f32>
  dt.param @b [6] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @a shards rank 0 at [0] size [4]
  dt.place @b shards rank 0 at [0] size [6]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @a shards rank 0 at [0] size [4]
  dt.place @b shards rank 0 at [0] size [6]
}
// CHECK-LABEL: dt.transition @one_message_per_pair
// CHECK-NEXT: dt.wave 0 {
// CHECK-NEXT: dt.sendrecv @a <from 0 to 1 at [0] size [4]>
// CHECK-NEXT: dt.sendrecv @b <from 0 to 1 at [0] size [6]>
// CHECK-NEXT: }
// CHECK-NEXT: }
dt.transition @one_message_per_pair from @src to @dst {
  dt.transfer @a <from 0 to 1 at [0] size [4]>
  dt.transfer @b <from 0 to 1 at [0] size [6]>
}

// -----

// A forward goes in a later wave than what feeds it.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 2 devices [2, 3] {
  dt.place @w shards [i: 2] rank i at [0] size [8]
}
// CHECK-LABEL: dt.transition @forward_later
// CHECK-NEXT: dt.wave 0 {
// CHECK-NEXT: dt.sendrecv @w <from 0 to 2 at [0] size [8]>
// CHECK-NEXT: }
// CHECK-NEXT: dt.wave 1 {
// CHECK-NEXT: dt.sendrecv @w <from 2 to 3 at [0] size [8]>
// CHECK-NEXT: }
// CHECK-NEXT: }
dt.transition @forward_later from @src to @dst
    cluster <2 per node, intra 200.0, inter 25.0, latency 10.0> {
  dt.transfer @w <from 0 to 2 at [0] size [8]>
  dt.transfer @w <from 2 to 3 at [0] size [8]> hop 1
}

// -----

// What is larger than the staging limit, and packed since it has two states, is
// cut into messages of which four fit it.
dt.space @model {
  dt.param @w [5, 128] of <param = f32, master = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0, 0] size [5, 128]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0, 0] size [5, 128]
}
// CHECK-LABEL: dt.transition @cut_to_the_limit
// CHECK-NEXT: dt.wave 0 {
// CHECK-NEXT: dt.sendrecv @w <from 0 to 1 at [0, 0] size [1, 128]>
// CHECK-NEXT: }
// CHECK-NEXT: dt.wave 1 {
// CHECK-NEXT: dt.sendrecv @w <from 0 to 1 at [1, 0] size [1, 128]>
// CHECK-NEXT: }
// CHECK-NEXT: dt.wave 2 {
// CHECK-NEXT: dt.sendrecv @w <from 0 to 1 at [2, 0] size [1, 128]>
// CHECK-NEXT: }
// CHECK-NEXT: dt.wave 3 {
// CHECK-NEXT: dt.sendrecv @w <from 0 to 1 at [3, 0] size [1, 128]>
// CHECK-NEXT: }
// CHECK-NEXT: dt.wave 4 {
// CHECK-NEXT: dt.sendrecv @w <from 0 to 1 at [4, 0] size [1, 128]>
// CHECK-NEXT: }
// CHECK-NEXT: }
dt.transition @cut_to_the_limit from @src to @dst memory <staging 4096, rollback> {
  dt.transfer @w <from 0 to 1 at [0, 0] size [5, 128]>
}

// -----

// What is one run of bytes needs no staging.
dt.space @model {
  dt.param @w [5, 256] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0, 0] size [5, 256]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0, 0] size [5, 256]
}
// CHECK-LABEL: dt.transition @uncut
// CHECK-NEXT: dt.wave 0 {
// CHECK-NEXT: dt.sendrecv @w <from 0 to 1 at [0, 0] size [5, 256]>
// CHECK-NEXT: }
// CHECK-NEXT: }
dt.transition @uncut from @src to @dst memory <staging 4096, rollback> {
  dt.transfer @w <from 0 to 1 at [0, 0] size [5, 256]>
}

// -----

// Where it fits as a whole, and each device sends or receives only, it is one message.
dt.space @model {
  dt.param @w [4, 256] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0, 0] size [4, 256]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0, 0] size [4, 256]
}
// CHECK-LABEL: dt.transition @whole_within_the_limit
// CHECK-NEXT: dt.wave 0 {
// CHECK-NEXT: dt.sendrecv @w <from 0 to 1 at [0, 0] size [4, 256]>
// CHECK-NEXT: }
// CHECK-NEXT: }
dt.transition @whole_within_the_limit from @src to @dst memory <staging 4096, rollback> {
  dt.transfer @w <from 0 to 1 at [0, 0] size [4, 256]>
}

// -----

// Three devices gather what they hold around a ring: each edge has one piece
// ready, and a second one that waits for the edge before. None may wait for a
// full message.
dt.space @model {
  dt.param @w [72] of <param = f32>
}
dt.mesh @mesh <["x"=3]>
dt.layout @src of @model on [@mesh] world 3 {
  dt.place @w [{"x"}]
}
dt.layout @dst of @model on [@mesh] world 3 {
  dt.place @w [{}]
}
// CHECK-LABEL: dt.transition @ring_of_forwards
// CHECK-NEXT: dt.copy
// CHECK-NEXT: dt.wave 0 {
// CHECK-NEXT: dt.sendrecv @w <{{.*}}from 0 to 1 at [0] size [24]
// CHECK-NEXT: }
// CHECK-NEXT: dt.wave 1 {
// CHECK-NEXT: dt.sendrecv @w <from 0 to 1 at [48] size [24], from 1 to 2 at [0] size [24], from 2 to 0 at [24] size [24]>
// CHECK-NEXT: }
// CHECK-NEXT: }
dt.transition @ring_of_forwards from @src to @dst
    cluster <1 per node, intra 200.0, inter 25.0, latency 10.0>
    memory <staging 1048576, rollback> {
  dt.copy @w <[i: 3] on i at [i * 24] size [24]>
  dt.transfer @w <[i: 2] from i to i + 1 at [i * 24] size [24],
                  from 2 to 0 at [48] size [24]>
  dt.transfer @w <from 0 to 1 at [48] size [24], from 1 to 2 at [0] size [24],
                  from 2 to 0 at [24] size [24]> hop 1
}
