// The layout level prints as it parses: pretty, generic, and as bytecode.
// RUN: dt-opt %s | dt-opt | FileCheck %s
// RUN: dt-opt %s --mlir-print-op-generic | dt-opt | FileCheck %s
// RUN: dt-opt %s --emit-bytecode | dt-opt | FileCheck %s

// CHECK-LABEL: dt.space @model {
dt.space @model {
  // CHECK-NEXT: dt.param @norm [4096] of <param = bf16>{{$}}
  dt.param @norm [4096] of <param = bf16>
  // Spellings of safetensors and PyTorch become one; step 1 is not printed.
  // CHECK-NEXT: dt.param @qkv [32, 12288, 4096] of <param = bf16, master = f32> named "layers.{}.qkv" [0] order 7 + [263]{{$}}
  dt.param @qkv [32, 12288, 4096] of <param = torch.bfloat16, master = F32>
      named "layers.{}.qkv" [0 step 1] order 7 + [263]
  // CHECK-NEXT: dt.param @experts [32, 64, 4096] of <param = f8_e4m3> named "layers.{}.experts.{}.w" [3, 1 step 2]
  dt.param @experts [32, 64, 4096] of <param = f8_e4m3>
      named "layers.{}.experts.{}.w" [3, 1 step 2]
  // Numbers that have no one step, and places in the order, are listed.
  // CHECK-NEXT: dt.param @mixer [4, 2, 64] of <param = bf16> named "layers.{}.mixer.{}.w" [{0, 2, 3, 7}, 1 step 2] order 5 + [{0, 9, 13, 40}, 1]{{$}}
  dt.param @mixer [4, 2, 64] of <param = bf16>
      named "layers.{}.mixer.{}.w" [{0, 2, 3, 7}, 1 step 2] order 5 + [{0, 9, 13, 40}, 1]
  // CHECK-NEXT: dt.param @"odd name/0" [] of <step = i64>
  dt.param @"odd name/0" [] of <step = i64>
  // CHECK-NEXT: dt.param @embedding [1000, 64] of <"exp avg" = f32> named "word embedding"
  dt.param @embedding [1000, 64] of <"exp avg" = f32> named "word embedding"
  // CHECK-NEXT: dt.param @gate [8] of <param = bf16> storage "all gates"
  dt.param @gate [8] of <param = bf16> storage "all gates"
}

// A list of devices that counts from 0 says nothing.
// CHECK: dt.mesh @dense <["pp"=2, "tp"=2]>{{$}}
dt.mesh @dense <["pp"=2, "tp"=2], devices=[0, 1, 2, 3]>
// Axes of size 1 stay: placements may name them.
// CHECK: dt.mesh @expert <["ep"=4, "etp"=1]>
dt.mesh @expert <["ep"=4, "etp"=1]>
// CHECK: dt.mesh @grown <["pp"=2, "tp"=2], devices=[8, 9, 0, 1]>
dt.mesh @grown <["pp"=2, "tp"=2], devices=[8, 9, 0, 1]>

// CHECK-LABEL: dt.layout @src of @model on [@dense, @expert] world 4 zero <{{\[\[}}"pp"], []] bucket 40000000> {
dt.layout @src of @model on [@dense, @expert] world 4
    zero <[["pp"], []] bucket 40000000> {
  // CHECK-NEXT: dt.place @norm [{}]{{$}}
  dt.place @norm [{}]
  // CHECK-NEXT: dt.place @qkv on @dense for ["param"] [{"pp" cuts [0, 17, 32]}, {"tp" blocks [4096, 4096, 4096]}, {}]
  dt.place @qkv on @dense for ["param"]
      [{"pp" cuts [0, 17, 32]}, {"tp" blocks [4096, 4096, 4096]}, {}]
  // CHECK-NEXT: dt.place @qkv for ["master"] [{"pp" cuts [0, 8, 16, 24, 32] owners [0, 1, 0, 1]}, {}, {}] bucketed
  dt.place @qkv for ["master"]
      [{"pp" cuts [0, 8, 16, 24, 32] owners [0, 1, 0, 1]}, {}, {}]
      bucketed
  // CHECK-NEXT: dt.place @experts on @expert [{}, {"ep", "etp" chunk}, {}]
  dt.place @experts on @expert [{}, {"ep", "etp" chunk}, {}]
  // CHECK-NEXT: dt.place @embedding [{"tp"} extent 1024, {}] at {"pp" = [0]} bucketed alone
  dt.place @embedding [{"tp"} extent 1024, {}] at {"pp" = [0]} bucketed alone
  // CHECK-NEXT: dt.place @"odd name/0" []
  dt.place @"odd name/0" []
}

// CHECK-LABEL: dt.layout @flat of @model on [@grown] world 4 {
dt.layout @flat of @model on [@grown] world 4 {
  // CHECK-NEXT: dt.place @qkv [{}, {"pp"}, {}] flat ["tp"]
  dt.place @qkv [{}, {"pp"}, {}] flat ["tp"]
}

// Explicit shards need no mesh; rows are classes, then single rows.
// CHECK-LABEL: dt.layout @rows of @model world 3 devices [4, 5, 7] {
dt.layout @rows of @model world 3 devices [4, 5, 7] {
  // CHECK-NEXT: dt.place @norm shards [i: 2] rank i at [i * 1024] size [1024], rank 2 at [2048] size [2048] range [0, 40]
  dt.place @norm shards [r: 2] rank r at [r * 1024] size [1024],
      rank 2 at [2048] size [2048] range [0, 40]
  // CHECK-NEXT: dt.place @embedding shards dims 2
  dt.place @embedding shards dims 2
}

// CHECK: dt.transition @empty from @src to @rows{{$}}
dt.transition @empty from @src to @rows
// CHECK: dt.transition @shrink from @src to @rows cluster <8 per node, intra 200.0, inter 25.5, latency 10.0, 4 per nic, links [node 0 to device 9 = 12.5]> memory <staging 1073741824, device 85899345920, flat>
dt.transition @shrink from @src to @rows
    cluster <8 per node, intra 200, inter 2.55e1, latency 10.0, 4 per nic,
             links [node 0 to device 9 = 12.5]>
    memory <staging 1073741824, device 85899345920, flat> {
}
// CHECK: dt.transition @back from @rows to @src memory <staging 0, rollback>
dt.transition @back from @rows to @src memory <staging 0, rollback>
// CHECK: dt.transition @whole from @rows to @src memory <staging 64, flat by tensor>
dt.transition @whole from @rows to @src memory <staging 64, flat by tensor>
// CHECK: dt.transition @pages from @rows to @src memory <staging 64, flat by page 4096>
dt.transition @pages from @rows to @src memory <staging 64, flat by page 4096>
// CHECK: dt.transition @counted from @rows to @src memory <staging 64, device 128, rollback over nccl>
dt.transition @counted from @rows to @src memory <staging 64, device 128, rollback over nccl>
// CHECK: dt.transition @large from @rows to @src memory <staging 64, flat by page 4096 over nccl>
dt.transition @large from @rows to @src memory <staging 64, flat by page 4096 over nccl>
// CHECK: dt.transition @slow from @rows to @src memory <staging 33554432, rollback> compression <below 0.25, block 65536>
dt.transition @slow from @rows to @src memory <staging 33554432, rollback>
    compression <below 2.5e-1, block 65536>
