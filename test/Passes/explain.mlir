// --dt-explain: what moves, by pattern, and why it is sent or passed on.
// RUN: dt-opt %s --dt-explain -o /dev/null 2>&1 | FileCheck %s
// RUN: dt-opt %s --dt-lower --dt-explain -o /dev/null 2>&1 | FileCheck %s --check-prefixes=CHECK,STAGED

// One device's data for all eight of another node: it crosses once and is
// passed on there.
dt.space @model {
  dt.param @w [1024, 1048576] of <param = f32>
}
dt.mesh @one <["dp"=1]>
dt.mesh @eight <["dp"=8], devices=[8, 9, 10, 11, 12, 13, 14, 15]>
dt.layout @src of @model on [@one] world 1 {
  dt.place @w [{}, {}]
}
dt.layout @dst of @model on [@eight] world 8 {
  dt.place @w [{}, {}]
}
// CHECK: transition @fan_out
// CHECK-NEXT: broadcast among 9 devices across nodes: 1 group, 34.360 GB;
// CHECK-SAME: sends 1374.470 ms, forwards 171.879 ms, ring broadcast 171.879 ms, so receivers forward it: a library's ring wins nothing
// STAGED: messages:
// STAGED: multicasts: 1 broadcast among 9 devices, made of sends and forwards
dt.transition @fan_out from @src to @dst

// A scalar for the same: whoever has it sends it, in four waves, not eight.
dt.space @scalar {
  dt.param @step [1] of <param = f32>
}
dt.layout @before of @scalar on [@one] world 1 {
  dt.place @step [{}]
}
dt.layout @after of @scalar on [@eight] world 8 {
  dt.place @step [{}]
}
// CHECK: transition @tree
// CHECK-NEXT: broadcast among 9 devices across nodes: 1 group, 0.000 GB;
// CHECK-SAME: sends 0.080 ms, forwards 0.040 ms, ring broadcast 0.080 ms, so receivers forward it: a library's ring wins nothing
dt.transition @tree from @before to @after
