// States that cannot be as they say are refused.
// RUN: dt-opt %s -split-input-file -verify-diagnostics

dt.space @model {
  // expected-error@+1 {{state "param" cannot change from bf16 to i64}}
  dt.param @w [8] of <param = bf16 -> i64>
}

// -----

dt.space @model {
  // expected-error@+1 {{state "param" is not in the source and made from no other state}}
  dt.param @w [8] of <param = none -> bf16>
}

// -----

dt.space @model {
  // expected-error@+1 {{state "param" is made from 'master', which is not another state of the source}}
  dt.param @w [8] of <param = none -> bf16 from master>
}

// -----

dt.space @model {
  // expected-error@+1 {{state "param" exists on neither side}}
  dt.param @w [8] of <param = none>
}

// -----

dt.space @model {
  // expected-error@+1 {{state "param" may be made from 'master', but is rounded differently when it is sent}}
  dt.param @w [8] of <param = bf16 -> f32 from master, master = f32>
}
