module {
  dt.space @model {
    dt.param @w [2, 8, 6] of <param = bf16 from master, master = f32> named "layers.{}.w" [0] order 0 + [1]
    dt.param @step [1] of <param = i64> order 2
    dt.param @rng [1, 4] of <param = u8> order 3
  }
  dt.mesh @source_dense <["pp"=2, "tp"=2]>
  dt.layout @source of @model on [@source_dense] world 4 {
    dt.place @w [{"pp" cuts [0, 1, 2]}, {"tp"}, {}]
    dt.place @step shards [i: 4] rank i at [0] size [1]
    dt.place @rng shards [i: 4] rank i at [0, 0] size [1, 4]
  }
  dt.mesh @destination_dense <["dp"=2, "tp"=2], devices=[2, 3, 4, 5]>
  dt.layout @destination of @model on [@destination_dense] world 4 devices [2, 3, 4, 5] zero <[["dp"]] bucket 40000000> {
    dt.place @w for ["param"] [{}, {"tp"}, {}]
    dt.place @w for ["master"] [{}, {"tp"}, {}] bucketed
    dt.place @step shards [i: 4] rank i at [0] size [1]
    dt.place @rng shards [i: 4] rank i at [0, 0] size [1, 4]
  }
  dt.transition @transition from @source to @destination cluster <2 per node, intra 200.0, inter 25.0, latency 10.0, 2 per nic, links [device 0 to node 1 = 5.0]> memory <staging 4096, flat>
}

