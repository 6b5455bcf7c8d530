module {
  dt.space @model {
    dt.param @layers.0.w [4, 6] of <param = f32> order 0
  }
  dt.mesh @source_dense <[]>
  dt.layout @source of @model on [@source_dense] world 1 {
    dt.place @layers.0.w [{}, {}]
  }
  dt.mesh @destination_dense <["tp"=2]>
  dt.layout @destination of @model on [@destination_dense] world 2 {
    dt.place @layers.0.w [{"tp"}, {}]
  }
  dt.transition @transition from @source to @destination cluster <8 per node, intra 200.0, inter 25.0, latency 10.0> memory <staging 1048576, rollback> {
    dt.copy @layers.0.w <on 0 at [0, 0] size [2, 6]>
    dt.wave 0 slots <5 columns, (0, 1, 0, -1, 48), (1, 0, 1, -1, 48)> {
      dt.sendrecv @layers.0.w <from 0 to 1 at [2, 0] size [2, 6]>
    }
  }
}

