// A tensor of 39 GB that is forwarded in very many pieces: what each waits
// for is looked up, not searched for among all that came before. It takes a second
// of a processor; when it was searched for, eight.
// RUN: not bash -c "ulimit -t 5; exec dt-opt %s -o %t.dtplan" 2>&1 | FileCheck %s

// Of one eight times as large, no route is timed whose schedule has more pieces
// than comparing routes is worth: that took seven seconds, and now 0.2.
// RUN: sed 's/536870912/4294967296/' %s > %t.mlir
// RUN: not bash -c "ulimit -t 2; exec dt-opt %t.mlir -o %t.dtplan" 2>&1 | FileCheck %s

// CHECK: error: 'dt.transition' op cannot hold to the larger of source and destination plus 16384 bytes (memory.staging) by tensor, the smallest limit that works is

module {
  dt.space @model {
    dt.param @embed.weight [9, 1] of <param = f32>
    dt.param @h.0.norm.weight [1] of <param = f32> storage "*0*"
    dt.param @h.0.attn.proj.weight [1, 6] of <param = f32> storage "*0*"
    dt.param @h.0.experts.0.up.weight [18, 1] of <param = f32> storage "*0*"
    dt.param @h.0.experts.0.down.weight [1, 9] of <param = f32> storage "*0*"
    dt.param @h.0.experts.1.up.weight [18, 1] of <param = f32> storage "*0*"
    dt.param @h.0.experts.1.down.weight [1, 9] of <param = f32> storage "*0*"
    dt.param @h.0.experts.2.up.weight [18, 1] of <param = f32> storage "*0*"
    dt.param @h.0.experts.2.down.weight [1, 9] of <param = f32> storage "*0*"
    dt.param @h.0.experts.3.up.weight [18, 1] of <param = f32> storage "*0*"
    dt.param @h.0.experts.3.down.weight [1, 9] of <param = f32> storage "*0*"
    dt.param @h.0.experts.4.up.weight [18, 1] of <param = f32> storage "*0*"
    dt.param @h.0.experts.4.down.weight [1, 9] of <param = f32> storage "*0*"
    dt.param @h.0.experts.5.up.weight [18, 1] of <param = f32> storage "*0*"
    dt.param @h.0.experts.5.down.weight [1, 9] of <param = f32> storage "*0*"
    dt.param @h.0.experts.6.up.weight [18, 1] of <param = f32> storage "*0*"
    dt.param @h.0.experts.6.down.weight [1, 9] of <param = f32> storage "*0*"
    dt.param @h.0.experts.7.up.weight [18, 1] of <param = f32> storage "*0*"
    dt.param @h.0.experts.7.down.weight [1, 9] of <param = f32> storage "*0*"
    dt.param @h.0.experts.8.up.weight [18, 536870912] of <param = f32> storage "*0*"
    dt.param @h.0.experts.8.down.weight [1, 9] of <param = f32> storage "*0*"
    dt.param @h.0.experts.9.up.weight [18, 1] of <param = f32> storage "*0*"
    dt.param @h.0.experts.9.down.weight [1, 9] of <param = f32> storage "*0*"
    dt.param @h.0.experts.10.up.weight [18, 1] of <param = f32> storage "*0*"
    dt.param @h.0.experts.10.down.weight [1, 9] of <param = f32> storage "*0*"
    dt.param @h.0.experts.11.up.weight [18, 1] of <param = f32> storage "*0*"
    dt.param @h.0.experts.11.down.weight [1, 9] of <param = f32> storage "*0*"
    dt.param @h.1.norm.weight [1] of <param = f32>
    dt.param @h.1.attn.proj.weight [1, 6] of <param = f32>
    dt.param @h.1.experts.0.up.weight [18, 1] of <param = f32> storage "*0*"
    dt.param @h.1.experts.0.down.weight [1, 9] of <param = f32> storage "*0*"
    dt.param @h.1.experts.1.up.weight [18, 1] of <param = f32>
    dt.param @h.1.experts.1.down.weight [1, 9] of <param = f32>
    dt.param @h.1.experts.2.up.weight [18, 1] of <param = f32>
    dt.param @h.1.experts.2.down.weight [1, 9] of <param = f32>
    dt.param @h.1.experts.3.up.weight [18, 1] of <param = f32>
    dt.param @h.1.experts.3.down.weight [1, 9] of <param = f32>
    dt.param @h.1.experts.4.up.weight [18, 1] of <param = f32>
    dt.param @h.1.experts.4.down.weight [1, 9] of <param = f32>
    dt.param @h.1.experts.5.up.weight [18, 1] of <param = f32>
    dt.param @h.1.experts.5.down.weight [1, 9] of <param = f32>
    dt.param @h.1.experts.6.up.weight [18, 1] of <param = f32>
    dt.param @h.1.experts.6.down.weight [1, 9] of <param = f32>
    dt.param @h.1.experts.7.up.weight [18, 1] of <param = f32>
    dt.param @h.1.experts.7.down.weight [1, 9] of <param = f32>
    dt.param @h.1.experts.8.up.weight [18, 1] of <param = f32>
    dt.param @h.1.experts.8.down.weight [1, 9] of <param = f32>
    dt.param @h.1.experts.9.up.weight [18, 1] of <param = f32>
    dt.param @h.1.experts.9.down.weight [1, 9] of <param = f32>
    dt.param @h.1.experts.10.up.weight [18, 1] of <param = f32> storage "*0*"
    dt.param @h.1.experts.10.down.weight [1, 9] of <param = f32> storage "*0*"
    dt.param @h.1.experts.11.up.weight [18, 1] of <param = f32>
    dt.param @h.1.experts.11.down.weight [1, 9] of <param = f32>
    dt.param @final.weight [1] of <param = f32>
    dt.param @head.bias [3] of <param = f32>
    dt.param @extra0 [1, 1, 5] of <param = u8> partial
  }
  dt.mesh @source_dense <["dp"=2], devices=[3, 6]>
  dt.layout @source of @model on [@source_dense] world 2 devices [3, 6] {
    dt.place @embed.weight [{}, {}]
    dt.place @h.0.norm.weight [{}]
    dt.place @h.0.attn.proj.weight [{}, {}]
    dt.place @h.0.experts.0.up.weight [{}, {}]
    dt.place @h.0.experts.0.down.weight [{}, {}]
    dt.place @h.0.experts.1.up.weight [{}, {}]
    dt.place @h.0.experts.1.down.weight [{}, {}]
    dt.place @h.0.experts.2.up.weight [{}, {}]
    dt.place @h.0.experts.2.down.weight [{}, {}]
    dt.place @h.0.experts.3.up.weight [{}, {}]
    dt.place @h.0.experts.3.down.weight [{}, {}]
    dt.place @h.0.experts.4.up.weight [{}, {}]
    dt.place @h.0.experts.4.down.weight [{}, {}]
    dt.place @h.0.experts.5.up.weight [{}, {}]
    dt.place @h.0.experts.5.down.weight [{}, {}]
    dt.place @h.0.experts.6.up.weight [{}, {}]
    dt.place @h.0.experts.6.down.weight [{}, {}]
    dt.place @h.0.experts.7.up.weight [{}, {}]
    dt.place @h.0.experts.7.down.weight [{}, {}]
    dt.place @h.0.experts.8.up.weight [{}, {}]
    dt.place @h.0.experts.8.down.weight [{}, {}]
    dt.place @h.0.experts.9.up.weight [{}, {}]
    dt.place @h.0.experts.9.down.weight [{}, {}]
    dt.place @h.0.experts.10.up.weight [{}, {}]
    dt.place @h.0.experts.10.down.weight [{}, {}]
    dt.place @h.0.experts.11.up.weight [{}, {}]
    dt.place @h.0.experts.11.down.weight [{}, {}]
    dt.place @h.1.norm.weight [{}]
    dt.place @h.1.attn.proj.weight [{}, {}]
    dt.place @h.1.experts.0.up.weight [{}, {}]
    dt.place @h.1.experts.0.down.weight [{}, {}]
    dt.place @h.1.experts.1.up.weight [{}, {}]
    dt.place @h.1.experts.1.down.weight [{}, {}]
    dt.place @h.1.experts.2.up.weight [{}, {}]
    dt.place @h.1.experts.2.down.weight [{}, {}]
    dt.place @h.1.experts.3.up.weight [{}, {}]
    dt.place @h.1.experts.3.down.weight [{}, {}]
    dt.place @h.1.experts.4.up.weight [{}, {}]
    dt.place @h.1.experts.4.down.weight [{}, {}]
    dt.place @h.1.experts.5.up.weight [{}, {}]
    dt.place @h.1.experts.5.down.weight [{}, {}]
    dt.place @h.1.experts.6.up.weight [{}, {}]
    dt.place @h.1.experts.6.down.weight [{}, {}]
    dt.place @h.1.experts.7.up.weight [{}, {}]
    dt.place @h.1.experts.7.down.weight [{}, {}]
    dt.place @h.1.experts.8.up.weight [{}, {}]
    dt.place @h.1.experts.8.down.weight [{}, {}]
    dt.place @h.1.experts.9.up.weight [{}, {}]
    dt.place @h.1.experts.9.down.weight [{}, {}]
    dt.place @h.1.experts.10.up.weight [{}, {}]
    dt.place @h.1.experts.10.down.weight [{}, {}]
    dt.place @h.1.experts.11.up.weight [{}, {}]
    dt.place @h.1.experts.11.down.weight [{}, {}]
    dt.place @final.weight [{}]
    dt.place @head.bias [{}]
    dt.place @extra0 shards rank 0 at [0, 0, 0] size [1, 1, 5], rank 1 at [0, 0, 0] size [1, 1, 5]
  }
  dt.mesh @destination_dense <["tp"=3, "dp"=4], devices=[0, 10, 2, 3, 7, 1, 4, 5, 6, 9, 11, 8]>
  dt.mesh @destination_expert <["ep"=4, "edp"=3], devices=[0, 10, 2, 3, 7, 1, 4, 5, 6, 9, 11, 8]>
  dt.layout @destination of @model on [@destination_dense, @destination_expert] world 12 devices [0, 10, 2, 3, 7, 1, 4, 5, 6, 9, 11, 8] {
    dt.place @embed.weight [{"tp"}, {}]
    dt.place @h.0.norm.weight [{}]
    dt.place @h.0.attn.proj.weight [{}, {"tp"}]
    dt.place @h.0.experts.0.up.weight on @destination_expert [{}, {}] at {"ep" = [0]}
    dt.place @h.0.experts.0.down.weight on @destination_expert [{}, {}] at {"ep" = [0]}
    dt.place @h.0.experts.1.up.weight on @destination_expert [{}, {}] at {"ep" = [0]}
    dt.place @h.0.experts.1.down.weight on @destination_expert [{}, {}] at {"ep" = [0]}
    dt.place @h.0.experts.2.up.weight on @destination_expert [{}, {}] at {"ep" = [0]}
    dt.place @h.0.experts.2.down.weight on @destination_expert [{}, {}] at {"ep" = [0]}
    dt.place @h.0.experts.3.up.weight on @destination_expert [{}, {}] at {"ep" = [1]}
    dt.place @h.0.experts.3.down.weight on @destination_expert [{}, {}] at {"ep" = [1]}
    dt.place @h.0.experts.4.up.weight on @destination_expert [{}, {}] at {"ep" = [1]}
    dt.place @h.0.experts.4.down.weight on @destination_expert [{}, {}] at {"ep" = [1]}
    dt.place @h.0.experts.5.up.weight on @destination_expert [{}, {}] at {"ep" = [1]}
    dt.place @h.0.experts.5.down.weight on @destination_expert [{}, {}] at {"ep" = [1]}
    dt.place @h.0.experts.6.up.weight on @destination_expert [{}, {}] at {"ep" = [2]}
    dt.place @h.0.experts.6.down.weight on @destination_expert [{}, {}] at {"ep" = [2]}
    dt.place @h.0.experts.7.up.weight on @destination_expert [{}, {}] at {"ep" = [2]}
    dt.place @h.0.experts.7.down.weight on @destination_expert [{}, {}] at {"ep" = [2]}
    dt.place @h.0.experts.8.up.weight on @destination_expert [{}, {}] at {"ep" = [2]}
    dt.place @h.0.experts.8.down.weight on @destination_expert [{}, {}] at {"ep" = [2]}
    dt.place @h.0.experts.9.up.weight on @destination_expert [{}, {}] at {"ep" = [3]}
    dt.place @h.0.experts.9.down.weight on @destination_expert [{}, {}] at {"ep" = [3]}
    dt.place @h.0.experts.10.up.weight on @destination_expert [{}, {}] at {"ep" = [3]}
    dt.place @h.0.experts.10.down.weight on @destination_expert [{}, {}] at {"ep" = [3]}
    dt.place @h.0.experts.11.up.weight on @destination_expert [{}, {}] at {"ep" = [3]}
    dt.place @h.0.experts.11.down.weight on @destination_expert [{}, {}] at {"ep" = [3]}
    dt.place @h.1.norm.weight [{}]
    dt.place @h.1.attn.proj.weight [{}, {"tp"}]
    dt.place @h.1.experts.0.up.weight on @destination_expert [{}, {}] at {"ep" = [0]}
    dt.place @h.1.experts.0.down.weight on @destination_expert [{}, {}] at {"ep" = [0]}
    dt.place @h.1.experts.1.up.weight on @destination_expert [{}, {}] at {"ep" = [0]}
    dt.place @h.1.experts.1.down.weight on @destination_expert [{}, {}] at {"ep" = [0]}
    dt.place @h.1.experts.2.up.weight on @destination_expert [{}, {}] at {"ep" = [0]}
    dt.place @h.1.experts.2.down.weight on @destination_expert [{}, {}] at {"ep" = [0]}
    dt.place @h.1.experts.3.up.weight on @destination_expert [{}, {}] at {"ep" = [1]}
    dt.place @h.1.experts.3.down.weight on @destination_expert [{}, {}] at {"ep" = [1]}
    dt.place @h.1.experts.4.up.weight on @destination_expert [{}, {}] at {"ep" = [1]}
    dt.place @h.1.experts.4.down.weight on @destination_expert [{}, {}] at {"ep" = [1]}
    dt.place @h.1.experts.5.up.weight on @destination_expert [{}, {}] at {"ep" = [1]}
    dt.place @h.1.experts.5.down.weight on @destination_expert [{}, {}] at {"ep" = [1]}
    dt.place @h.1.experts.6.up.weight on @destination_expert [{}, {}] at {"ep" = [2]}
    dt.place @h.1.experts.6.down.weight on @destination_expert [{}, {}] at {"ep" = [2]}
    dt.place @h.1.experts.7.up.weight on @destination_expert [{}, {}] at {"ep" = [2]}
    dt.place @h.1.experts.7.down.weight on @destination_expert [{}, {}] at {"ep" = [2]}
    dt.place @h.1.experts.8.up.weight on @destination_expert [{}, {}] at {"ep" = [2]}
    dt.place @h.1.experts.8.down.weight on @destination_expert [{}, {}] at {"ep" = [2]}
    dt.place @h.1.experts.9.up.weight on @destination_expert [{}, {}] at {"ep" = [3]}
    dt.place @h.1.experts.9.down.weight on @destination_expert [{}, {}] at {"ep" = [3]}
    dt.place @h.1.experts.10.up.weight on @destination_expert [{}, {}] at {"ep" = [3]}
    dt.place @h.1.experts.10.down.weight on @destination_expert [{}, {}] at {"ep" = [3]}
    dt.place @h.1.experts.11.up.weight on @destination_expert [{}, {}] at {"ep" = [3]}
    dt.place @h.1.experts.11.down.weight on @destination_expert [{}, {}] at {"ep" = [3]}
    dt.place @final.weight [{}]
    dt.place @head.bias [{}]
    dt.place @extra0 shards [i: 12] rank i at [0, 0, 0] size [1, 1, 5]
  }
  dt.transition @transition from @source to @destination cluster <4 per node, intra 400.0, inter 25.0, latency 10.0, channels 1 of 10.3 and 14.0> memory <staging 16384, flat by tensor>
}

