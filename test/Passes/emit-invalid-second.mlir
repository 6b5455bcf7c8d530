// A plan file holds one transition: of two, none is written.
// RUN: rm -f %t.dtplan
// RUN: dt-opt %s --dt-emit=output=%t.dtplan -verify-diagnostics
// RUN: not ls %t.dtplan

dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @first from @src to @src {
  dt.keep @w <on 0 at [0] size [8]>
}
// expected-error@+1 {{is the second transition: a plan file holds one}}
dt.transition @second from @src to @src {
  dt.keep @w <on 0 at [0] size [8]>
}
