// The program level prints as it parses: pretty, generic, and as bytecode.
// RUN: dt-opt %s | dt-opt | FileCheck %s
// RUN: dt-opt %s --mlir-print-op-generic | dt-opt | FileCheck %s
// RUN: dt-opt %s --emit-bytecode | dt-opt | FileCheck %s

dt.space @model {
  dt.param @proj [1, 4096, 1024] of <param = bf16, master = f32>
      named "layers.{}.proj" [0]
}
dt.mesh @world <["tp"=4]>
dt.layout @src of @model on [@world] world 4 { dt.place @proj [{}, {}, {"tp"}] }
dt.layout @dst of @model on [@world] world 4 { dt.place @proj [{}, {}, {}] }
dt.transition @gather from @src to @dst

// CHECK-LABEL: dt.program @gather device 1 source rank 1 destination rank 1 staging 8388608 {
dt.program @gather device 1 source rank 1 destination rank 1 staging 8388608 {
  // CHECK-NEXT: [[OLD:%.+]] = dt.shard source @proj for ["param"] <{{\[\[}}0:1], [0:4096], [0:128, 512:640]] leading 1 range 0:99> : !dt.buffer<4194304>
  %old = dt.shard source @proj for ["param"] <[[0:1], [0:4096], [0:128, 512:640]] leading 1 range 0:99> : !dt.buffer<4194304>
  // CHECK-NEXT: dt.shard source @proj as <"v{}" [0] order 0, [{0:64}, {0:1024}]> for ["param"] <{{\[\[}}0:1], [0:64], [0:1024]] leading 1> : !dt.buffer<131072>
  %part = dt.shard source @proj as <"v{}" [0] order 0, [{0:64}, {0:1024}]> for ["param"] <[[0:1], [0:64], [0:1024]] leading 1> : !dt.buffer<131072>
  // CHECK-NEXT: [[NEW:%.+]] = dt.shard destination @proj <{{\[\[}}0:1], [0:4096], [0:1024]] leading 1> : !dt.buffer<8388608>
  %new = dt.shard destination @proj <[[0:1], [0:4096], [0:1024]] leading 1> : !dt.buffer<8388608>
  // CHECK-NEXT: [[SLOT:%.+]] = dt.slot at 4194304 : !dt.buffer<4194304>
  %slot = dt.slot at 4194304 : !dt.buffer<4194304>
  // CHECK-NEXT: dt.create_shard [[NEW]] at [#dt.view<[0, 0] size [1, 4194304]>] : !dt.buffer<8388608>
  dt.create_shard %new at [#dt.view<[0, 0] size [1, 4194304]>] : !dt.buffer<8388608>
  // CHECK-NEXT: dt.copy_local [[OLD]] at [#dt.view<[0, 0, 0] size [1, 4096, 128]>] to [[NEW]] at [#dt.view<[0, 0, 0] size [1, 4096, 128]>] : !dt.buffer<4194304> to !dt.buffer<8388608>
  dt.copy_local %old at [#dt.view<[0, 0, 0] size [1, 4096, 128]>] to %new at [#dt.view<[0, 0, 0] size [1, 4096, 128]>] : !dt.buffer<4194304> to !dt.buffer<8388608>
  // CHECK-NEXT: dt.copy_local [[OLD]] at [#dt.view<[0, 0, 1] size [1, 1, 1]>] to [[NEW]] at [#dt.view<[0, 0, 1] size [1, 1, 1]>] wave 0 : !dt.buffer<4194304> to !dt.buffer<8388608>
  dt.copy_local %old at [#dt.view<[0, 0, 1] size [1, 1, 1]>] to %new at [#dt.view<[0, 0, 1] size [1, 1, 1]>] wave 0 : !dt.buffer<4194304> to !dt.buffer<8388608>
  // CHECK-NEXT: dt.pack [[OLD]], [[OLD]] at [#dt.view<[0, 0, 0] size [1, 4096, 128]>, #dt.view<[0, 0, 512] size [1, 4096, 128] for ["param"]>] into [[SLOT]] wave 0 : !dt.buffer<4194304>, !dt.buffer<4194304> into !dt.buffer<4194304>
  dt.pack %old, %old at [#dt.view<[0, 0, 0] size [1, 4096, 128]>, #dt.view<[0, 0, 512] size [1, 4096, 128] for ["param"]>] into %slot wave 0 : !dt.buffer<4194304>, !dt.buffer<4194304> into !dt.buffer<4194304>
  // CHECK-NEXT: dt.group wave 0 {
  dt.group wave 0 {
    // CHECK-NEXT: dt.recv [[SLOT]] from 2 : !dt.buffer<4194304>
    dt.recv %slot from 2 : !dt.buffer<4194304>
    // CHECK-NEXT: dt.send [[OLD]] at <[0, 0, 0] size [1, 4096, 128]> to 0 : !dt.buffer<4194304>
    dt.send %old at <[0, 0, 0] size [1, 4096, 128]> to 0 : !dt.buffer<4194304>
    // CHECK-NEXT: dt.recv [[NEW]] at <[0, 0, 0] size [1, 1, 128]> from 3
    dt.recv %new at <[0, 0, 0] size [1, 1, 128]> from 3 : !dt.buffer<8388608>
    // CHECK-NEXT: dt.send [[SLOT]] to 2
    dt.send %slot to 2 : !dt.buffer<4194304>
  }
  // CHECK: dt.unpack [[SLOT]] into [[NEW]] at [#dt.view<[0, 0, 256] size [1, 4096, 256]>] wave 0 : !dt.buffer<4194304> into !dt.buffer<8388608>
  dt.unpack %slot into %new at [#dt.view<[0, 0, 256] size [1, 4096, 256]>] wave 0 : !dt.buffer<4194304> into !dt.buffer<8388608>
  // CHECK-NEXT: dt.relay [[SLOT]] of [@proj, @proj] at [#dt.view<[0, 0, 0] size [1, 4096, 256]>, #dt.view<[1, 0, 0] size [1, 4096, 256] for ["param"]>] wave 1 : !dt.buffer<4194304>
  dt.relay %slot of [@proj, @proj] at [#dt.view<[0, 0, 0] size [1, 4096, 256]>, #dt.view<[1, 0, 0] size [1, 4096, 256] for ["param"]>] wave 1 : !dt.buffer<4194304>
  // CHECK-NEXT: dt.zero_fill [[NEW]] at [#dt.view<[0, 4096, 0] size [1, 64, 512]>] : !dt.buffer<8388608>
  dt.zero_fill %new at [#dt.view<[0, 4096, 0] size [1, 64, 512]>] : !dt.buffer<8388608>
  // CHECK-NEXT: dt.release_shard [[OLD]] at [#dt.view<[0, 0] size [1, 99] for ["param"]>] : !dt.buffer<4194304>
  dt.release_shard %old at [#dt.view<[0, 0] size [1, 99] for ["param"]>] : !dt.buffer<4194304>
}

// CHECK-LABEL: dt.program @gather device 7 {
dt.program @gather device 7 {
}

// A library's collectives: who gives, who gets, and whose blocks.
// CHECK-LABEL: dt.program @gather device 2
dt.program @gather device 2 source rank 2 destination rank 2 staging 3072 {
  // CHECK-NEXT: [[OWN:%.+]] = dt.slot at 0 : !dt.buffer<256>
  %own = dt.slot at 0 : !dt.buffer<256>
  // CHECK-NEXT: [[ALL:%.+]] = dt.slot at 1024 : !dt.buffer<1024>
  %all = dt.slot at 1024 : !dt.buffer<1024>
  // CHECK-NEXT: [[PART:%.+]] = dt.slot at 1280 : !dt.buffer<200>
  %part = dt.slot at 1280 : !dt.buffer<200>
  // CHECK-NEXT: dt.group wave 0 call <broadcast among [2, 5, 6] from 2 blocks 256> gives [[OWN]] : !dt.buffer<256> {
  dt.group wave 0 call <broadcast among [2, 5, 6] from 2 blocks 256> gives %own : !dt.buffer<256> {
    // CHECK-NEXT: dt.send [[OWN]] to 5 : !dt.buffer<256>
    dt.send %own to 5 : !dt.buffer<256>
  }
  // CHECK: dt.group wave 1 call <broadcast among [1, 2] from 1 blocks 256> gets [[OWN]] : !dt.buffer<256> {
  dt.group wave 1 call <broadcast among [1, 2] from 1 blocks 256> gets %own : !dt.buffer<256> {
  }
  // CHECK: dt.group wave 2 call <all_gather among [0, 1, 2, 3] blocks 256> gives [[OWN]] : !dt.buffer<256> gets [[ALL]] : !dt.buffer<1024> {
  dt.group wave 2 call <all_gather among [0, 1, 2, 3] blocks 256> gives %own : !dt.buffer<256> gets %all : !dt.buffer<1024> {
    // CHECK-NEXT: dt.recv [[PART]] from 1 : !dt.buffer<200>
    dt.recv %part from 1 : !dt.buffer<200>
  }
  // CHECK: [[GIVEN:%.+]] = dt.slot at 2048 : !dt.buffer<1024>
  %given = dt.slot at 2048 : !dt.buffer<1024>
  // CHECK-NEXT: dt.group wave 3 call <all_to_all among [1, 2] blocks 512> gives [[GIVEN]] : !dt.buffer<1024> gets [[ALL]] : !dt.buffer<1024> {
  dt.group wave 3 call <all_to_all among [1, 2] blocks 512> gives %given : !dt.buffer<1024> gets %all : !dt.buffer<1024> {
  }
}
