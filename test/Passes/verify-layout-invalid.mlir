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

// -----

// A rank holds an element once: boxes, and flat ranges of one.
dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [8, 6] of <param = bf16>
}
dt.layout @src of @model world 2 {
  // expected-error@+1 {{places @w[4:5)x[0:6) on rank 1 twice}}
  dt.place @w shards rank 0 at [0, 0] size [8, 6],
      rank 1 at [0, 0] size [5, 6], rank 1 at [4, 0] size [4, 6]
}
dt.transition @t from @src to @src

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [4, 6] of <param = bf16>
}
dt.layout @src of @model world 1 {
  // expected-error@+1 {{places @w[1:2)x[2:4) on rank 0 twice}}
  dt.place @w shards rank 0 at [0, 0] size [4, 6] range [0, 10],
      rank 0 at [0, 0] size [4, 6] range [8, 24]
}
dt.transition @t from @src to @src

// -----

// The destination has all of what it has, unless the param is partial.
dt.space @model {
  // expected-note@+1 {{the param is here, and is not 'partial'}}
  dt.param @w [8] of <param = f32>
  dt.param @rng [2, 3] of <param = u8> partial
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
  dt.place @rng shards rank 0 at [0, 0] size [1, 3]
}
// expected-error@+1 {{destination lacks @w[4:8)}}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [4]
  dt.place @rng shards rank 0 at [0, 0] size [1, 3]
}
dt.transition @t from @src to @dst
