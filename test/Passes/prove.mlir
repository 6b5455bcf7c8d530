// What is proved of a transition and what becomes of it: facts in the plan, the
// lemmas and the plan's classes as SMT-LIB. Any pass in between loses the proof.
// RUN: dt-opt %s --dt-lower --dt-prove=emit-smtlib=%t.smt2 --dt-emit=output=%t.dtplan -o /dev/null
// RUN: FileCheck %s --check-prefix=SMT --input-file=%t.smt2
// RUN: dt-opt %s --dt-compile="output=%t.whole.dtplan emit-smtlib=%t.whole.smt2" -o /dev/null
// RUN: cmp %t.dtplan %t.whole.dtplan
// RUN: cmp %t.smt2 %t.whole.smt2
// RUN: dt-opt %s --dt-lower --dt-prove -o %t.staged.mlir
// RUN: dt-opt %t.staged.mlir --dt-emit=output=%t.unproved.dtplan -o /dev/null
// RUN: dt-plan inspect %t.unproved.dtplan --json | FileCheck %s --check-prefix=UNPROVED

// UNPROVED-NOT: "proved"

// SMT: (set-logic ALL)
// SMT: ; cuts-keep-rounds: with one message per ordered pair {{.*}} (proof/: KernelPlans.cuts_keep_rounds)
// SMT: (declare-sort Message 0)
// SMT: (check-sat)
// SMT: ; slots-never-meet:
// SMT: ; nothing-sent-too-early:
// SMT: ; peak-is-counted:
// SMT: ; waves-0-to-0: waves (1) come in one order
// SMT: ; arenas-0: slots of the 2 devices
// SMT: ; cover-0: pieces of @w, cut as for 2 device(s)
dt.space @model {
  dt.param @w [8, 6] of <param = bf16>
}
dt.layout @src of @model world 2 {
  dt.place @w shards [i: 2] rank i at [i * 4, 0] size [4, 6]
}
dt.layout @dst of @model world 2 {
  dt.place @w shards [i: 2] rank i at [0, i * 3] size [8, 3]
}
dt.transition @turn from @src to @dst memory <staging 65536, rollback>
