// A message over a third device, from waves to bytes: slots, proof, programs,
// file. Device 1 neither holds nor wants @w.
// RUN: split-file %s %t
// RUN: dt-opt %t/waves.mlir --dt-allocate-staging | FileCheck %t/waves.mlir
// RUN: dt-opt %t/waves.mlir --dt-allocate-staging --dt-prove=emit-smtlib=%t/p.smt2 --dt-specialize=device=1 | FileCheck %s --check-prefix=PROGRAM
// RUN: dt-opt %t/waves.mlir --dt-allocate-staging --dt-prove --dt-specialize | dt-opt --dt-verify-program -o /dev/null
// RUN: FileCheck %s --check-prefix=SMT --input-file=%t/p.smt2
// RUN: dt-opt %t/waves.mlir --dt-allocate-staging --dt-prove --dt-emit=output=%t/p.dtplan -o /dev/null
// RUN: dt-plan verify %t/p.dtplan
// RUN: dt-run %t/p.dtplan --check
// RUN: dt-plan inspect %t/p.dtplan | FileCheck %s --check-prefix=INSPECT
// RUN: dt-plan dump --deliveries %t/p.dtplan | FileCheck %s --check-prefix=DELIVERIES
// RUN: dt-plan dump --rank 1 %t/p.dtplan | FileCheck %s --check-prefix=DUMP
// RUN: dt-plan draw %t/p.dtplan -o %t/p.html
// RUN: dt-plan simulate %t/p.dtplan
// RUN: dt-plan diff %t/p.dtplan %t/p.dtplan
// RUN: dt-opt %t/waves.mlir --dt-allocate-staging --dt-explain -o /dev/null 2>&1 | FileCheck %s --check-prefix=EXPLAIN

// The first part waits in its slot while two groups run.
// SMT: the 2 slots of a device, which keep to no areas, never share a byte while in use

// PROGRAM: dt.program @t device 1
// PROGRAM: dt.group wave 0 {
// PROGRAM-NEXT: dt.recv [[A:%.*]] from 0 : !dt.buffer<16>
// PROGRAM: dt.group wave 1 {
// PROGRAM-NEXT: dt.recv [[B:%.*]] from 0 : !dt.buffer<16>
// PROGRAM: dt.relay [[A]] of [@w] at [#dt.view<[0] size [4]>] wave 2 : !dt.buffer<16>
// PROGRAM: dt.group wave 2 {
// PROGRAM: dt.send [[A]] to 2 : !dt.buffer<16>
// PROGRAM: dt.relay [[B]] of [@w] at [#dt.view<[4] size [4]>] wave 3 : !dt.buffer<16>

// INSPECT: wire bytes            68 B (1.89 x lower bound)
// INSPECT: relayed bytes         32 B, on the wire a second time; without relays 7 ms
// INSPECT: features              direct-messages, relays

// DELIVERIES-DAG: {"tensor": "w", "state": "param", "src": 0, "dst": 1, "offset": [0], "size": [4], "wave": 0, "relayed": true}
// DELIVERIES-DAG: {"tensor": "w", "state": "param", "src": 1, "dst": 2, "offset": [0], "size": [4], "wave": 2}

// DUMP: receive from 0: 16 bytes, staging [0:16)
// DUMP: relay wave 2 staging [0:16)
// DUMP-NEXT: of no shard w {param} [0:4)

// EXPLAIN: relays: 2 messages, 0.000 GB over third devices, so much more is sent; predicted 0.0{{[0-9]+}} ms, without relays 7.000 ms

//--- waves.mlir
dt.space @model {
  dt.param @w [8] of <param = f32>
  dt.param @v [1] of <param = f32>
}
dt.layout @src of @model world 2 {
  dt.place @w shards rank 0 at [0] size [8]
  dt.place @v shards rank 0 at [0] size [1]
}
dt.layout @dst of @model world 2 devices [2, 1] {
  dt.place @w shards rank 0 at [0] size [8]
  dt.place @v shards rank 1 at [0] size [1]
}
dt.transition @t from @src to @dst
    cluster <1 per node, intra 200.0, inter 25.0, latency 10.0, relays>
    memory <staging 1024, rollback>
    attributes {seconds_without_relays = 7.0e-3 : f64} {
  // A slot of its own, behind those that are unpacked: there is none of these.
  // CHECK: dt.wave 0 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, 0, 16)>
  dt.wave 0 {
    // CHECK-NEXT: dt.sendrecv @w <from 0 to 1 at [0] size [4]> to_relay
    dt.sendrecv @w <from 0 to 1 at [0] size [4]> to_relay
  }
  // CHECK: dt.wave 1 slots <5 columns, (0, 1, 0, -1, 16), (1, 0, 1, 128, 16)>
  dt.wave 1 {
    dt.sendrecv @w <from 0 to 1 at [4] size [4]> to_relay
  }
  // CHECK: dt.wave 2 slots <5 columns, (0, 1, 0, -1, 4), (1, 2, 0, 0, 16), (1, 0, 1, -1, 4), (2, 1, 1, -1, 16)>
  dt.wave 2 {
    dt.sendrecv @v <from 0 to 1 at [0] size [1]>
    // CHECK: dt.sendrecv @w <from 1 to 2 at [0] size [4]> from_relay
    dt.sendrecv @w <from 1 to 2 at [0] size [4]> from_relay
  }
  // CHECK: dt.wave 3 slots <5 columns, (1, 2, 0, 128, 16), (2, 1, 1, -1, 16)>
  dt.wave 3 {
    dt.sendrecv @w <from 1 to 2 at [4] size [4]> from_relay
  }
}
