// What would be too much to enumerate, or to count, is refused where it is
// written, before anything of it is built.
// RUN: dt-opt %s -split-input-file -verify-diagnostics

dt.space @model {
  // expected-error@+1 {{has more bytes, all states together, than the limit of 1152921504606846976}}
  dt.param @w [4, 9007199254740992, 8192] of <param = f32>
}

// -----

// expected-error@+1 {{has more bytes, all states together, than the limit of 1152921504606846976}}
dt.space @model {
  dt.param @w [4, 72057594037927936] of <param = f32>
  dt.param @v [4, 9007199254740992] of <param = bf16>
}

// -----

dt.space @model {
  // expected-error@+1 {{is a family of 4294967296 tensors, more than the limit of 262144}}
  dt.param @w [65536, 65536] of <param = f32> named "l.{}.{}" [0, 0]
}

// -----

dt.space @model {
  // expected-note@+1 {{the first time is here}}
  dt.param @w [2, 8] of <param = f32> named "l.{}.w" [0]
  // expected-error@+1 {{names tensor 'l.1.w' a second time}}
  dt.param @v [8] of <param = f32> named "l.1.w"
}

// -----

// Numbers of other intervals and of other remainders, then 2 once more.
dt.space @model {
  dt.param @a [3, 8] of <param = f32> named "l.{}.w" [0 step 2]
  dt.param @b [3, 8] of <param = f32> named "l.{}.w" [1 step 2]
  dt.param @c [3, 8] of <param = f32> named "l.{}.w" [8 step -1]
  dt.param @d [2, 3, 8] of <param = f32> named "l.{}.{}.w" [0, 0]
  dt.param @e [2, 3, 8] of <param = f32> named "l.{}.{}.w" [0, 3]
}

// -----

// 1, 4 and 7; 2, 4 and 6.
dt.space @model {
  // expected-note@+1 {{the first time is here}}
  dt.param @w [3, 8] of <param = f32> named "l.{}.w" [1 step 3]
  // expected-error@+1 {{names tensor 'l.4.w' a second time}}
  dt.param @v [3, 8] of <param = f32> named "l.{}.w" [2 step 2]
}

// -----

// 1, 4, 5 and 9 as listed; 0, 2, 3, 6 and 7, and 8 and 10, are none of them, 9 is.
dt.space @model {
  // expected-note@+1 {{the first time is here}}
  dt.param @a [4, 8] of <param = f32> named "l.{}.w" [{1, 4, 5, 9}]
  dt.param @b [5, 8] of <param = f32> named "l.{}.w" [{0, 2, 3, 6, 7}]
  dt.param @c [2, 8] of <param = f32> named "l.{}.w" [8 step 2]
  // expected-error@+1 {{names tensor 'l.9.w' a second time}}
  dt.param @d [2, 8] of <param = f32> named "l.{}.w" [9 step 2]
}

// -----

// Downwards: 9 and 7; 8 and 7.
dt.space @model {
  // expected-note@+1 {{the first time is here}}
  dt.param @w [2, 8] of <param = f32> named "l.{}.w" [9 step -2]
  // expected-error@+1 {{names tensor 'l.7.w' a second time}}
  dt.param @v [2, 8] of <param = f32> named "l.{}.w" [8 step -1]
}

// -----

// A sign before a number, and the number of a hole.
dt.space @model {
  // expected-note@+1 {{the first time is here}}
  dt.param @w [3, 8] of <param = f32> named "l.{}.w" [-1]
  // expected-error@+1 {{names tensor 'l.-1.w' a second time}}
  dt.param @v [2, 8] of <param = f32> named "l.-{}.w" [1]
}

// -----

// A number, and what merely looks like one.
dt.space @model {
  dt.param @w [3, 8] of <param = f32> named "l.{}.w" [5]
  // expected-note@+1 {{the first time is here}}
  dt.param @v [8] of <param = f32> named "l.07.w"
  // expected-error@+1 {{names tensor 'l.07.w' a second time}}
  dt.param @u [8] of <param = f32> named "l.07.w"
}

// -----

// Numbers that touch: 1 and 11, 11 and 1.
dt.space @model {
  // expected-note@+2 {{the first time is here}}
  // expected-error@+1 {{names tensor 'l.111.w' a second time}}
  dt.param @w [11, 12, 8] of <param = f32> named "l.{}{}.w" [1, 1]
}

// -----

dt.space @model {
  // expected-note@+1 {{the first time is here}}
  dt.param @w [2, 3, 8] of <param = f32> named "l.{}.{}.w" [0, 0]
  // expected-error@+1 {{names tensor 'l.1.0.w' a second time}}
  dt.param @v [3, 8] of <param = f32> named "l.1.{}.w" [0]
}

// -----

dt.space @model {
  // expected-error@+1 {{has 1 {} in its name, expected one for each of 0 leading dims}}
  dt.param @"w{}" [4, 6] of <param = f32>
}

// -----

dt.space @model {
  // expected-error@+1 {{has a name that is no UTF-8 at byte 1}}
  dt.param @"w\FF" [4, 6] of <param = f32>
}

// -----

dt.space @model {
  dt.param @v [32, 32] of <param = f32>
}
dt.layout @dst of @model world 4 {
  // expected-error@+1 {{a class of 4294967296 rows makes more than the limit of 16777216}}
  dt.place @v shards [i: 4294967296] rank i at [0, i * 8] size [32, 8]
}

// -----

dt.space @model {
  dt.param @v [8388608] of <param = f32>
}
dt.layout @dst of @model world 4 {
  // expected-error@+1 {{has 8388608 rows, more than the limit of 4194304}}
  dt.place @v shards [i: 8388608] rank 0 at [i] size [1]
}

// -----

// expected-error@+1 {{the mesh has more ranks than the limit of 131072}}
dt.mesh @dense <["tp"=4294967296]>

// -----

// expected-error@+1 {{expected devices up to 2147483647, found 4294967296}}
dt.mesh @dense <["tp"=2], devices=[0, 4294967296]>

// -----

dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
// expected-error@+1 {{expected rates from 1.000000e-06 to 1.000000e+06, found 4.940656e-324}}
dt.transition @t from @src to @src cluster <8 per node, intra 5.0e-324, inter 25.0, latency 10.0>

// -----

dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @dst {
  // expected-error@+1 {{expected a number from 0 to 2147483647, found 4294967297}}
  dt.wave 4294967297 slots <5 columns, (0, 1, 0, -1, 32), (1, 0, 1, -1, 32)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
}

// -----

dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.layout @dst of @model world 1 devices [1] {
  dt.place @w shards rank 0 at [0] size [8]
}
dt.transition @t from @src to @dst {
  // expected-error@+1 {{expected slot offsets and bytes up to 1152921504606846976, found 9223372036854775800}}
  dt.wave 0 slots <5 columns, (0, 1, 0, 9223372036854775800, 32), (1, 0, 1, 0, 32)> {
    dt.sendrecv @w <from 0 to 1 at [0] size [8]>
  }
}
