// What the program level refuses: one case each.
// RUN: dt-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{is of @t, which is not a dt.transition}}
dt.program @t device 0 {
}

// -----

// expected-error@+1 {{expected a device from 0, found -1}}
dt.program @t device -1 {
}

// -----

dt.program @t device 0 {
  // expected-error@+1 {{is not allowed in a program, expected an op of the program level}}
  builtin.module {
  }
}

// -----

dt.program @t device 0 {
  dt.group wave 2 {
  }
  // expected-error@+1 {{is of wave 2, expected one after 2}}
  dt.group wave 2 {
  }
}

// -----

// expected-note@+1 {{the program is here}}
dt.program @t device 0 staging 64 {
  // expected-error@+1 {{of 32 bytes at 40 leaves the staging of 64 bytes}}
  %slot = dt.slot at 40 : !dt.buffer<32>
}

// -----

dt.program @t device 0 staging 64 {
  %slot = dt.slot at 0 : !dt.buffer<64>
  dt.group wave 0 {
    // expected-note@+1 {{the first is here}}
    dt.send %slot to 1 : !dt.buffer<64>
    dt.recv %slot from 1 : !dt.buffer<64>
    // expected-error@+1 {{is the second in its group with peer 1, expected one message per peer and direction}}
    dt.send %slot to 1 : !dt.buffer<64>
  }
}

// -----

dt.program @t device 0 {
  %new = dt.shard destination @w <[[0:4]]> : !dt.buffer<8>
  dt.group wave 0 {
    // expected-error@+1 {{names a shard, expected 'at' and a view of it}}
    dt.recv %new from 1 : !dt.buffer<8>
  }
}

// -----

dt.program @t device 0 staging 8 {
  %slot = dt.slot at 0 : !dt.buffer<8>
  dt.group wave 0 {
    // expected-error@+1 {{names a slot, expected no view}}
    dt.recv %slot at <[0] size [4]> from 1 : !dt.buffer<8>
  }
}

// -----

dt.program @t device 0 {
  %new = dt.shard destination @w <[[0:4]]> : !dt.buffer<8>
  // expected-error@+1 {{has 2 views of 1 shards, expected one each}}
  dt.zero_fill %new at [#dt.view<[0] size [1]>, #dt.view<[1] size [1]>] : !dt.buffer<8>
}

// -----

dt.program @t device 0 {
  %new = dt.shard destination @w <[[0:4]]> : !dt.buffer<8>
  // expected-error@+1 {{has a view of 2 dims in a shard of 1}}
  dt.zero_fill %new at [#dt.view<[0, 0] size [1, 1]>] : !dt.buffer<8>
}

// -----

dt.program @t device 0 {
  %new = dt.shard destination @w <[[0:4]]> : !dt.buffer<8>
  // expected-error@+1 {{expected shards of the source}}
  dt.release_shard %new at [#dt.view<[0] size [4]>] : !dt.buffer<8>
}

// -----

dt.program @t device 0 {
  %new = dt.shard destination @w <[[0:4]]> : !dt.buffer<8>
  // expected-error@+1 {{has a view of 2 dims, expected the 0 leading dims of its shard and one of elements}}
  dt.create_shard %new at [#dt.view<[0, 0] size [1, 4]>] : !dt.buffer<8>
}

// -----

// expected-error@+1 {{expected ranks from 0, found -3}}
dt.program @t device 0 source rank -3 {
}

// -----

dt.program @t device 0 {
  // expected-error@+1 {{expected non-empty intervals from 0, found 4:4}}
  %new = dt.shard destination @w <[[4:4]]> : !dt.buffer<8>
}

// -----

dt.space @model {
  // expected-note@+1 {{the param is here}}
  dt.param @w [4, 4] of <param = bf16>
}
dt.layout @a of @model world 1 {
}
dt.transition @t from @a to @a
dt.program @t device 0 {
  // expected-error@+1 {{has 1 dims, but @w has 2}}
  %new = dt.shard destination @w <[[0:4]]> : !dt.buffer<8>
}

// -----

// A side as the generic form has it; 256 has the low bits of a source.
dt.program @t device 0 {
  // expected-error@+1 {{expected side 0 (source) or 1 (destination), found 256 : i16}}
  %new = "dt.shard"() <{side = 256 : i16, param = @w, shard = #dt.shard<[[0:4]]>}> : () -> !dt.buffer<8>
}

// -----

dt.program @t device 0 {
  // expected-error@+1 {{expected side 0 (source) or 1 (destination), found "source"}}
  %new = "dt.shard"() <{side = "source", param = @w, shard = #dt.shard<[[0:4]]>}> : () -> !dt.buffer<8>
}

// -----

dt.program @t device 0 {
  // expected-error@+2 {{expected 'source' or 'destination', found 'middle'}}
  // expected-error@+1 {{invalid value for property side}}
  %new = dt.shard middle @w <[[0:4]]> : !dt.buffer<8>
}

// -----

dt.program @t device 0 staging 8 {
  %slot = dt.slot at 0 : !dt.buffer<8>
  // expected-error@+1 {{has 1 views of 2 params, expected one each}}
  dt.relay %slot of [@w, @v] at [#dt.view<[0] size [4]>] : !dt.buffer<8>
}

// -----

dt.program @t device 0 staging 8 {
  %new = dt.shard destination @w <[[0:4]]> : !dt.buffer<8>
  // expected-error@+1 {{names a shard, expected a slot}}
  dt.relay %new of [@w] at [#dt.view<[0] size [4]>] : !dt.buffer<8>
}

// -----

dt.space @model {
  dt.param @w [4, 4] of <param = bf16>
}
dt.layout @a of @model world 1 {
}
dt.transition @t from @a to @a
dt.program @t device 0 staging 8 {
  %slot = dt.slot at 0 : !dt.buffer<8>
  // expected-error@+1 {{is of @v, which space @model does not have}}
  dt.relay %slot of [@v] at [#dt.view<[0] size [4]>] : !dt.buffer<8>
}

// -----

dt.space @model {
  dt.param @w [4, 4] of <param = bf16>
}
dt.layout @a of @model world 1 {
}
dt.transition @t from @a to @a
dt.program @t device 0 staging 8 {
  %slot = dt.slot at 0 : !dt.buffer<8>
  // expected-error@+1 {{has a view of 1 dims, but @w has 2}}
  dt.relay %slot of [@w] at [#dt.view<[0] size [4]>] : !dt.buffer<8>
}
