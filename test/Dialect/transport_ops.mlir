// The transport level prints as it parses: pretty, generic, and as bytecode.
// RUN: dt-opt %s | dt-opt | FileCheck %s
// RUN: dt-opt %s --mlir-print-op-generic | dt-opt | FileCheck %s
// RUN: dt-opt %s --emit-bytecode | dt-opt | FileCheck %s

dt.space @model {
  dt.param @proj [32, 4096, 4096] of <param = bf16> named "layers.{}.proj" [0]
  dt.param @norm [32, 4096] of <param = bf16> named "layers.{}.norm" [0]
}
dt.mesh @world <["tp"=4]>
dt.layout @src of @model on [@world] world 4 {
  dt.place @proj [{}, {}, {"tp"}]
  dt.place @norm [{}, {}]
}
dt.layout @dst of @model on [@world] world 4 {
  dt.place @proj [{}, {}, {}]
  dt.place @norm [{}, {}]
}

// CHECK-LABEL: dt.transition @gather
dt.transition @gather from @src to @dst {
  // CHECK-NEXT: dt.keep @norm <[i: 4] on i at [0, 0] size [32, 4096]>
  dt.keep @norm <[i: 4] on i at [0, 0] size [32, 4096]>
  // CHECK-NEXT: dt.copy @proj <on 0 at [0, 0, 0] size [1, 4096, 1024]> wave 0
  dt.copy @proj <on 0 at [0, 0, 0] size [1, 4096, 1024]> wave 0
  // CHECK-NEXT: dt.wave 0 slots <5 columns, [i: 3] (i + 1, 0, 0, -1, 8388608), [i: 3] (0, i + 1, 1, i * 8388608, 8388608), (2, 0, 1, 0, 4)> {
  dt.wave 0 slots <5 columns, [i: 3] (i + 1, 0, 0, -1, 8388608), [i: 3] (0, i + 1, 1, i * 8388608, 8388608), (2, 0, 1, 0, 4)> {
    // CHECK-NEXT: dt.sendrecv @proj <[i: 3] from i + 1 to 0 at [0, 0, i * 1024] size [1, 4096, 1024]>
    dt.sendrecv @proj <[i: 3] from i + 1 to 0 at [0, 0, i * 1024] size [1, 4096, 1024]>
    // CHECK-NEXT: dt.sendrecv @norm for ["param"] <from 0 to 2 at [0, 0] size [1, 2]>
    dt.sendrecv @norm for ["param"] <from 0 to 2 at [0, 0] size [1, 2]>
    // CHECK-NEXT: dt.sendrecv @norm <from 0 to 3 at [0, 0] size [1, 4]> to_relay
    dt.sendrecv @norm <from 0 to 3 at [0, 0] size [1, 4]> to_relay
    // CHECK-NEXT: dt.sendrecv @norm <from 3 to 1 at [0, 0] size [1, 4]> from_relay
    dt.sendrecv @norm <from 3 to 1 at [0, 0] size [1, 4]> from_relay
  }
  // CHECK: dt.wave 1 {
  dt.wave 1 {
    // CHECK-NEXT: dt.library_collective broadcast among [0, 2] from 0 {
    dt.library_collective broadcast among [0, 2] from 0 {
      // CHECK-NEXT: dt.sendrecv @norm <from 0 to 2 at [1, 0] size [1, 2]>
      dt.sendrecv @norm <from 0 to 2 at [1, 0] size [1, 2]>
    }
    // CHECK: dt.library_collective all_to_all among [1, 3] {
    dt.library_collective all_to_all among [1, 3] {
      dt.sendrecv @norm <from 1 to 3 at [1, 0] size [1, 2]>
    }
  }
  // CHECK: dt.create @proj <on 0 at [0, 0] size [32, 4194304]>
  dt.create @proj <on 0 at [0, 0] size [32, 4194304]>
  // CHECK-NEXT: dt.release @proj for ["param"] <[i: 3] on i + 1 at [0, 0] size [32, 4194304]>
  dt.release @proj for ["param"] <[i: 3] on i + 1 at [0, 0] size [32, 4194304]>
  // CHECK-NEXT: dt.release @norm <on 3 at [0, 0] size [1, 1]> shard 2
  dt.release @norm <on 3 at [0, 0] size [1, 1]> shard 2
}
