// What a collective must be: one case each.
// RUN: dt-opt %s -split-input-file -verify-diagnostics

dt.space @model {
  dt.param @w [64] of <param = bf16>
  dt.param @v [64] of <param = bf16>
}
dt.mesh @m <["tp"=4]>
dt.layout @a of @model on [@m] world 4 {
}
dt.transition @ok from @a to @a {
  dt.collective scatter of @w over ["tp"] of @m among <2 columns, [i: 4] (0, i)> from <2 columns, (0, 0)> {
    dt.transfer @w <[i: 3] from 0 to i + 1 at [i * 16] size [16]>
  }
}
dt.transition @twice from @a to @a {
  // expected-error@+1 {{has device 1 as a member twice, expected once}}
  dt.collective scatter of @w among <2 columns, (0, 0), (0, 1), (0, 1)> {
    dt.transfer @w <from 0 to 1 at [0] size [16]>
  }
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{has members of 3 columns, expected 2: group, device}}
  dt.collective scatter of @w among <3 columns, (0, 0, 1)> {
    dt.transfer @w <from 0 to 1 at [0] size [16]>
  }
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{has a group 0 of 1 member, expected 2 or more}}
  dt.collective scatter of @w among <2 columns, (0, 0)> {
    dt.transfer @w <from 0 to 1 at [0] size [16]>
  }
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{has a group 1 but none 0, expected groups from 0 on}}
  dt.collective scatter of @w among <2 columns, (1, 0), (1, 1)> {
    dt.transfer @w <from 0 to 1 at [0] size [16]>
  }
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{is from device 3 of group 0, which is no member of it}}
  dt.collective scatter of @w among <2 columns, (0, 0), (0, 1)> from <2 columns, (0, 3)> {
    dt.transfer @w <from 0 to 1 at [0] size [16]>
  }
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{is a scatter, of which nothing is passed on: expected no 'two_level'}}
  dt.collective scatter two_level of @w among <2 columns, (0, 0), (0, 1)> {
    dt.transfer @w <from 0 to 1 at [0] size [16]>
  }
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{has no transfers, expected at least one}}
  dt.collective scatter of @w among <2 columns, (0, 0), (0, 1)> {
  }
}

// -----

dt.transition @t from @a to @a {
  dt.collective scatter of @w among <2 columns, (0, 0), (0, 1)> {
    // expected-error@+1 {{is not allowed in a collective, expected dt.transfer}}
    dt.copy @w <on 0 at [0] size [16]>
  }
}

// -----

dt.transition @t from @a to @a {
  dt.collective scatter of @w among <2 columns, (0, 0), (0, 1)> {
    // expected-error@+1 {{is of another param or other states than the collective around it, which is of @w}}
    dt.transfer @v <from 0 to 1 at [0] size [16]>
  }
}

// -----

dt.transition @t from @a to @a {
  dt.collective scatter of @w among <2 columns, (0, 0), (0, 1)> {
    // expected-error@+1 {{goes from device 0 to 2, which are not members of one group}}
    dt.transfer @w <from 0 to 2 at [0] size [16]>
  }
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{is a broadcast, but in its group 0 device 0 sends at hop 0 and is not in 'from'}}
  dt.collective broadcast of @w among <2 columns, [i: 3] (0, i)> from <2 columns, (0, 1)> {
    dt.transfer @w <from 0 to 2 at [0] size [16]>
  }
}

// -----

// Two members of three.
dt.transition @t from @a to @a {
  // expected-error@+1 {{is a broadcast, but in its group 0 device 2 neither has nor gets anything}}
  dt.collective broadcast of @w among <2 columns, [i: 3] (0, i)> from <2 columns, (0, 0)> {
    dt.transfer @w <from 0 to 1 at [0] size [16]>
  }
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{is a broadcast, but some devices get more than others}}
  dt.collective broadcast of @w among <2 columns, [i: 3] (0, i)> from <2 columns, (0, 0)> {
    dt.transfer @w <from 0 to 1 at [0] size [16], from 0 to 2 at [0] size [8]>
  }
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{is a gather, but in its group 0 2 devices receive, expected one}}
  dt.collective gather of @w among <2 columns, [i: 3] (0, i)> from <2 columns, (0, 2)> {
    dt.transfer @w <from 2 to 1 at [0] size [16], from 2 to 0 at [16] size [16]>
  }
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{is a all_gather, but in its group 0 one device is in 'from', expected 2 or more}}
  dt.collective all_gather of @w among <2 columns, [i: 3] (0, i)> from <2 columns, (0, 0)> {
    dt.transfer @w <from 0 to 1 at [0] size [16], from 0 to 2 at [0] size [16]>
  }
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{is a all_to_all, but in its group 0 device 0 sends nothing to device 2}}
  dt.collective all_to_all of @w among <2 columns, [i: 3] (0, i)> from <2 columns, (0, 0), (0, 1)> {
    dt.transfer @w <from 0 to 1 at [0] size [16], from 1 to 2 at [16] size [16]>
  }
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{has parts of several sizes, expected 'uneven'}}
  dt.collective scatter of @w among <2 columns, [i: 3] (0, i)> from <2 columns, (0, 0)> {
    dt.transfer @w <from 0 to 1 at [0] size [16], from 0 to 2 at [16] size [8]>
  }
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+1 {{has parts of one size, expected no 'uneven'}}
  dt.collective scatter uneven of @w among <2 columns, [i: 3] (0, i)> from <2 columns, (0, 0)> {
    dt.transfer @w <from 0 to 1 at [0] size [16], from 0 to 2 at [16] size [16]>
  }
}

// -----

dt.transition @t from @a to @a {
  // expected-error@+2 {{invalid value for property kind}}
  // expected-error@+1 {{expected 'scatter', 'gather', 'all_to_all', 'broadcast' or 'all_gather', found 'reduce'}}
  dt.collective reduce of @w among <2 columns, (0, 0), (0, 1)> {
  }
}

// -----

dt.space @model {
  dt.param @w [64] of <param = bf16>
}
dt.mesh @m <["tp"=4]>
dt.layout @a of @model on [@m] world 4 {
}
dt.transition @t from @a to @a {
  // expected-error@+1 {{is over axis "dp", which mesh @m does not have}}
  dt.collective scatter of @w over ["dp"] of @m among <2 columns, [i: 2] (0, i)> from <2 columns, (0, 0)> {
    dt.transfer @w <from 0 to 1 at [0] size [16]>
  }
}
