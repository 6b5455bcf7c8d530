// Families of params whose side has tensors of its own: these form one too,
// where their numbers and their order follow the members.
// RUN: dt-opt %s --dt-group-families -split-input-file | FileCheck %s

// CHECK-LABEL: dt.space @layers
// CHECK-NEXT: dt.param @w [3, 8] of <param = bf16> named "layers.{}.w" [0] order 0 + [1]
// CHECK-NEXT: }
dt.space @layers {
  dt.param @layers.0.w [8] of <param = bf16>
  dt.param @layers.1.w [8] of <param = bf16>
  dt.param @layers.2.w [8] of <param = bf16>
}
dt.mesh @mesh <["pp"=2, "tp"=2]>
// Numbers of their own, and two tensors of each param.
// CHECK-LABEL: dt.layout @side
// CHECK-NEXT: dt.place @w as <"h1.{}.a" [4 step 2] order 0 + [2], [{0:2}]> [{"pp" cuts [0, 2, 3]}, {"tp"}]
// CHECK-NEXT: dt.place @w as <"h1.{}.b" [4 step 2] order 1 + [2], [{2:8}]> [{"pp" cuts [0, 2, 3]}, {"tp"}]
// CHECK-NEXT: }
dt.layout @side of @layers on [@mesh] world 4 {
  dt.place @layers.0.w as <"h1.4.a" order 0, [{0:2}]> [{"tp"}] at {"pp" = [0]}
  dt.place @layers.0.w as <"h1.4.b" order 1, [{2:8}]> [{"tp"}] at {"pp" = [0]}
  dt.place @layers.1.w as <"h1.6.a" order 2, [{0:2}]> [{"tp"}] at {"pp" = [0]}
  dt.place @layers.1.w as <"h1.6.b" order 3, [{2:8}]> [{"tp"}] at {"pp" = [0]}
  dt.place @layers.2.w as <"h1.8.a" order 4, [{0:2}]> [{"tp"}] at {"pp" = [1]}
  dt.place @layers.2.w as <"h1.8.b" order 5, [{2:8}]> [{"tp"}] at {"pp" = [1]}
}

// -----

// One layer has other parts: it stays by itself.
// CHECK-LABEL: dt.space @other_parts
// CHECK-NEXT: dt.param @w [2, 8] of <param = bf16> named "layers.{}.w" [0] order 0 + [1]
// CHECK-NEXT: dt.param @layers.2.w [8] of <param = bf16> order 2
dt.space @other_parts {
  dt.param @layers.0.w [8] of <param = bf16>
  dt.param @layers.1.w [8] of <param = bf16>
  dt.param @layers.2.w [8] of <param = bf16>
}
dt.mesh @m <["tp"=2]>
dt.layout @side of @other_parts on [@m] world 2 {
  dt.place @layers.0.w as <"h.0" order 0, [{0:8}]> [{"tp"}]
  dt.place @layers.1.w as <"h.1" order 1, [{0:8}]> [{"tp"}]
  dt.place @layers.2.w as <"h.2" order 2, [{4:8, 0:4}]> [{"tp"}]
}

// -----

// Numbers that the layers do not follow: each layer is a family.
// CHECK-LABEL: dt.space @other_numbers
// CHECK-NEXT: dt.param @layers.0.w
// CHECK-NEXT: dt.param @layers.1.w
// CHECK-NEXT: dt.param @layers.2.w
dt.space @other_numbers {
  dt.param @layers.0.w [8] of <param = bf16>
  dt.param @layers.1.w [8] of <param = bf16>
  dt.param @layers.2.w [8] of <param = bf16>
}
dt.mesh @m <["tp"=2]>
dt.layout @side of @other_numbers on [@m] world 2 {
  dt.place @layers.0.w as <"h.0.x.5" order 0, [{0:8}]> [{"tp"}]
  dt.place @layers.1.w as <"h.7.x.2" order 1, [{0:8}]> [{"tp"}]
  dt.place @layers.2.w as <"h.1.x.9" order 2, [{0:8}]> [{"tp"}]
}

// -----

// One layer has other dims in one: it stays by itself.
// CHECK-LABEL: dt.space @other_dims_in_one
// CHECK-NEXT: dt.param @w [2, 2, 4, 8] of <param = bf16> named "layers.{}.w" [0] order 0 + [1]
// CHECK-NEXT: dt.param @layers.2.w [2, 4, 8] of <param = bf16> order 2
// CHECK: dt.place @w as <"h.{}" [0] order 0 + [1], [{0:2}, {0:4}, {0:8}] parts [1, 2]> [{}, {}, {"tp"}]
// CHECK-NEXT: dt.place @layers.2.w as <"h.2" order 2, [{0:2}, {0:4}, {0:8}] parts [2, 1]> [{}, {"tp"}]
dt.space @other_dims_in_one {
  dt.param @layers.0.w [2, 4, 8] of <param = bf16>
  dt.param @layers.1.w [2, 4, 8] of <param = bf16>
  dt.param @layers.2.w [2, 4, 8] of <param = bf16>
}
dt.mesh @m <["tp"=2]>
dt.layout @side of @other_dims_in_one on [@m] world 2 {
  dt.place @layers.0.w as <"h.0" order 0, [{0:2}, {0:4}, {0:8}] parts [1, 2]> [{}, {"tp"}]
  dt.place @layers.1.w as <"h.1" order 1, [{0:2}, {0:4}, {0:8}] parts [1, 2]> [{}, {"tp"}]
  dt.place @layers.2.w as <"h.2" order 2, [{0:2}, {0:4}, {0:8}] parts [2, 1]> [{}, {"tp"}]
}

// -----

// One layer is padded with another value: it stays by itself.
// CHECK-LABEL: dt.space @other_fill
// CHECK-NEXT: dt.param @w [2, 8] of <param = bf16> named "layers.{}.w" [0] order 0 + [1]
// CHECK-NEXT: dt.param @layers.2.w [8] of <param = bf16> order 2
dt.space @other_fill {
  dt.param @layers.0.w [8] of <param = bf16>
  dt.param @layers.1.w [8] of <param = bf16>
  dt.param @layers.2.w [8] of <param = bf16>
}
dt.mesh @m <["tp"=2]>
// CHECK-LABEL: dt.layout @side
// CHECK-NEXT: dt.place @w as <"h.{}" [0] order 0 + [1], [{0:10}] fill [0xbf80]> [{}, {"tp"}]
// CHECK-NEXT: dt.place @layers.2.w as <"h.2" order 2, [{0:10}] fill [0x3f80]> [{"tp"}]
dt.layout @side of @other_fill on [@m] world 2 {
  dt.place @layers.0.w as <"h.0" order 0, [{0:10}] fill [0xbf80]> [{"tp"}]
  dt.place @layers.1.w as <"h.1" order 1, [{0:10}] fill [0xbf80]> [{"tp"}]
  dt.place @layers.2.w as <"h.2" order 2, [{0:10}] fill [0x3f80]> [{"tp"}]
}
