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
  dt.transition @transition from @source to @destination cluster <2 per node, intra 200.0, inter 25.0, latency 10.0, 2 per nic, links [device 0 to node 1 = 5.0]> memory <staging 4096, flat> {
    dt.release @rng <on 0 at [0] size [4], on 1 at [0] size [4]>
    dt.release @step <on 0 at [0] size [1], on 1 at [0] size [1]>
    dt.create @w for ["param"] <[i: 4] on i + 2 at [0, 0] size [2, 24]>
    dt.create @w for ["master"] <on 4 at [0, 0] size [1, 24], on 5 at [0, 0] size [1, 24], on 2 at [1, 0] size [1, 24], on 3 at [1, 0] size [1, 24]>
    dt.create @step <[i: 4] on i + 2 at [0] size [1]>
    dt.create @rng <[i: 4] on i + 2 at [0] size [4]>
    dt.copy @w for ["param"] <on 2 at [1, 0, 0] size [1, 4, 6], on 3 at [1, 4, 0] size [1, 4, 6]>
    dt.copy @w for ["master"] <on 2 at [1, 0, 0] size [1, 4, 6], on 3 at [1, 4, 0] size [1, 4, 6]>
    dt.copy @step <on 2 at [0] size [1], on 3 at [0] size [1]>
    dt.copy @rng <on 2 at [0, 0] size [1, 4], on 3 at [0, 0] size [1, 4]>
    dt.wave 0 slots <5 columns, (0, 2, 0, -1, 48), (2, 4, 0, 0, 60), (2, 0, 1, -1, 48), (4, 2, 1, 128, 60)> {
      dt.sendrecv @w for ["param"] <from 0 to 2 at [0, 0, 0] size [1, 4, 6], from 2 to 4 at [1, 0, 0] size [1, 4, 6]>
      dt.sendrecv @step <from 2 to 4 at [0] size [1]>
      dt.sendrecv @rng <from 2 to 4 at [0, 0] size [1, 4]>
    }
    dt.wave 1 slots <5 columns, (0, 4, 0, -1, 96), (4, 5, 0, 0, 12), (4, 0, 1, -1, 96), (5, 4, 1, 0, 12)> {
      dt.sendrecv @w for ["master"] <from 0 to 4 at [0, 0, 0] size [1, 4, 6]>
      dt.sendrecv @step <from 4 to 5 at [0] size [1]>
      dt.sendrecv @rng <from 4 to 5 at [0, 0] size [1, 4]>
    }
    dt.wave 2 slots <5 columns, (1, 5, 0, -1, 96), (5, 1, 1, -1, 96)> {
      dt.sendrecv @w for ["master"] <from 1 to 5 at [0, 4, 0] size [1, 4, 6]>
    }
    dt.wave 3 slots <5 columns, (1, 3, 0, -1, 48), (3, 5, 0, -1, 48), (3, 1, 1, -1, 48), (5, 3, 1, -1, 48)> {
      dt.sendrecv @w for ["param"] <from 1 to 3 at [0, 4, 0] size [1, 4, 6], from 3 to 5 at [1, 4, 0] size [1, 4, 6]>
    }
    dt.derive @w for ["param"] <on 4 at [0, 0, 0] size [1, 4, 6], on 5 at [0, 4, 0] size [1, 4, 6]>
    dt.release @rng <on 2 at [0] size [4], on 3 at [0] size [4]>
    dt.release @step <on 2 at [0] size [1], on 3 at [0] size [1]>
    dt.release @w for ["master"] <on 0 at [0, 0] size [1, 24], on 1 at [0, 0] size [1, 24], on 2 at [1, 0] size [1, 24], on 3 at [1, 0] size [1, 24]>
    dt.release @w for ["param"] <on 0 at [0, 0] size [1, 24], on 1 at [0, 0] size [1, 24], on 2 at [1, 0] size [1, 24], on 3 at [1, 0] size [1, 24]>
  }
}

