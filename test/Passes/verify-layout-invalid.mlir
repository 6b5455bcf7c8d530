// What closes the layout level refuses: one case each.
// RUN: dt-opt %s --dt-verify-layout -split-input-file -verify-diagnostics

dt.space @model {
  dt.param @w [8] of <param = bf16>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @src
// expected-error@+1 {{is illegal at the layout level}}
dt.program @t device 0 {
}

// -----

dt.space @model {
  dt.param @w [8] of <param = bf16>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @src {
  // expected-error@+1 {{is illegal at the layout level: the body of a transition is empty there}}
  dt.keep @w <on 0 at [0] size [8]>
}

// -----

dt.space @model {
  dt.param @w [8] of <param = bf16, master = f32>
}
dt.mesh @mesh <["tp"=2]>
dt.layout @src of @model on [@mesh] world 2 {
  // expected-note@+1 {{it is placed here}}
  dt.place @w for ["param", "master"] [{"tp"}]
  // expected-error@+1 {{places state 'master' of @w a second time}}
  dt.place @w for ["master"] [{}]
}
dt.transition @t from @src to @src

// -----

dt.space @model {
  // expected-note@+1 {{the param is declared here}}
  dt.param @w [8] of <param = bf16, master = f32>
}
dt.mesh @mesh <["tp"=2]>
dt.layout @src of @model on [@mesh] world 2 {
  dt.place @w [{"tp"}]
}
// expected-error@+1 {{does not place state 'param' of @w}}
dt.layout @dst of @model on [@mesh] world 2 {
  dt.place @w for ["master"] [{}]
}
dt.transition @t from @src to @dst
