// Attributes that no text can make: one case each.
// RUN: dt-opt %s -split-input-file -verify-diagnostics

dt.space @model {
  // expected-error@+1 {{unknown dtype 'bf17', expected one such as bf16}}
  dt.param @w [4] of <param = bf17>
}

// -----

dt.space @model {
  // expected-error@+1 {{state "param" appears twice}}
  dt.param @w [4] of <param = bf16, param = f32>
}

// -----

// expected-error@+1 {{axis "tp" appears twice}}
dt.mesh @m <["tp"=4, "tp"=2]>

// -----

// expected-error@+1 {{axis "tp" needs a positive size, found 0}}
dt.mesh @m <["tp"=0]>

// -----

// expected-error@+1 {{found 3 devices for 4 ranks}}
dt.mesh @m <["tp"=4], devices=[0, 1, 3]>

// -----

// expected-error@+1 {{device 3 appears twice}}
dt.mesh @m <["tp"=4], devices=[0, 3, 1, 3]>

// -----

dt.layout @l of @model world 1 {
  // expected-error@+1 {{the cuts over axis "pp" decrease from 9 to 8}}
  dt.place @w [{"pp" cuts [0, 9, 8]}]
}

// -----

dt.layout @l of @model world 1 {
  // expected-error@+1 {{the cuts over axis "pp" need a 0 and an end, found 1}}
  dt.place @w [{"pp" cuts [1, 9]}]
}

// -----

dt.layout @l of @model world 1 {
  // expected-error@+1 {{axis "pp" has 3 owners for 2 pieces}}
  dt.place @w [{"pp" cuts [0, 1, 2] owners [0, 1, 0]}]
}

// -----

// expected-error@+1 {{expected a positive bucket size, found 0}}
dt.layout @l of @model world 1 zero <[] bucket 0> {
}

// -----

// expected-error@+1 {{expected positive rates}}
dt.transition @t from @a to @b cluster <8 per node, intra 0, inter 25, latency 10>

// -----

// expected-error@+1 {{expected devices per NIC that divide 8, found 3}}
dt.transition @t from @a to @b cluster <8 per node, intra 200, inter 25, latency 10, 3 per nic>

// -----

// expected-error@+1 {{expected 'flat' or 'rollback'}}
dt.transition @t from @a to @b memory <staging 64, both>

// -----

// Only flat memory comes and goes.
// expected-error@+1 {{expected '>'}}
dt.transition @t from @a to @b memory <staging 64, rollback by tensor>

// -----

// expected-error@+1 {{expected 'page' or 'tensor'}}
dt.transition @t from @a to @b memory <staging 64, flat by row>

// -----

// expected-error@+1 {{expected a page of a power of two bytes from 64 to 1073741824, found 96}}
dt.transition @t from @a to @b memory <staging 64, flat by page 96>

// -----

// expected-error@+1 {{expected 'nccl'}}
dt.transition @t from @a to @b memory <staging 64, flat over gloo>

// -----

// expected-error@+1 {{expected a page of a power of two bytes from 64 to 1073741824, found 32}}
dt.transition @t from @a to @b memory <staging 64, flat by page 32>

// -----

dt.transition @t from @a to @b {
  // expected-error@+1 {{no range is named 'k'}}
  dt.keep @w <[i: 2] on k at [0] size [4]>
}

// -----

dt.transition @t from @a to @b {
  // expected-error@+1 {{expected positive counts, found 0}}
  dt.keep @w <[i: 0] on i at [0] size [4]>
}

// -----

dt.transition @t from @a to @b {
  // expected-error@+1 {{expected positive sizes in dim 0, found 0}}
  dt.keep @w <[i: 2] on i at [0] size [i]>
}

// -----

dt.transition @t from @a to @b {
  // expected-error@+1 {{expected offsets from 0 in dim 0, found -4}}
  dt.keep @w <on 0 at [-4] size [4]>
}

// -----

dt.transition @t from @a to @b {
  // expected-error@+1 {{the offset has 2 dims but the size has 1}}
  dt.keep @w <on 0 at [0, 0] size [4]>
}

// -----

dt.transition @t from @a to @b {
  // expected-error@+1 {{the row has 4 columns, expected 6}}
  dt.keep @w <on 0 at [0, 0] size [4, 4], on 0 at [0] size [4]>
}

// -----

dt.transition @t from @a to @b {
  // expected-error@+1 {{the table has 5 integers, not a multiple of 4 columns}}
  dt.keep @w <dims 1, table "0 0 0 1; 2">
}

// -----

dt.transition @t from @a to @b {
  // expected-error@+1 {{a class of 9223372036854775807 rows makes more than the limit of 16777216}}
  dt.keep @w <[i: 4294967296, j: 4294967296] on 0 at [0] size [4]>
}

// -----

dt.transition @t from @a to @b {
  // expected-error@+1 {{column 2 of a class overflows 64 bits}}
  dt.keep @w <[i: 4] on 0 at [i * 9223372036854775807] size [4]>
}

// -----

dt.transition @t from @a to @b {
  // expected-error@+1 {{has 9 dims, more than the limit of 8}}
  dt.keep @w <dims 9>
}

// -----

dt.layout @l of @model world 1 {
  // expected-error@+1 {{axis "tp" has 1 numbers of replicas, expected one for each of 2 blocks, in equal pieces}}
  dt.place @w [{"tp" blocks [3, 3] replicas [2]}]
}

// -----

dt.layout @l of @model world 1 {
  // expected-error@+1 {{expected positive replicas on axis "tp", found 0}}
  dt.place @w [{"tp" blocks [3, 3] replicas [1, 0]}]
}

// -----

// expected-error@+1 {{expected a block from 4096 to 67108864 bytes, found 1024}}
dt.transition @t from @a to @b compression <below 0.25, block 1024>

// -----

// expected-error@+1 {{expected positive rates, found 0}}
dt.transition @t from @a to @b compression <below 0.0, block 4096>
