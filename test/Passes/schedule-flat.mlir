// In flat mode copies stand before the wave that they go beside, storage comes
// and goes around both, blocks of a tensor
// follow one another on all devices, and a limit that is too small is refused
// with one that works.
// RUN: split-file %s %t
// RUN: dt-opt %t/fits.mlir --dt-lower | FileCheck %t/fits.mlir
// RUN: dt-opt %t/fits.mlir -o %t/fits.dtplan
// RUN: dt-plan verify %t/fits.dtplan
// RUN: dt-run %t/fits.dtplan --check
// RUN: not dt-opt %t/small.mlir -o %t/none.dtplan 2>&1 | FileCheck %t/small.mlir
// RUN: not test -e %t/none.dtplan
// RUN: sed "s/staging 1024/staging 2048/" %t/small.mlir > %t/enough.mlir
// RUN: dt-opt %t/enough.mlir -o %t/enough.dtplan
// RUN: dt-plan verify %t/enough.dtplan
// RUN: dt-run %t/enough.dtplan --check

//--- fits.mlir
// 64 KiB of a tensor on each device before and after, 16 KiB to do it in.
// CHECK: dt.create @w
// CHECK: dt.copy @w {{.*}} wave 0
// CHECK: dt.wave 0
// CHECK: dt.release @w
// CHECK: dt.copy @w {{.*}} wave [[N:[0-9]+]]
// CHECK: dt.wave [[N]]
// CHECK: dt.release @w
dt.space @model {
  dt.param @w [256, 256] of <param = f32> named "w"
}
dt.mesh @four <["tp"=4]>
dt.layout @src of @model on [@four] world 4 {
  dt.place @w [{"tp"}, {}]
}
dt.layout @dst of @model on [@four] world 4 {
  dt.place @w [{}, {"tp"}]
}
dt.transition @flat from @src to @dst memory <staging 16384, flat>

//--- small.mlir
// CHECK: error: 'dt.transition' op cannot hold to the larger of source and destination plus 1024 bytes (memory.staging), the smallest limit that works is 2048
dt.space @model {
  dt.param @w [16, 65536] of <param = f32> named "w"
}
dt.mesh @four <["tp"=4]>
dt.layout @src of @model on [@four] world 4 {
  dt.place @w [{"tp"}, {}]
}
dt.layout @dst of @model on [@four] world 4 {
  dt.place @w [{}, {"tp"}]
}
dt.transition @flat from @src to @dst memory <staging 1024, flat>
