// States that change dtype, exist on one side, or are made from another.
// RUN: dt-opt %s | dt-opt | FileCheck %s
// RUN: dt-opt %s --emit-bytecode | dt-opt | FileCheck %s

// CHECK-LABEL: dt.space @model
dt.space @model {
  // CHECK-NEXT: <param = bf16 from master, master = f32>
  dt.param @both [8] of <param = bf16 from master, master = f32>
  // CHECK-NEXT: <param = none -> bf16 from master, master = f32 -> none>
  dt.param @made [8] of <param = none -> bf16 from master, master = f32 -> none>
  // One spelling where nothing changes.
  // CHECK-NEXT: <param = f32 -> bf16, master = f32>
  dt.param @changed [8] of <param = f32 -> bf16, master = f32 -> f32>
}
