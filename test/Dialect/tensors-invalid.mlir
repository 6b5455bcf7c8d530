// What is wrong with one of a side's own tensors, by itself or for its param.
// RUN: dt-opt %s -split-input-file -verify-diagnostics

dt.space @model {
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{the tensor has a name that is empty}}
  dt.place @w as <"" order 0, [{0:8}, {0:4}]> shards rank 0 at [0, 0] size [8, 4]
}

// -----

dt.space @model {
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{expected intervals, found none}}
  dt.place @w as <"v" order 0, [{}, {0:4}]> shards rank 0 at [0, 0] size [8, 4]
}

// -----

dt.space @model {
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{expected 1 to 65536 intervals, found 70000}}
  dt.place @w as <"v" order 0, [{0:1 by 2 x 70000}, {0:4}]> shards rank 0 at [0, 0] size [8, 4]
}

// -----

dt.space @model {
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{has an end of -2 in a dim, expected one from 0}}
  dt.place @w as <"v" order 0, [{-2:4}, {0:4}]> shards rank 0 at [0, 0] size [8, 4]
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{places 'v' of @w, which has [2:4) twice of dim 0}}
  dt.place @w as <"v" order 0, [{0:4, 2:6}, {0:4}]> shards rank 0 at [0, 0] size [8, 4]
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{places 'v' of @w, which has 1 dims, expected 2}}
  dt.place @w as <"v" order 0, [{0:8}]> shards rank 0 at [0, 0] size [8, 4]
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{places 'v' of @w, which has [8:9) of dim 0}}
  dt.place @w as <"v" order 0, [at 8, {0:4}]> shards rank 0 at [0] size [4]
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [4, 8] of <param = bf16> named "w{}" [0]
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{places 'v{}' of @w with a list of 3 in leading dim 0, expected 4}}
  dt.place @w as <"v{}" [{0, 1, 5}] order 0 + [1], [{0:8}]> shards rank 0 at [0, 0] size [4, 8]
}

// -----

dt.space @model {
  dt.param @w [3, 8] of <param = bf16> named "w{}" [0]
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{tensor "v{}" has a list with 7 twice}}
  dt.place @w as <"v{}" [{7, 1, 7}] order 0 + [1], [{0:8}]> shards rank 0 at [0, 0] size [3, 8]
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [2, 8, 4] of <param = bf16> named "layers.{}.w" [0]
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{places 'v' of @w with 0 numbers, expected one for each of 1 leading dims}}
  dt.place @w as <"v" order 0, [{0:8}, {0:4}]> shards rank 0 at [0, 0, 0] size [2, 8, 4]
}

// -----

// Shards are in the tensor's coordinates: it has four rows.
dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{places [4:8)x[0:4) on rank 0, outside [0:4)x[0:4)}}
  dt.place @w as <"v" order 0, [{4:8}, {0:4}]> shards rank 0 at [4, 0] size [4, 4]
}

// -----

// So are the dims of placements.
dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [8, 4] of <param = bf16>
}
dt.mesh @m <["tp"=2]>
dt.layout @side of @model on [@m] world 2 {
  // expected-error@+1 {{cuts dim 0 of 'v' of @w over axis "tp" into 2 equal pieces, which do not divide 3}}
  dt.place @w as <"v" order 0, [{0:3}, {0:4}]> [{"tp"}, {}]
}

// -----

dt.space @model {
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{has dims [1, 1] of 2, expected each once, and not all in their order}}
  dt.place @w as <"v" order 0, [{0:8}, {0:4}] permute [1, 1]> shards rank 0 at [0, 0] size [4, 8]
}

// -----

dt.space @model {
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{has dims [0, 1] of 2, expected each once, and not all in their order}}
  dt.place @w as <"v" order 0, [{0:8}, {0:4}] permute [0, 1]> shards rank 0 at [0, 0] size [8, 4]
}

// -----

dt.space @model {
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{has dims [1, 0, 2] of 2, expected each once}}
  dt.place @w as <"v" order 0, [{0:8}, {0:4}] permute [1, 0, 2]> shards rank 0 at [0, 0] size [4, 8]
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{has dim 0, of which it is one index, at another place}}
  dt.place @w as <"v" order 0, [at 3, {0:4}] permute [1, 0]> shards rank 0 at [0] size [4]
}

// -----

// Shards are in the tensor's order of dims.
dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{places [0:8)x[0:4) on rank 0, outside [0:4)x[0:8)}}
  dt.place @w as <"v" order 0, [{0:8}, {0:4}] permute [1, 0]> shards rank 0 at [0, 0] size [8, 4]
}

// -----

dt.space @model {
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{has dims of [3] of its 2 dims, expected them all, and two in one}}
  dt.place @w as <"v" order 0, [{0:8}, {0:4}] parts [3]> shards rank 0 at [0] size [32]
}

// -----

dt.space @model {
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{has dims of [1, 1] of its 2 dims, expected them all, and two in one}}
  dt.place @w as <"v" order 0, [{0:8}, {0:4}] parts [1, 1]> shards rank 0 at [0, 0] size [8, 4]
}

// -----

dt.space @model {
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{has dims of [0, 2] of its 2 dims}}
  dt.place @w as <"v" order 0, [{0:8}, {0:4}] parts [0, 2]> shards rank 0 at [0, 0] size [8, 4]
}

// -----

dt.space @model {
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{has dims of [2] of its 1 dims}}
  dt.place @w as <"v" order 0, [at 3, {0:4}] parts [2]> shards rank 0 at [0] size [4]
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{lists boxes of 2 dims, but }}
  dt.place @w as <"v" order 0, [{0:8}, {0:4}] parts [2]> shards rank 0 at [0, 0] size [8, 4]
}

// -----

dt.space @model {
  dt.param @w [8, 4] of <param = bf16>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{tensor "v" has a fill of zeros alone}}
  dt.place @w as <"v" order 0, [{0:9}, {0:4}] fill [0]> shards rank 0 at [0, 0] size [9, 4]
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [8, 4] of <param = bf16, master = f32>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{with fills of 1 states, expected 2}}
  dt.place @w as <"v" order 0, [{0:9}, {0:4}] fill [1]> shards rank 0 at [0, 0] size [9, 4]
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [8, 4] of <param = bf16, master = f32>
}
dt.layout @side of @model world 1 {
  // expected-error@+1 {{with a fill of 0x10000 of state 'param', which has 2 bytes}}
  dt.place @w as <"v" order 0, [{0:9}, {0:4}] fill [0x10000, 0]> shards rank 0 at [0, 0] size [9, 4]
}
