// What the routing and transport levels refuse of ops on pieces: one case each.
// RUN: dt-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{names @a, which is not a dt.layout}}
dt.transition @t from @a to @b

// -----

dt.space @one {
}
dt.space @two {
}
dt.layout @a of @one world 1 {
}
// expected-note@+1 {{the destination is here}}
dt.layout @b of @two world 1 {
}
// expected-error@+1 {{goes from a layout of @one to one of @two, expected the same space}}
dt.transition @t from @a to @b

// -----

// expected-error@+1 {{has no dt.transition around it, expected one}}
dt.keep @w <on 0 at [0] size [4]>

// -----

dt.space @model {
  dt.param @w [4] of <param = bf16>
}
dt.layout @a of @model world 2 {
}
dt.transition @t from @a to @a {
  // expected-error@+1 {{moves @v, which space @model does not have}}
  dt.keep @v <on 0 at [0] size [4]>
}

// -----

dt.space @model {
  // expected-note@+1 {{the param has states #dt.states<param = bf16>}}
  dt.param @w [4] of <param = bf16>
}
dt.layout @a of @model world 2 {
}
dt.transition @t from @a to @a {
  // expected-error@+1 {{names state "grad", which @w does not have}}
  dt.keep @w for ["grad"] <on 0 at [0] size [4]>
}

// -----

dt.space @model {
  // expected-note@+1 {{the param has shape [4]}}
  dt.param @w [4] of <param = bf16>
}
dt.layout @a of @model world 2 {
}
dt.transition @t from @a to @a {
  // expected-error@+1 {{has pieces of 2 dims, but @w has 1}}
  dt.keep @w <on 0 at [0, 0] size [4, 4]>
}

// -----

dt.space @model {
  // expected-note@+1 {{the param has shape [4, 8]}}
  dt.param @w [4, 8] of <param = bf16>
}
dt.layout @a of @model world 2 {
}
dt.transition @t from @a to @a {
  dt.zero @w <on 0 at [4, 0] size [1, 8]>
  dt.keep @w <[i: 4, j: 2] on j at [i, j * 4] size [1, 4]>
  // expected-error@+1 {{has a piece that ends at 9 in dim 1, but @w ends at 8}}
  dt.keep @w <[i: 4, j: 2] on j at [i, j * 5] size [1, 4]>
}

// -----

dt.space @model {
  // expected-note@+1 {{the param has shape [4]}}
  dt.param @w [4] of <param = bf16>
}
dt.layout @a of @model world 2 {
}
dt.transition @t from @a to @a {
  // expected-error@+1 {{has a piece that ends at 5 in dim 0, but @w ends at 4}}
  dt.keep @w <on 0 at [0] size [4], on 1 at [3] size [2]>
}

// -----

dt.space @model {
  dt.param @w [4] of <param = bf16>
}
dt.layout @a of @model world 2 {
}
dt.layout @b of @model world 2 devices [1, 9] {
}
dt.transition @t from @a to @b {
  dt.transfer @w <from 0 to 9 at [0] size [4]>
  // expected-error@+1 {{has pieces from device 9, which is not in the source layout}}
  dt.transfer @w <from 9 to 1 at [0] size [4]>
}

// -----

dt.space @model {
  dt.param @w [4] of <param = bf16>
}
dt.layout @a of @model world 2 {
}
dt.layout @b of @model world 2 devices [1, 9] {
}
dt.transition @t from @a to @b {
  dt.transfer @w <from 9 to 1 at [0] size [4]> hop 1
  // expected-error@+1 {{has pieces to device 0, which is not in the destination layout}}
  dt.transfer @w <from 1 to 0 at [0] size [4]>
}

// -----

dt.space @model {
  dt.param @w [4] of <param = bf16>
}
dt.layout @a of @model world 2 {
}
dt.transition @t from @a to @a {
  // expected-error@+1 {{stays on one device, but a piece is from 0 to 1}}
  dt.keep @w <[i: 2] from 0 to i at [0] size [4]>
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{moves between devices, but a piece is from and to device 1}}
  dt.transfer @w <[i: 2] from 1 to i at [0] size [4]>
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{has hop 1 behind hop 1, expected them in order}}
  dt.transfer @w <from 0 to 1 at [0] size [4]> hop 1, <from 1 to 0 at [0] size [4]> hop 1
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{has pieces of 1 and of 2 dims}}
  dt.transfer @w <from 0 to 1 at [0] size [4]>, <from 1 to 0 at [0, 0] size [4, 4]> hop 1
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{has hops that are not of its pieces}}
  "dt.transfer"() <{param = @w, pieces = #dt.pieces<from 0 to 1 at [0] size [4]>, hops = array<i64: 0, 0, 1, 1, 1, 0>}> : () -> ()
}

// -----

dt.space @model {
  dt.param @w [4] of <param = bf16>
}
dt.layout @a of @model world 2 {
}
dt.layout @b of @model world 2 devices [1, 9] {
}
dt.transition @t from @a to @b {
  // expected-error@+1 {{has pieces from device 9, which is not in the source layout}}
  dt.transfer @w <from 9 to 1 at [0] size [4]>, <from 9 to 1 at [0] size [4]> hop 1
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{expected a hop from 0, found -2}}
  dt.transfer @w <from 0 to 1 at [0] size [4]> hop -2
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{expected a number from 0, found -1}}
  dt.wave -1 {
  }
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{has slots of 4 columns, expected 5: device, peer, receive, offset, bytes}}
  dt.wave 0 slots <4 columns> {
  }
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{expected slot offsets from 0, or -1 for none, found -2}}
  dt.wave 0 slots <5 columns, (0, 1, 0, -2, 8)> {
  }
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{expected 0 or 1 in column 'receive' of its slots}}
  dt.wave 0 slots <5 columns, (0, 1, 2, 0, 8)> {
  }
}

// -----

dt.transition @t from @a to @a {
  dt.wave 0 {
    // expected-error@+1 {{is not allowed in a wave, expected dt.sendrecv}}
    dt.keep @w <on 0 at [0] size [4]>
  }
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{expected a shard from 0 to 4294967295, found -2}}
  dt.release @w <on 0 at [0] size [4]> shard -2
}

// -----

// Storage has the leading dims of its param and one dim of elements.
dt.space @model {
  dt.param @w [8, 4] of <param = f32>
}
dt.layout @a of @model world 2 {
}
dt.transition @t from @a to @a {
  // expected-error@+1 {{has pieces of 2 dims, expected 1: the leading dims of @w and elements of a member's storage}}
  dt.create @w <on 0 at [0, 0] size [8, 4]>
}

// -----

dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @a of @model world 2 {
}
dt.layout @b of @model world 1 {
}
dt.transition @t from @a to @b {
  // expected-error@+1 {{has pieces from device 1, which is not in the destination layout}}
  dt.create @w <on 1 at [0] size [8]>
}

// -----

dt.space @model {
  dt.param @w [4] of <param = bf16>
}
dt.layout @a of @model world 3 {
}
dt.transition @t from @a to @a {
  dt.wave 0 {
    // expected-error@+1 {{is a scatter, expected a broadcast, an all_gather or an all_to_all}}
    dt.library_collective scatter among [0, 1] {
      dt.sendrecv @w <from 0 to 1 at [0] size [4]>
    }
  }
}

// -----

dt.space @model {
  dt.param @w [4] of <param = bf16>
}
dt.layout @a of @model world 3 {
}
dt.transition @t from @a to @a {
  dt.wave 0 {
    // expected-error@+1 {{has 1 members, expected two or more}}
    dt.library_collective all_gather among [0] {
      dt.sendrecv @w <from 0 to 1 at [0] size [4]>
    }
  }
}

// -----

dt.space @model {
  dt.param @w [4] of <param = bf16>
}
dt.layout @a of @model world 3 {
}
dt.transition @t from @a to @a {
  dt.wave 0 {
    // expected-error@+1 {{has member 0 after 1, expected ascending ones}}
    dt.library_collective all_gather among [1, 0] {
      dt.sendrecv @w <from 0 to 1 at [0] size [4]>
    }
  }
}

// -----

dt.space @model {
  dt.param @w [4] of <param = bf16>
}
dt.layout @a of @model world 3 {
}
dt.transition @t from @a to @a {
  dt.wave 0 {
    // expected-error@+1 {{is from 2, expected a member}}
    dt.library_collective broadcast among [0, 1] from 2 {
      dt.sendrecv @w <from 0 to 1 at [0] size [4]>
    }
  }
}

// -----

dt.space @model {
  dt.param @w [4] of <param = bf16>
}
dt.layout @a of @model world 3 {
}
dt.transition @t from @a to @a {
  dt.wave 0 {
    // expected-error@+1 {{is from 1, which only a broadcast is}}
    dt.library_collective all_gather among [0, 1] from 1 {
      dt.sendrecv @w <from 0 to 1 at [0] size [4]>
    }
  }
}

// -----

dt.space @model {
  dt.param @w [4] of <param = bf16>
}
dt.layout @a of @model world 3 {
}
dt.transition @t from @a to @a {
  dt.wave 0 {
    dt.library_collective all_gather among [0, 1] {
      // expected-error@+1 {{goes from device 0 to 2, which are not both members}}
      dt.sendrecv @w <from 0 to 2 at [0] size [4]>
    }
  }
}

// -----

dt.space @model {
  dt.param @w [4] of <param = bf16>
}
dt.layout @a of @model world 3 {
}
dt.transition @t from @a to @a {
  dt.wave 0 {
    dt.library_collective all_gather among [0, 1] {
      // expected-error@+1 {{is relayed in a library's collective}}
      dt.sendrecv @w <from 0 to 1 at [0] size [4]> to_relay
    }
  }
}

// -----

dt.space @model {
  dt.param @w [4] of <param = bf16>
}
dt.layout @a of @model world 3 {
}
dt.transition @t from @a to @a {
  dt.wave 0 {
    // expected-error@+1 {{moves nothing, expected at least one dt.sendrecv}}
    dt.library_collective all_gather among [0, 1] {
    }
  }
}
