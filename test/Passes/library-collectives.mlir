// From layouts to collectives, to a library's calls and to messages, to bytes:
// one transition per kind.
// RUN: split-file %s %t

// RUN: dt-opt %t/broadcast.mlir --dt-route --dt-fuse-collectives | FileCheck %s --check-prefix=BROADCAST
// RUN: dt-opt %t/broadcast.mlir --dt-route --dt-fuse-collectives --dt-lower-collectives --dt-verify-routing | FileCheck %s --check-prefix=BROADCAST-LOWERED
// RUN: dt-opt %t/broadcast.mlir --dt-route --dt-fuse-collectives --dt-lower-collectives --dt-schedule --dt-allocate-staging --dt-verify-transport | FileCheck %s --check-prefix=BROADCAST-WAVES
// RUN: dt-opt %t/all_gather.mlir --dt-route --dt-fuse-collectives | FileCheck %s --check-prefix=GATHER
// RUN: dt-opt %t/all_gather.mlir --dt-route --dt-fuse-collectives --dt-lower-collectives --dt-verify-routing | FileCheck %s --check-prefix=GATHER-LOWERED
// RUN: dt-opt %t/all_gather.mlir --dt-route --dt-fuse-collectives --dt-lower-collectives --dt-schedule --dt-allocate-staging --dt-verify-transport | FileCheck %s --check-prefix=GATHER-WAVES
// RUN: dt-opt %t/all_to_all.mlir --dt-route --dt-fuse-collectives | FileCheck %s --check-prefix=TURN
// RUN: dt-opt %t/all_to_all.mlir --dt-route --dt-fuse-collectives --dt-lower-collectives --dt-verify-routing | FileCheck %s --check-prefix=TURN-LOWERED
// RUN: dt-opt %t/all_to_all.mlir --dt-route --dt-fuse-collectives --dt-lower-collectives --dt-schedule --dt-allocate-staging --dt-verify-transport | FileCheck %s --check-prefix=TURN-WAVES
// RUN: dt-opt %t/uneven.mlir --dt-route --dt-fuse-collectives --dt-lower-collectives | FileCheck %s --check-prefix=UNEVEN

// As messages: nothing of a library is left.
// RUN: sed 's/collectives library/collectives messages/' %t/broadcast.mlir > %t/broadcast-messages.mlir
// RUN: dt-opt %t/broadcast-messages.mlir --dt-route --dt-fuse-collectives --dt-lower-collectives --dt-schedule | FileCheck %s --check-prefix=MESSAGES
// RUN: sed 's/collectives library/collectives messages/' %t/all_gather.mlir > %t/all_gather-messages.mlir
// RUN: dt-opt %t/all_gather-messages.mlir --dt-route --dt-fuse-collectives --dt-lower-collectives --dt-schedule | FileCheck %s --check-prefix=MESSAGES
// RUN: sed 's/collectives library/collectives messages/' %t/all_to_all.mlir > %t/all_to_all-messages.mlir
// RUN: dt-opt %t/all_to_all-messages.mlir --dt-route --dt-fuse-collectives --dt-lower-collectives --dt-schedule | FileCheck %s --check-prefix=MESSAGES
// RUN: sed 's/collectives library/collectives messages/' %t/uneven.mlir > %t/uneven-messages.mlir
// RUN: dt-opt %t/uneven-messages.mlir --dt-route --dt-fuse-collectives --dt-lower-collectives --dt-schedule | FileCheck %s --check-prefix=MESSAGES
// MESSAGES: dt.wave 0
// MESSAGES-NOT: collective {{(broadcast|all)}}

// Both are proved, verified, and bring every byte.
// RUN: dt-opt %t/broadcast.mlir -o %t/broadcast.dtplan
// RUN: dt-plan verify %t/broadcast.dtplan
// RUN: dt-run %t/broadcast.dtplan --check
// RUN: dt-opt %t/broadcast-messages.mlir -o %t/broadcast-messages.dtplan
// RUN: dt-plan verify %t/broadcast-messages.dtplan
// RUN: dt-run %t/broadcast-messages.dtplan --check
// RUN: dt-opt %t/all_gather.mlir -o %t/all_gather.dtplan
// RUN: dt-plan verify %t/all_gather.dtplan
// RUN: dt-run %t/all_gather.dtplan --check
// RUN: dt-opt %t/all_gather-messages.mlir -o %t/all_gather-messages.dtplan
// RUN: dt-plan verify %t/all_gather-messages.dtplan
// RUN: dt-run %t/all_gather-messages.dtplan --check
// RUN: dt-opt %t/all_to_all.mlir -o %t/all_to_all.dtplan
// RUN: dt-plan verify %t/all_to_all.dtplan
// RUN: dt-run %t/all_to_all.dtplan --check
// RUN: dt-opt %t/all_to_all-messages.mlir -o %t/all_to_all-messages.dtplan
// RUN: dt-plan verify %t/all_to_all-messages.dtplan
// RUN: dt-run %t/all_to_all-messages.dtplan --check
// RUN: dt-opt %t/uneven.mlir -o %t/uneven.dtplan
// RUN: dt-plan verify %t/uneven.dtplan
// RUN: dt-run %t/uneven.dtplan --check
// RUN: dt-opt %t/uneven-messages.mlir -o %t/uneven-messages.dtplan
// RUN: dt-plan verify %t/uneven-messages.dtplan
// RUN: dt-run %t/uneven-messages.dtplan --check
// RUN: dt-plan inspect %t/broadcast.dtplan | FileCheck %s --check-prefix=INSPECT
// RUN: dt-plan inspect --json %t/broadcast.dtplan | FileCheck %s --check-prefix=JSON
// RUN: dt-plan dump --rank 1 %t/broadcast.dtplan | FileCheck %s --check-prefix=DUMP
// RUN: dt-plan dump --deliveries %t/broadcast.dtplan | FileCheck %s --check-prefix=DELIVERIES
// RUN: dt-plan draw %t/broadcast.dtplan | FileCheck %s --check-prefix=DRAW
// RUN: dt-plan simulate %t/all_gather.dtplan
// RUN: not dt-plan diff %t/broadcast.dtplan %t/broadcast-messages.dtplan | FileCheck %s --check-prefix=DIFF
// RUN: dt-opt %t/broadcast.mlir --dt-route --dt-fuse-collectives --dt-explain -o /dev/null 2>&1 | FileCheck %s --check-prefix=EXPLAIN
// RUN: dt-opt %t/broadcast-messages.mlir --dt-route --dt-fuse-collectives --dt-explain -o /dev/null 2>&1 | FileCheck %s --check-prefix=EXPLAIN-MESSAGES
// RUN: dt-opt %t/all_gather.mlir --dt-lower --dt-explain -o /dev/null 2>&1 | FileCheck %s --check-prefix=EXPLAIN-WAVES
// RUN: dt-opt %t/broadcast.mlir --dt-lower --dt-specialize --dt-verify-program --dt-prove | FileCheck %s --check-prefix=BROADCAST-PROGRAM
// RUN: dt-opt %t/all_gather.mlir --dt-lower --dt-specialize --dt-verify-program --dt-prove | FileCheck %s --check-prefix=GATHER-PROGRAM
// RUN: dt-opt %t/all_to_all.mlir --dt-lower --dt-specialize --dt-verify-program --dt-prove | FileCheck %s --check-prefix=TURN-PROGRAM

// What is said of both ways is what plans say of each.
// RUN: dt-opt %t/broadcast.mlir --dt-route --dt-fuse-collectives --dt-explain -o /dev/null 2>%t/broadcast.txt
// RUN: dt-plan inspect --json %t/broadcast.dtplan > %t/broadcast.json
// RUN: dt-plan inspect --json %t/broadcast-messages.dtplan > %t/broadcast-messages.json
// RUN: %python %S/Inputs/explained_seconds.py %t/broadcast.txt %t/broadcast.json %t/broadcast-messages.json
// RUN: dt-opt %t/all_gather.mlir --dt-route --dt-fuse-collectives --dt-explain -o /dev/null 2>%t/all_gather.txt
// RUN: dt-plan inspect --json %t/all_gather.dtplan > %t/all_gather.json
// RUN: dt-plan inspect --json %t/all_gather-messages.dtplan > %t/all_gather-messages.json
// RUN: %python %S/Inputs/explained_seconds.py %t/all_gather.txt %t/all_gather.json %t/all_gather-messages.json
// RUN: dt-opt %t/all_to_all.mlir --dt-route --dt-fuse-collectives --dt-explain -o /dev/null 2>%t/all_to_all.txt
// RUN: dt-plan inspect --json %t/all_to_all.dtplan > %t/all_to_all.json
// RUN: dt-plan inspect --json %t/all_to_all-messages.dtplan > %t/all_to_all-messages.json
// RUN: %python %S/Inputs/explained_seconds.py %t/all_to_all.txt %t/all_to_all.json %t/all_to_all-messages.json

// Where the cluster leaves the choice, launches make it.
// RUN: sed 's/, collectives library/, launch 5.0/' %t/broadcast.mlir > %t/few-launches.mlir
// RUN: dt-opt %t/few-launches.mlir --dt-route --dt-fuse-collectives --dt-explain -o /dev/null 2>&1 | FileCheck %s --check-prefix=FEW-LAUNCHES
// RUN: sed 's/, collectives library//' %t/all_gather.mlir > %t/auto.mlir
// RUN: dt-opt %t/auto.mlir --dt-route --dt-fuse-collectives --dt-explain -o /dev/null 2>&1 | FileCheck %s --check-prefix=AUTO
// RUN: sed 's/, collectives library/, launch 50.0/' %t/all_gather.mlir > %t/launch.mlir
// RUN: dt-opt %t/launch.mlir --dt-route --dt-fuse-collectives --dt-explain -o /dev/null 2>&1 | FileCheck %s --check-prefix=LAUNCH
// RUN: dt-opt %t/launch.mlir -o %t/launch.dtplan
// RUN: dt-run %t/launch.dtplan --check

// BROADCAST: dt.collective broadcast of @w among
// BROADCAST-LOWERED: dt.collective broadcast library of @w among {{.*}} from <2 columns, (0, 0)> {
// BROADCAST-LOWERED-NEXT: dt.transfer @w <from 0 to 1 at [0] size [64], from 0 to 2 at [0] size [64], from 0 to 3 at [0] size [64]>
// BROADCAST-WAVES: dt.wave 0 slots
// BROADCAST-WAVES-NEXT: dt.library_collective broadcast among [0, 1, 2, 3] from 0 {
// BROADCAST-WAVES-NEXT: dt.sendrecv @w <from 0 to 1 at [0] size [64], from 0 to 2 at [0] size [64], from 0 to 3 at [0] size [64]>

// GATHER: dt.collective all_gather of @w
// GATHER-LOWERED: dt.collective all_gather library of @w
// GATHER-WAVES: dt.library_collective all_gather among [0, 1, 2, 3] {

// TURN: dt.collective all_to_all of @w
// TURN-LOWERED: dt.collective all_to_all library of @w
// TURN-WAVES: dt.library_collective all_to_all among [0, 1, 2, 3] {

// Parts of much different size: a broadcast of each.
// UNEVEN-COUNT-4: dt.collective broadcast library of @w
// UNEVEN-NOT: all_gather

// INSPECT: wire bytes            384 B (1.00 x lower bound)
// INSPECT: schedule              1 waves, 0 messages, 0 multicasts, 1 library collectives
// INSPECT: features              collectives
// JSON: "collectives": 1,
// JSON: "library_collectives": 1
// DRAW: "calls":{{\[\[}}0,"broadcast of devices 0-3 from 0",{{[0-9]+}},{{[0-9.e-]+\]\]}}
// DUMP: group wave 0 as a library's broadcast of devices 0-3 from 0, blocks of 128 bytes
// DUMP-NEXT: receive from 0: 128 bytes
// DELIVERIES-DAG: "src": 0, "dst": 1, "offset": [0], "size": [64], "wave": 0
// DIFF: library collectives
// EXPLAIN: broadcast of @w: a library's call, the cluster asks for a library (call {{.*}} ms, messages {{.*}} ms)
// EXPLAIN-MESSAGES: broadcast of @w: messages, the cluster asks for messages
// EXPLAIN-WAVES: library: 1 all_gather among 4 devices, 0.000 GB arrive

// The root packs once and gives to all; the others get its block.
// BROADCAST-PROGRAM-LABEL: dt.program @t device 0
// BROADCAST-PROGRAM: [[BLOCK:%[0-9]+]] = dt.slot at [[#]] : !dt.buffer<128>
// BROADCAST-PROGRAM: dt.pack {{.*}} into [[BLOCK]] wave 0
// BROADCAST-PROGRAM-NEXT: dt.group wave 0 call <broadcast among [0, 1, 2, 3] from 0 blocks 128> gives [[BLOCK]] : !dt.buffer<128> {
// BROADCAST-PROGRAM-NEXT: dt.send [[BLOCK]] to 1
// BROADCAST-PROGRAM-NEXT: dt.send [[BLOCK]] to 2
// BROADCAST-PROGRAM-NEXT: dt.send [[BLOCK]] to 3
// BROADCAST-PROGRAM-LABEL: dt.program @t device 1
// BROADCAST-PROGRAM: dt.group wave 0 call <broadcast among [0, 1, 2, 3] from 0 blocks 128> gets [[BLOCK:%[0-9]+]] : !dt.buffer<128> {
// BROADCAST-PROGRAM-NEXT: dt.recv [[BLOCK]] from 0
// BROADCAST-PROGRAM-NEXT: }
// BROADCAST-PROGRAM-NEXT: dt.unpack [[BLOCK]]

// GATHER-PROGRAM-LABEL: dt.program @t device 2
// GATHER-PROGRAM: dt.group wave 0 call <all_gather among [0, 1, 2, 3] blocks 1024> gives {{%[0-9]+}} : !dt.buffer<1024> gets {{%[0-9]+}} : !dt.buffer<4096> {
// TURN-PROGRAM-LABEL: dt.program @t device 2
// TURN-PROGRAM: dt.group wave 0 call <all_to_all among [0, 1, 2, 3] blocks 256> gives {{%[0-9]+}} : !dt.buffer<1024> gets {{%[0-9]+}} : !dt.buffer<1024> {
// AUTO: all_gather of @w: messages, a library is not 2 % faster
// LAUNCH: all_gather of @w: a library's call, it is at least 2 % faster (call 0.090 ms, messages 0.240 ms)
// FEW-LAUNCHES: broadcast of @w: messages, a library is not 2 % faster (call 0.045 ms, messages 0.030 ms)

//--- broadcast.mlir
dt.space @model {
  dt.param @w [64] of <param = bf16>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [64]
}
dt.layout @dst of @model world 4 {
  dt.place @w shards [i: 4] rank i at [0] size [64]
}
dt.transition @t from @src to @dst
    cluster <8 per node, intra 200.0, inter 25.0, latency 10.0, collectives library>
    memory <staging 65536, rollback>

//--- all_gather.mlir
dt.space @model {
  dt.param @w [64, 32] of <param = bf16>
}
dt.mesh @m <["tp"=4]>
dt.layout @src of @model on [@m] world 4 {
  dt.place @w [{"tp"}, {}]
}
dt.layout @dst of @model on [@m] world 4 {
  dt.place @w [{}, {}]
}
dt.transition @t from @src to @dst
    cluster <8 per node, intra 200.0, inter 25.0, latency 10.0, collectives library>
    memory <staging 65536, rollback>

//--- all_to_all.mlir
dt.space @model {
  dt.param @w [64, 32] of <param = bf16>
}
dt.mesh @m <["tp"=4]>
dt.layout @src of @model on [@m] world 4 {
  dt.place @w [{"tp"}, {}]
}
dt.layout @dst of @model on [@m] world 4 {
  dt.place @w [{}, {"tp"}]
}
dt.transition @t from @src to @dst
    cluster <2 per node, intra 200.0, inter 25.0, latency 10.0, collectives library>
    memory <staging 65536, rollback>

//--- uneven.mlir
dt.space @model {
  dt.param @w [1000] of <param = bf16>
}
dt.mesh @m <["tp"=4]>
dt.layout @src of @model on [@m] world 4 {
  dt.place @w [{"tp" cuts [0, 1, 3, 10, 1000]}]
}
dt.layout @dst of @model on [@m] world 4 {
  dt.place @w [{}]
}
dt.transition @t from @src to @dst
    cluster <8 per node, intra 200.0, inter 25.0, latency 10.0, collectives library>
    memory <staging 4096, rollback>
