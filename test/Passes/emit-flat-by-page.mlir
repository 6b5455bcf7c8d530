// Pages of a size that is asked for: what comes and goes starts and ends on one,
// or where its buffer ends.
// RUN: dt-opt %s -o %t.dtplan
// RUN: dt-plan verify %t.dtplan
// RUN: dt-run %t.dtplan --check
// RUN: dt-plan dump %t.dtplan --rank 0 | %python %S/Inputs/whole_pages.py 512 6400 | FileCheck %s --check-prefix=PAGES
// PAGES: {{^}}whole pages

// Without it they are as small as the limit lets them be.
// RUN: sed 's/ by page 2048//' %s | dt-opt - -o %t.small.dtplan
// RUN: dt-plan dump %t.small.dtplan --rank 0 | %python %S/Inputs/whole_pages.py 512 6400 | FileCheck %s --check-prefix=SMALL
// SMALL: not whole pages: ('create', 0, {{[0-9]+}})

// A page needs its room, and the limit that an error names has it.
// RUN: sed 's/staging 12288/staging 4096/' %s > %t.none.mlir
// RUN: not dt-opt %t.none.mlir -o %t.none.dtplan 2>&1 | FileCheck %s --check-prefix=ROOM
// RUN: sed 's/staging 12288/staging 8192/' %s | dt-opt - -o %t.least.dtplan
// ROOM: the smallest limit that works is 8192
dt.space @model {
  dt.param @w [400, 32] of <param = f32>
}
dt.mesh @two <["tp"=2]>
dt.layout @src of @model on [@two] world 2 {
  dt.place @w [{"tp"}, {}]
}
dt.layout @dst of @model on [@two] world 2 {
  dt.place @w [{}, {"tp"}]
}
dt.transition @flat from @src to @dst memory <staging 12288, flat by page 2048>
