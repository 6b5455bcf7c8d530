// What emission refuses: one case each, and it leaves no file.
// RUN: rm -f %t.dtplan
// RUN: dt-opt %s --dt-emit=output=%t.dtplan -split-input-file -verify-diagnostics
// RUN: not ls %t.dtplan

// expected-error@+1 {{module has no dt.transition to emit}}
module {
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
dt.transition @not_scheduled from @src to @dst {
  // expected-error@+1 {{is illegal at the transport level: run --dt-schedule first}}
  dt.transfer @w <from 0 to 1 at [0] size [8]>
}

// -----

dt.space @model {
  dt.param @w [8] of <param = f32>
}
dt.layout @src of @model world 1 {
  dt.place @w shards rank 0 at [0] size [8]
}
// 32 bytes before and 32 after, both held until the switch is committed.
// expected-error@+1 {{needs 64 bytes on device 0 (32 source, 32 destination, 0 staging), more than the limit of 63}}
dt.transition @device_memory from @src to @src memory <staging 0, device 63, rollback> {
  dt.keep @w <on 0 at [0] size [8]>
}
