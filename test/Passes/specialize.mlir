// Specialization: what one device does, as ops of the program level.
// RUN: dt-opt %s --dt-allocate-staging --dt-specialize=device=0 --dt-verify-program | FileCheck %s --check-prefix=SENDER
// RUN: dt-opt %s --dt-allocate-staging --dt-specialize=device=1 --dt-verify-program | FileCheck %s --check-prefix=IN-PLACE
// RUN: dt-opt %s --dt-allocate-staging --dt-specialize=device=2 --dt-verify-program | FileCheck %s --check-prefix=PADDED

// Columns [0:4) of @w stay on device 0, [4:8) go to device 1, the last two to
// device 2, whose shard is padded.
dt.space @model {
  dt.param @w [4, 10] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0, 0] size [4, 10]
}
dt.mesh @after <["tp"=3]>
dt.layout @dst of @model on [@after] world 3 {
  dt.place @w [{}, {"tp"} extent 12]
}
// SENDER-LABEL: dt.program @t device 0 source rank 0 destination rank 0 staging 160
// SENDER-DAG: [[OLD:%[0-9]+]] = dt.shard source @w <{{\[\[}}0:4], [0:10]]>
// SENDER-DAG: [[NEW:%[0-9]+]] = dt.shard destination @w <{{\[\[}}0:4], [0:4]]>
// SENDER: dt.copy_local [[OLD]] at [#dt.view<[0, 0] size [4, 4]>] to [[NEW]] at [#dt.view<[0, 0] size [4, 4]>]
// SENDER: [[SLOT:%[0-9]+]] = dt.slot at 0 : !dt.buffer<64>
// SENDER: dt.pack [[OLD]] at [#dt.view<[0, 4] size [4, 4]>] into [[SLOT]] wave 0
// SENDER: dt.group wave 0 {
// SENDER-NEXT: dt.send [[SLOT]] to 1
// SENDER-NEXT: }
// SENDER: [[NEXT:%[0-9]+]] = dt.slot at 128 : !dt.buffer<32>
// SENDER: dt.pack [[OLD]] at [#dt.view<[0, 8] size [4, 2]>] into [[NEXT]] wave 1
// SENDER: dt.group wave 1 {
// SENDER-NEXT: dt.send [[NEXT]] to 2

// What fills the shard arrives in place: no slot, no unpacking.
// IN-PLACE-LABEL: dt.program @t device 1 destination rank 1 {
// IN-PLACE: [[NEW:%[0-9]+]] = dt.shard destination @w <{{\[\[}}0:4], [4:8]]>
// IN-PLACE-NEXT: dt.group wave 0 {
// IN-PLACE-NEXT: dt.recv [[NEW]] at <[0, 4] size [4, 4]> from 0
// IN-PLACE-NEXT: }
// IN-PLACE-NEXT: }

// PADDED-LABEL: dt.program @t device 2 destination rank 2 staging 32
// PADDED: [[NEW:%[0-9]+]] = dt.shard destination @w <{{\[\[}}0:4], [8:12]]>
// PADDED-NEXT: dt.zero_fill [[NEW]] at [#dt.view<[0, 10] size [4, 2]>]
// PADDED-NEXT: [[SLOT:%[0-9]+]] = dt.slot at 0
// PADDED-NEXT: dt.group wave 1 {
// PADDED-NEXT: dt.recv [[SLOT]] from 0
// PADDED-NEXT: }
// PADDED-NEXT: dt.unpack [[SLOT]] into [[NEW]] at [#dt.view<[0, 8] size [4, 2]>] wave 1
dt.transition @t from @src to @dst memory <staging 4096, rollback> {
  dt.copy @w <on 0 at [0, 0] size [4, 4]>
  dt.zero @w <on 2 at [0, 10] size [4, 2]>
  dt.wave 0 {
    dt.sendrecv @w <from 0 to 1 at [0, 4] size [4, 4]>
  }
  dt.wave 1 {
    dt.sendrecv @w <from 0 to 2 at [0, 8] size [4, 2]>
  }
}
