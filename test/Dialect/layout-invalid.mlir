// What the layout level refuses: one case each.
// RUN: dt-opt %s -split-input-file -verify-diagnostics

dt.space @model {
  // expected-error@+1 {{expected positive dims, found 0}}
  dt.param @w [4, 0] of <param = bf16>
}

// -----

dt.space @model {
  // expected-error@+1 {{has 1 {} in its name, expected one for each of 2 leading dims}}
  dt.param @w [4, 4] of <param = bf16> named "layers.{}.w" [0, 1]
}

// -----

dt.space @model {
  // expected-error@+1 {{has a storage whose name has "{}", which stands for a number in the names of a plan}}
  dt.param @w [4, 4] of <param = bf16> storage "layer {}"
}

// -----

dt.space @model {
  // expected-error@+1 {{numbers members with step 0, expected distinct numbers}}
  dt.param @w [4, 4] of <param = bf16> named "layers.{}.w" [0 step 0]
}

// -----

dt.space @model {
  // expected-error@+1 {{has 0 order strides, expected one for each of 1 leading dims}}
  dt.param @w [4, 4] of <param = bf16> named "layers.{}.w" [0] order 3
}

// -----

dt.space @model {
  // expected-error@+1 {{has a list of 3 in leading dim 0, expected 4}}
  dt.param @w [4, 4] of <param = bf16> named "layers.{}.w" [{0, 1, 5}]
}

// -----

dt.space @model {
  // expected-error@+1 {{has a list of 3 in leading dim 0, expected 4}}
  dt.param @w [4, 4] of <param = bf16> named "layers.{}.w" [0] order 7 + [{0, 1, 5}]
}

// -----

dt.space @model {
  // expected-error@+1 {{has a list with 1 twice}}
  dt.param @w [4, 4] of <param = bf16> named "layers.{}.w" [{0, 1, 5, 1}]
}

// -----

dt.space @model {
  // expected-error@+1 {{has a list of equal steps, expected its first number and the step}}
  dt.param @w [3, 4] of <param = bf16> named "layers.{}.w" [{1, 3, 5}]
}

// -----

dt.space @model {
  // expected-error@+1 {{has a list with numbers beyond 1152921504606846976}}
  dt.param @w [3, 4] of <param = bf16> named "layers.{}.w" [{0, 1, 1152921504606846977}]
}

// -----

dt.space @model {
  // expected-error@+1 {{has a list from 1, expected one from 0}}
  dt.param @w [3, 4] of <param = bf16> named "layers.{}.w" [0] order 7 + [{1, 2, 5}]
}

// -----

dt.space @model {
  // expected-error@+1 {{has an order that overflows 64 bits}}
  dt.param @w [3, 4] of <param = bf16> named "layers.{}.w" [0] order 9223372036854775807 + [{0, 2, 5}]
}

// -----

dt.space @model {
  // expected-error@+1 {{has lists that are not of its 1 leading dims}}
  "dt.param"() <{sym_name = "w", shape = array<i64: 3, 4>, states = #dt.states<param = bf16>, tensor = "l.{}.w", leading_first = array<i64: 0>, leading_step = array<i64: 0>, leading_lists = array<i64: 5, 0, 1, 5>}> : () -> ()
}

// -----

dt.space @model {
  // expected-error@+1 {{has a list and a step of 1}}
  "dt.param"() <{sym_name = "w", shape = array<i64: 3, 4>, states = #dt.states<param = bf16>, tensor = "l.{}.w", leading_first = array<i64: 0>, leading_step = array<i64: 1>, leading_lists = array<i64: 3, 0, 1, 5>}> : () -> ()
}

// -----

dt.space @model {
  // expected-error@+1 {{is not allowed in a space, expected dt.param}}
  dt.mesh @m <["tp"=4]>
}

// -----

// expected-error@+1 {{is of @nothing, which is not a dt.space}}
dt.layout @l of @nothing world 4 {
}

// -----

dt.space @model {
}
// expected-error@+1 {{is on @nothing, which is not a dt.mesh}}
dt.layout @l of @model on [@nothing] world 4 {
}

// -----

dt.space @model {
}
// expected-note@+1 {{the mesh is #dt.mesh<["tp"=4]>}}
dt.mesh @m <["tp"=4]>
// expected-error@+1 {{has a world of 8, but mesh @m has 4 ranks}}
dt.layout @l of @model on [@m] world 8 {
}

// -----

dt.space @model {
}
dt.mesh @m <["tp"=2], devices=[4, 5]>
// expected-note@+1 {{the mesh is #dt.mesh<["ep"=2]>}}
dt.mesh @e <["ep"=2]>
// expected-error@+1 {{has meshes that arrange different devices}}
dt.layout @l of @model on [@m, @e] world 2 {
}

// -----

// expected-error@+1 {{lists 2 devices for a world of 4}}
dt.layout @l of @model world 4 devices [0, 1] {
}

// -----

dt.space @model {
}
dt.mesh @m <["tp"=2]>
// expected-error@+1 {{divides buckets over the axes of 2 meshes, expected 1}}
dt.layout @l of @model on [@m] world 2 zero <[["tp"], []] bucket 64> {
}

// -----

dt.space @model {
}
// expected-note@+1 {{the mesh is}}
dt.mesh @m <["tp"=2]>
// expected-error@+1 {{divides buckets over axis "dp", which mesh @m does not have}}
dt.layout @l of @model on [@m] world 2 zero <[["dp"]] bucket 64> {
}

// -----

dt.space @model {
  dt.param @w [4, 6] of <param = bf16>
}
dt.mesh @m <["tp"=2]>
dt.layout @l of @model on [@m] world 2 {
  // expected-error@+1 {{places @v, which space @model does not have}}
  dt.place @v [{}, {}]
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [4, 6] of <param = bf16>
}
dt.mesh @m <["tp"=2]>
dt.layout @l of @model on [@m] world 2 {
  // expected-error@+1 {{places 3 dims, but @w has 2}}
  dt.place @w [{}, {}, {}]
}

// -----

dt.space @model {
  dt.param @w [4, 6] of <param = bf16>
}
// expected-note@+1 {{the mesh has axes "tp"=2}}
dt.mesh @m <["tp"=2]>
dt.layout @l of @model on [@m] world 2 {
  // expected-error@+1 {{cuts dim 1 of @w over axis "ep", which mesh @m does not have}}
  dt.place @w [{}, {"ep"}]
}

// -----

dt.space @model {
  dt.param @w [4, 6] of <param = bf16>
}
// expected-note@+1 {{the mesh has axes}}
dt.mesh @m <["tp"=2, "one"=1]>
dt.layout @l of @model on [@m] world 2 {
  dt.place @w [{"one"}, {"one"}]
  // expected-error@+1 {{cuts twice over axis "tp", expected each axis once}}
  dt.place @w [{"tp"}, {"tp"}]
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [4, 6] of <param = bf16>
}
dt.mesh @m <["tp"=4]>
dt.layout @l of @model on [@m] world 4 {
  // expected-error@+1 {{cuts dim 1 of @w over axis "tp" into 4 equal pieces, which do not divide 6}}
  dt.place @w [{}, {"tp"}]
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [4, 6] of <param = bf16>
}
dt.mesh @m <["a"=2, "b"=2]>
dt.layout @l of @model on [@m] world 4 {
  dt.place @w [{"a", "b"}, {}]
  // expected-error@+1 {{cuts dim 1 of @w over axis "b" into 2 equal pieces, which do not divide 3}}
  dt.place @w [{}, {"a", "b"}]
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [4, 6] of <param = bf16>
}
dt.mesh @m <["pp"=2]>
dt.layout @l of @model on [@m] world 2 {
  // expected-error@+1 {{cuts dim 0 of @w over axis "pp" up to 5, but its extent is 4}}
  dt.place @w [{"pp" cuts [0, 2, 5]}, {}]
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [4, 6] of <param = bf16>
}
dt.mesh @m <["pp"=2]>
dt.layout @l of @model on [@m] world 2 {
  // expected-error@+1 {{cuts dim 0 of @w over axis "pp" into 3 pieces, but the axis has 2 coordinates}}
  dt.place @w [{"pp" cuts [0, 1, 2, 4]}, {}]
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [4, 6] of <param = bf16>
}
dt.mesh @m <["tp"=2]>
dt.layout @l of @model on [@m] world 2 {
  // expected-error@+1 {{cuts dim 1 of @w over axis "tp" in blocks of 8 altogether, but its extent is 6}}
  dt.place @w [{}, {"tp" blocks [2, 6]}]
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [4, 6] of <param = bf16>
}
dt.mesh @m <["tp"=2]>
dt.layout @l of @model on [@m] world 2 {
  // expected-error@+1 {{cuts dim 1 of @w over axis "tp" into 2 equal pieces, which do not divide 3}}
  dt.place @w [{}, {"tp" blocks [3, 3]}]
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [4, 6] of <param = bf16>
}
dt.mesh @m <["tp"=2]>
dt.layout @l of @model on [@m] world 2 {
  // expected-error@+1 {{pads dim 1 to 4, less than its size 6}}
  dt.place @w [{}, {"tp"} extent 4]
}

// -----

dt.space @model {
  dt.param @w [4, 6] of <param = bf16>
}
// expected-note@+1 {{the mesh has axes "tp"=2}}
dt.mesh @m <["tp"=2]>
dt.layout @l of @model on [@m] world 2 {
  // expected-error@+1 {{is restricted to coordinate -1 of axis "tp", expected one from 0}}
  dt.place @w [] at {"tp" = [0, -1]}
}

// -----

dt.space @model {
  // expected-note@+1 {{the param has states #dt.states<param = bf16>}}
  dt.param @w [4, 6] of <param = bf16>
}
dt.mesh @m <["tp"=2]>
dt.layout @l of @model on [@m] world 2 {
  // expected-error@+1 {{names state "master", which @w does not have}}
  dt.place @w for ["param", "master"] []
}

// -----

dt.space @model {
  dt.param @w [4, 6] of <param = bf16>
}
dt.mesh @m <["tp"=2]>
dt.layout @l of @model world 2 {
  // expected-error@+1 {{is on mesh @m, which its layout is not on}}
  dt.place @w on @m []
}

// -----

dt.space @model {
  dt.param @w [4, 6] of <param = bf16>
}
dt.layout @l of @model world 2 {
  // expected-error@+1 {{has a placement, but its layout is on no mesh}}
  dt.place @w []
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [4, 6] of <param = bf16>
}
dt.layout @l of @model world 2 {
  // expected-error@+1 {{places [0:4)x[3:9) on rank 1, outside [0:4)x[0:6)}}
  dt.place @w shards [i: 2] rank i at [0, i * 3] size [4, 6]
}

// -----

dt.space @model {
  dt.param @w [4, 6] of <param = bf16>
}
// expected-note@+1 {{the layout is here}}
dt.layout @l of @model world 2 {
  // expected-error@+1 {{names rank 2 in a world of 2}}
  dt.place @w shards rank 2 at [0, 0] size [4, 6]
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [4, 6] of <param = bf16>
}
dt.layout @l of @model world 2 {
  // expected-error@+1 {{keeps elements 0 to 25 on rank 0, but its box has 24}}
  dt.place @w shards rank 0 at [0, 0] size [4, 6] range [0, 25]
}

// -----

dt.space @model {
  dt.param @w [4, 6] of <param = bf16>
}
dt.mesh @m <["tp"=2]>
// expected-note@+1 {{in this layout}}
dt.layout @l of @model on [@m] world 2 {
  // expected-error@+1 {{is bucketed, but its layout has no 'zero' to say how}}
  dt.place @w [] bucketed
}

// -----

dt.space @model {
  dt.param @w [4, 6] of <param = bf16>
}
dt.mesh @m <["tp"=2]>
dt.layout @l of @model on [@m] world 2 {
  // expected-error@+1 {{is alone in a bucket, expected 'bucketed' too}}
  dt.place @w [] alone
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [8, 6] of <param = bf16>
}
dt.mesh @m <["tp"=2]>
dt.layout @src of @model on [@m] world 2 {
  // expected-error@+1 {{cuts dim 1 of @w over axis "tp" with 3 replicas of each piece, which do not divide its 2 coordinates}}
  dt.place @w [{}, {"tp" blocks [4, 2] replicas [1, 3]}]
}
