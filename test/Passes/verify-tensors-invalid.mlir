// All tensors of a side that are views of one param are the param.
// RUN: dt-opt %s --dt-verify-layout -split-input-file -verify-diagnostics

dt.space @model {
  dt.param @w [8] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-note@+1 {{that tensor is here}}
  dt.place @w as <"a" order 0, [{0:5}]> shards rank 0 at [0] size [5]
  // expected-error@+1 {{has [4:5) of tensor 'w' in 'b', which 'a' has too}}
  dt.place @w as <"b" order 1, [{4:8}]> shards rank 0 at [0] size [4]
}
dt.transition @t from @side to @side

// -----

dt.space @model {
  dt.param @w [8] of <param = bf16>
}
// expected-error@+1 {{has no tensor with [4:6) of tensor 'w'}}
dt.layout @side of @model world 1 {
  // expected-note@+1 {{a tensor that has a part of it is here}}
  dt.place @w as <"a" order 0, [{0:4}]> shards rank 0 at [0] size [4]
  dt.place @w as <"b" order 1, [{6:8}]> shards rank 0 at [0] size [2]
}
dt.transition @t from @side to @side

// -----

dt.space @model {
  dt.param @w [2, 8] of <param = bf16> named "w{}" [0]
  dt.param @x [8] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-note@+1 {{the first time is here}}
  dt.place @w as <"v{}" [1 step 2] order 0, [{0:8}]> shards rank 0 at [0, 0] size [2, 8]
  // expected-error@+1 {{names tensor 'v3' a second time}}
  dt.place @x as <"v3" order 1, [{0:8}]> shards rank 0 at [0] size [8]
}
dt.transition @t from @side to @side

// -----

// A tensor and its param cannot both be placed.
dt.space @model {
  dt.param @w [8] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-note@+1 {{it is placed here}}
  dt.place @w as <"a" order 0, [{0:8}]> shards rank 0 at [0] size [8]
  // expected-error@+1 {{places state 'param' of @w a second time}}
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @side to @side

// -----

// Row 3 is b's: it cannot be padding of a.
dt.space @model {
  dt.param @w [6] of <param = bf16>
}
dt.mesh @m <["tp"=2]>
dt.layout @side of @model on [@m] world 2 {
  // expected-error@+1 {{places 'a' of @w, but pads dim 0 of a view that does not have all of the param's in its order}}
  dt.place @w as <"a" order 0, [{0:3}]> [{"tp"} extent 4]
  dt.place @w as <"b" order 1, [{3:6}]> [{}]
}
dt.transition @t from @side to @side

// -----

// Three rows of one half, and three others of the other half.
dt.space @model {
  dt.param @w [2, 6] of <param = bf16>
}
dt.mesh @m <["tp"=2]>
dt.layout @side of @model on [@m] world 2 {
  // expected-error@+1 {{places 'a' of @w, but has [0:3), [6:7), [8:10) of dim 0, which is not the same part of each row of its 2 x 6 elements}}
  dt.place @w as <"a" order 0, [{0:2}, {0:6}] parts [2]> [{"tp" blocks [6, 2, 4]}]
}
dt.transition @t from @side to @side
