// The examples of the op descriptions, each of them here word for word.
// RUN: dt-opt %s -split-input-file | dt-opt -split-input-file
// RUN: %python %S/examples_run.py %dt_source_dir/include/dt/Dialect %s

dt.space @model {
  dt.param @norm [4096] of <param = bf16>
}
dt.mesh @dense <["pp"=2, "dp"=2, "tp"=2]>
dt.mesh @expert <["pp"=2, "edp"=4]>
dt.layout @src of @model on [@dense, @expert] world 8
    zero <[["dp"], ["edp"]] bucket 40000000> {
  dt.place @norm [{}]
}

// -----

dt.space @model {
  dt.param @qkv [32, 12288, 4096] of <param = bf16, master = f32>
      named "layers.{}.qkv" [0 step 1] order 7 + [263]
  dt.param @heads [32, 12288, 4096] of <param = bf16, grad = bf16>
      named "layers.{}.heads" [0]
  dt.param @norm [4096] of <param = bf16>
}
dt.mesh @dense <["pp"=2, "dp"=2, "tp"=2]>
dt.layout @src of @model on [@dense] world 8 {
  dt.place @heads on @dense for ["param", "grad"] [{"pp" cuts [0, 17, 32]}, {"tp"}, {}]
  dt.place @norm shards [i: 4] rank i at [i * 1024] size [1024]
  dt.place @qkv as <"h.{}.k" [0] order 1, [{4:5 by 6 x 2}, {0:64}]> [{}, {"tp"}, {}]
}
dt.layout @dst of @model on [@dense] world 8 {
}
dt.transition @shrink from @src to @dst
    cluster <8 per node, intra 200.0, inter 25.0, latency 10.0>
    memory <staging 1073741824, rollback>

// -----

dt.space @model {
  dt.param @proj [32, 4096, 4096] of <param = bf16> named "layers.{}.proj" [0]
  dt.param @bias [32, 4096] of <param = bf16 from master, master = f32> named "layers.{}.bias" [0]
  dt.param @norm [32, 4096] of <param = bf16> named "layers.{}.norm" [0]
}
dt.mesh @after <["dp"=2, "tp"=2]>
dt.layout @src of @model on [@after] world 4 {
}
dt.layout @dst of @model on [@after] world 4 {
}
dt.transition @routed from @src to @dst {
  dt.keep @norm <[i: 2] on i at [0, 0] size [32, 4096]>
  dt.copy @proj <[i: 32] on 0 at [i, 0, 0] size [1, 4096, 1024]>
  dt.derive @bias for ["param"] <on 3 at [0, 2048] size [32, 64]>
  dt.transfer @proj <[i: 32, j: 3] from j + 1 to 0 at [i, 0, j * 1024] size [1, 4096, 1024]> hop 0
  dt.zero @norm <on 1 at [0, 4096] size [32, 64]>
}
dt.transition @fused from @src to @dst {
  dt.collective all_gather of @proj over ["tp"] of @after
      among <2 columns, [i: 2, j: 2] (i, i * 2 + j)> {
    dt.transfer @proj <[i: 2, j: 2] from i * 2 + j to i * 2 + j * -1 + 1 at [0, 0, j * 2048] size [32, 4096, 2048]>
  }
}
dt.transition @scheduled from @src to @dst {
  dt.wave 0 slots <5 columns, [i: 3] (i + 1, 0, 0, -1, 8388608), [i: 3] (0, i + 1, 1, i * 8388608, 8388608)> {
    dt.sendrecv @proj <[i: 3] from i + 1 to 0 at [0, 0, i * 1024] size [1, 4096, 1024]>
  }
  dt.wave 1 {
    dt.library_collective broadcast among [0, 1, 2] from 0 {
      dt.sendrecv @proj <[i: 2] from 0 to i + 1 at [0, 0, 0] size [1, 4096, 1024]>
    }
  }
  dt.create @proj for ["param"] <on 0 at [0, 0] size [32, 4194304]>
  dt.release @proj for ["param"] <[i: 3] on i + 1 at [0, 0] size [32, 4194304]>
}
dt.transition @shrink from @src to @dst
dt.program @shrink device 1 source rank 1 destination rank 0 staging 8388608 {
  %new = dt.shard destination @proj <[[0:1], [0:4096], [0:512]] leading 1> : !dt.buffer<4194304>
  %slot = dt.slot at 0 : !dt.buffer<4194304>
  dt.group wave 0 {
    dt.recv %slot from 2 : !dt.buffer<4194304>
  }
  dt.unpack %slot into %new at [#dt.view<[0, 0, 0] size [1, 4096, 512]>] wave 0 : !dt.buffer<4194304> into !dt.buffer<4194304>
}
dt.program @shrink device 2 staging 16777216 {
  %old = dt.shard source @proj for ["param"] <[[0:1], [0:4096], [0:512]] leading 1> : !dt.buffer<4194304>
  %new = dt.shard destination @proj <[[0:1], [0:4096], [0:512]] leading 1> : !dt.buffer<4194304>
  %slot = dt.slot at 8388608 : !dt.buffer<4194304>
  dt.relay %slot of [@proj] at [#dt.view<[0, 0, 0] size [1, 4096, 512]>] wave 1 : !dt.buffer<4194304>
  dt.pack %old at [#dt.view<[0, 0, 0] size [1, 4096, 512]>] into %slot wave 0 : !dt.buffer<4194304> into !dt.buffer<4194304>
  dt.group wave 0 {
    dt.send %slot to 2 : !dt.buffer<4194304>
  }
  dt.group wave 1 {
    dt.send %old at <[0, 0, 0] size [1, 4096, 512]> to 0 : !dt.buffer<4194304>
  }
  dt.copy_local %old at [#dt.view<[0, 0, 0] size [1, 4096, 256]>] to %new at [#dt.view<[0, 0, 0] size [1, 4096, 256]>] : !dt.buffer<4194304> to !dt.buffer<4194304>
  dt.zero_fill %new at [#dt.view<[0, 4096, 0] size [1, 64, 512]>] : !dt.buffer<4194304>
  dt.create_shard %new at [#dt.view<[0, 0] size [1, 1048576]>] : !dt.buffer<4194304>
  dt.release_shard %old at [#dt.view<[0, 0] size [1, 1048576]>] : !dt.buffer<4194304>
}
dt.program @shrink device 1 staging 4194304 {
  %slot = dt.slot at 0 : !dt.buffer<4194304>
  dt.group wave 1 call <broadcast among [0, 1, 2] from 0 blocks 4194304> gets %slot : !dt.buffer<4194304> {
    dt.recv %slot from 0 : !dt.buffer<4194304>
  }
}
