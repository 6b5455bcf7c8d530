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

// -----

// A library's collectives.
dt.program @t device 0 staging 1024 {
  // expected-error@+1 {{a call is a scatter, expected a broadcast, an all_gather or an all_to_all}}
  dt.group wave 0 call <scatter among [0, 1] blocks 128> {
  }
}

// -----

dt.program @t device 0 staging 1024 {
  // expected-error@+1 {{expected 'scatter', 'gather', 'all_to_all', 'broadcast' or 'all_gather', found 'reduce'}}
  dt.group wave 0 call <reduce among [0, 1] blocks 128> {
  }
}

// -----

dt.program @t device 0 staging 1024 {
  // expected-error@+1 {{a call has 1 members, expected two or more}}
  dt.group wave 0 call <all_gather among [0] blocks 128> {
  }
}

// -----

dt.program @t device 0 staging 1024 {
  // expected-error@+1 {{a call has member 1 after 1, expected ascending ones}}
  dt.group wave 0 call <all_gather among [0, 1, 1] blocks 128> {
  }
}

// -----

dt.program @t device 0 staging 1024 {
  // expected-error@+1 {{a call has members from -1 to 0, expected 0 to 2147483647}}
  dt.group wave 0 call <all_gather among [-1, 0] blocks 128> {
  }
}

// -----

dt.program @t device 0 staging 1024 {
  // expected-error@+1 {{a call is from 2, expected a member}}
  dt.group wave 0 call <broadcast among [0, 1] from 2 blocks 128> {
  }
}

// -----

dt.program @t device 0 staging 1024 {
  // expected-error@+1 {{a call is from 1, which only a broadcast is}}
  dt.group wave 0 call <all_to_all among [0, 1] from 1 blocks 128> {
  }
}

// -----

dt.program @t device 0 staging 1024 {
  // expected-error@+1 {{a call has blocks of 0 bytes, expected 1 to 576460752303423488}}
  dt.group wave 0 call <all_gather among [0, 1] blocks 0> {
  }
}

// -----

dt.program @t device 0 staging 1024 {
  // expected-error@+1 {{a call has blocks of 576460752303423489 bytes, expected 1 to 576460752303423488}}
  dt.group wave 0 call <all_gather among [0, 1] blocks 576460752303423489> {
  }
}

// -----

dt.program @t device 0 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  // expected-error@+1 {{gives or gets blocks, expected a call}}
  dt.group wave 0 gets %a : !dt.buffer<128> {
  }
}

// -----

dt.program @t device 3 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  // expected-error@+1 {{is a call of which device 3 is no member}}
  dt.group wave 0 call <broadcast among [0, 1] from 0 blocks 128> gets %a : !dt.buffer<128> {
  }
}

// -----

dt.program @t device 0 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  // expected-error@+1 {{gives 0 bytes, expected 128: the blocks of device 0 in this broadcast}}
  dt.group wave 0 call <broadcast among [0, 1] from 0 blocks 128> gets %a : !dt.buffer<128> {
  }
}

// -----

dt.program @t device 0 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  // expected-error@+1 {{gets 128 bytes, expected 0: the blocks of device 0 in this broadcast}}
  dt.group wave 0 call <broadcast among [0, 1] from 0 blocks 128> gives %a : !dt.buffer<128> gets %a : !dt.buffer<128> {
  }
}

// -----

dt.program @t device 0 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  %b = dt.slot at 128 : !dt.buffer<256>
  // expected-error@+1 {{gives 128 bytes, expected 256: the blocks of device 0 in this all_to_all}}
  dt.group wave 0 call <all_to_all among [0, 1] blocks 128> gives %a : !dt.buffer<128> gets %b : !dt.buffer<256> {
  }
}

// -----

dt.program @t device 0 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  // expected-error@+1 {{gets 128 bytes, expected 256: the blocks of device 0 in this all_gather}}
  dt.group wave 0 call <all_gather among [0, 1] blocks 128> gives %a : !dt.buffer<128> gets %a : !dt.buffer<128> {
  }
}

// -----

dt.program @t device 0 staging 1024 {
  %new = dt.shard destination @w <[[0:64]]> : !dt.buffer<128>
  // expected-error@+1 {{gets a shard, expected a slot}}
  dt.group wave 0 call <broadcast among [0, 1] from 1 blocks 128> gets %new : !dt.buffer<128> {
  }
}

// -----

dt.program @t device 0 staging 1024 {
  %a = dt.slot at 0 : !dt.buffer<128>
  dt.group wave 0 call <broadcast among [0, 1] from 0 blocks 128> gives %a : !dt.buffer<128> {
    // expected-error@+1 {{is with device 2, which is no member of the call}}
    dt.send %a to 2 : !dt.buffer<128>
  }
}

// -----

dt.program @t device 0 staging 1024 {
  %old = dt.shard source @w <[[0:64]]> : !dt.buffer<128>
  %a = dt.slot at 0 : !dt.buffer<128>
  dt.group wave 0 call <broadcast among [0, 1] from 0 blocks 128> gives %a : !dt.buffer<128> {
    // expected-error@+1 {{names a shard in a call, expected a slot}}
    dt.send %old at <[0] size [4]> to 1 : !dt.buffer<128>
  }
}
