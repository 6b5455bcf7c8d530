// Slots may lie anywhere where no two that are in use at once share a byte: such
// plans are proved, written, verified and run.
// RUN: split-file %s %t
// RUN: dt-opt %t/turns.mlir --dt-prove=emit-smtlib=%t/turns.smt2 --dt-emit=output=%t/turns.dtplan -o /dev/null
// RUN: dt-plan verify %t/turns.dtplan
// RUN: dt-run %t/turns.dtplan --check
// RUN: dt-opt %t/forward.mlir --dt-prove --dt-emit=output=%t/forward.dtplan -o /dev/null
// RUN: dt-plan verify %t/forward.dtplan
// RUN: dt-run %t/forward.dtplan --check
// RUN: FileCheck %s --input-file=%t/turns.smt2

// A class of its own for each of the two devices.
// CHECK-COUNT-2: the 4 slots of a device, which keep to no areas, never share a byte while in use

//--- turns.mlir
// Three slots by turns: a fourth group uses what the first has used.
dt.space @model {
  dt.param @w [16] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [16]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [16]
}
dt.transition @t from @src to @dst {
  dt.wave 0 slots <5 columns, (0, 1, 0, 0, 16), (1, 0, 1, 0, 16)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [4]>
  }
  dt.wave 1 slots <5 columns, (0, 1, 0, 16, 16), (1, 0, 1, 16, 16)> {
    dt.sendrecv @w <from 0 to 1 at [4] size [4]>
  }
  dt.wave 2 slots <5 columns, (0, 1, 0, 32, 16), (1, 0, 1, 32, 16)> {
    dt.sendrecv @w <from 0 to 1 at [8] size [4]>
  }
  dt.wave 3 slots <5 columns, (0, 1, 0, 0, 16), (1, 0, 1, 0, 16)> {
    dt.sendrecv @w <from 0 to 1 at [12] size [4]>
  }
}

//--- forward.mlir
// Device 1 packs what it passes on where it received it: the pack reads what the
// unpack has written, so it comes after that.
dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.mesh @all <["dp"=3]>
dt.layout @dst of @model on [@all] world 3 {
  dt.place @w [{}]
}
dt.transition @t from @src to @dst {
  dt.copy @w <on 0 at [0] size [8]>
  dt.wave 0 slots <5 columns, (0, 1, 0, 0, 32), (1, 0, 1, 0, 32)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
  dt.wave 1 slots <5 columns, (1, 2, 0, 0, 32), (2, 1, 1, 0, 32)> {
    dt.sendrecv @w <from 1 to 2 at [0] size [8]>
  }
}
