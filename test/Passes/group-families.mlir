// Families: numbered tensors become one param with leading dims.
// RUN: dt-opt %s --dt-group-families -split-input-file | FileCheck %s

// Layers 0 to 3 are one family; the norm has no number and stays.
// CHECK-LABEL: dt.space @layers
// CHECK-NEXT: dt.param @w [4, 8, 6] of <param = bf16> named "layers.{}.w" [0] order 0 + [1]
// CHECK-NEXT: dt.param @norm [6] of <param = bf16> order 4
// CHECK-NEXT: }
dt.space @layers {
  dt.param @layers.0.w [8, 6] of <param = bf16>
  dt.param @layers.1.w [8, 6] of <param = bf16>
  dt.param @layers.2.w [8, 6] of <param = bf16>
  dt.param @layers.3.w [8, 6] of <param = bf16>
  dt.param @norm [6] of <param = bf16>
}
// The stage follows the layer: it becomes a cut of the leading dim.
dt.mesh @mesh <["pp"=2, "tp"=2]>
// CHECK-LABEL: dt.layout @stage_follows_layer
// CHECK-NEXT: dt.place @w [{"pp" cuts [0, 3, 4]}, {"tp"}, {}]{{$}}
// CHECK-NEXT: dt.place @norm [{}] at {"pp" = [1]}
// CHECK-NEXT: }
dt.layout @stage_follows_layer of @layers on [@mesh] world 4 {
  dt.place @layers.0.w [{"tp"}, {}] at {"pp" = [0]}
  dt.place @layers.1.w [{"tp"}, {}] at {"pp" = [0]}
  dt.place @layers.2.w [{"tp"}, {}] at {"pp" = [0]}
  dt.place @layers.3.w [{"tp"}, {}] at {"pp" = [1]}
  dt.place @norm [{}] at {"pp" = [1]}
}
// What is the same for all stays a restriction.
// CHECK-LABEL: dt.layout @all_on_one_stage
// CHECK-NEXT: dt.place @w [{}, {}, {}] at {"pp" = [1]}
dt.layout @all_on_one_stage of @layers on [@mesh] world 4 {
  dt.place @layers.0.w [{}, {}] at {"pp" = [1]}
  dt.place @layers.1.w [{}, {}] at {"pp" = [1]}
  dt.place @layers.2.w [{}, {}] at {"pp" = [1]}
  dt.place @layers.3.w [{}, {}] at {"pp" = [1]}
  dt.place @norm [{}]
}
// Interleaved chunks: runs of layers whose stages do not count up have owners.
// CHECK-LABEL: dt.layout @interleaved_stages
// CHECK-NEXT: dt.place @w [{"pp" cuts [0, 1, 2, 3, 4] owners [0, 1, 0, 1]}, {}, {}]
dt.layout @interleaved_stages of @layers on [@mesh] world 4 {
  dt.place @layers.0.w [{}, {}] at {"pp" = [0]}
  dt.place @layers.1.w [{}, {}] at {"pp" = [1]}
  dt.place @layers.2.w [{}, {}] at {"pp" = [0]}
  dt.place @layers.3.w [{}, {}] at {"pp" = [1]}
  dt.place @norm [{}]
}

// -----

// Two numbers, two leading dims; numbers may start anywhere and step.
// CHECK-LABEL: dt.space @layers_and_experts
// CHECK-NEXT: dt.param @e.w [2, 2, 6] of <param = bf16> named "l.{}.e.{}.w" [3 step 2, 0] order 0 + [2, 1]
// CHECK-NEXT: }
dt.space @layers_and_experts {
  dt.param @l.3.e.0.w [6] of <param = bf16>
  dt.param @l.3.e.1.w [6] of <param = bf16>
  dt.param @l.5.e.0.w [6] of <param = bf16>
  dt.param @l.5.e.1.w [6] of <param = bf16>
}
dt.mesh @mesh <["pp"=2, "ep"=2]>
// CHECK-LABEL: dt.layout @experts_follow
// CHECK-NEXT: dt.place @e.w [{"pp" cuts [0, 1, 2]}, {"ep" cuts [0, 1, 2]}, {}]{{$}}
// CHECK-NEXT: }
dt.layout @experts_follow of @layers_and_experts on [@mesh] world 4 {
  dt.place @l.3.e.0.w [{}] at {"pp" = [0], "ep" = [0]}
  dt.place @l.3.e.1.w [{}] at {"pp" = [0], "ep" = [1]}
  dt.place @l.5.e.0.w [{}] at {"pp" = [1], "ep" = [0]}
  dt.place @l.5.e.1.w [{}] at {"pp" = [1], "ep" = [1]}
}

// -----

// Tensors of other shapes or states join other families.
// CHECK-LABEL: dt.space @unlike_tensors
// CHECK-NEXT: dt.param @{{.+}} [2, 6] of <param = bf16> named "l.{}.w" [0]
// CHECK-NEXT: dt.param @l.2.w [7] of <param = bf16>
// CHECK-NEXT: dt.param @l.3.w [6] of <param = f32>
// CHECK-NEXT: }
dt.space @unlike_tensors {
  dt.param @l.0.w [6] of <param = bf16>
  dt.param @l.1.w [6] of <param = bf16>
  dt.param @l.2.w [7] of <param = bf16>
  dt.param @l.3.w [6] of <param = f32>
}

// -----

// Numbers with a hole are listed.
// CHECK-LABEL: dt.space @hole_in_the_numbers
// CHECK-NEXT: dt.param @w [4, 6] of <param = bf16> named "l.{}.w" [{0, 1, 7, 8}] order 0 + [1]
// CHECK-NEXT: }
dt.space @hole_in_the_numbers {
  dt.param @l.0.w [6] of <param = bf16>
  dt.param @l.1.w [6] of <param = bf16>
  dt.param @l.7.w [6] of <param = bf16>
  dt.param @l.8.w [6] of <param = bf16>
}

// -----

// A number with a leading zero could not be printed back: it is text.
// CHECK-LABEL: dt.space @leading_zeros
// CHECK-NEXT: dt.param @l.00.w
// CHECK-NEXT: dt.param @l.01.w
// CHECK-NEXT: }
dt.space @leading_zeros {
  dt.param @l.00.w [6] of <param = bf16>
  dt.param @l.01.w [6] of <param = bf16>
}

// -----

// Tensors that are cut in different ways do not join.
// CHECK-LABEL: dt.space @cut_differently
// CHECK-NEXT: dt.param @l.0.w
// CHECK-NEXT: dt.param @l.1.w
// CHECK-NEXT: }
dt.space @cut_differently {
  dt.param @l.0.w [6, 6] of <param = bf16>
  dt.param @l.1.w [6, 6] of <param = bf16>
}
dt.mesh @mesh <["tp"=2]>
dt.layout @layout of @cut_differently on [@mesh] world 2 {
  dt.place @l.0.w [{"tp"}, {}]
  dt.place @l.1.w [{}, {"tp"}]
}

// -----

// Explicit shards stay with their tensors.
// CHECK-LABEL: dt.space @explicit_shards
// CHECK-NEXT: dt.param @l.0.w [6]
// CHECK-NEXT: dt.param @l.1.w [6]
// CHECK-NEXT: }
dt.space @explicit_shards {
  dt.param @l.0.w [6] of <param = bf16>
  dt.param @l.1.w [6] of <param = bf16>
}
dt.layout @layout of @explicit_shards world 1 {
  dt.place @l.0.w shards rank 0 at [0] size [6]
  dt.place @l.1.w shards rank 0 at [0] size [6]
}

// -----

// Registration order decides ZeRO buckets: base and strides remember it.
// CHECK-LABEL: dt.space @registration_order
// CHECK-NEXT: dt.param @embedding [9] of <param = bf16> order 0
// CHECK-NEXT: dt.param @{{.+}} [2, 6] of <param = bf16> named "l.{}.a" [0] order 1 + [2]
// CHECK-NEXT: dt.param @{{.+}} [2, 7] of <param = bf16> named "l.{}.b" [0] order 2 + [2]
// CHECK-NEXT: }
dt.space @registration_order {
  dt.param @embedding [9] of <param = bf16>
  dt.param @l.0.a [6] of <param = bf16>
  dt.param @l.0.b [7] of <param = bf16>
  dt.param @l.1.a [6] of <param = bf16>
  dt.param @l.1.b [7] of <param = bf16>
}

// -----

// Layers 0 and 1 lie closer than the others: places in the order are listed.
// CHECK-LABEL: dt.space @uneven_order
// CHECK-NEXT: dt.param @a [4, 6] of <param = bf16> named "l.{}.a" [0] order 0 + [{0, 1, 3, 5}]
// CHECK-NEXT: dt.param @b [2, 7] of <param = bf16> named "l.{}.b" [1] order 2 + [2]
// CHECK-NEXT: }
dt.space @uneven_order {
  dt.param @l.0.a [6] of <param = bf16>
  dt.param @l.1.a [6] of <param = bf16>
  dt.param @l.1.b [7] of <param = bf16>
  dt.param @l.2.a [6] of <param = bf16>
  dt.param @l.2.b [7] of <param = bf16>
  dt.param @l.3.a [6] of <param = bf16>
}

// -----

// Layers of two kinds in turns: what both have has another place in each kind, and
// is one family all the same; the stage follows the layer.
// CHECK-LABEL: dt.space @layers_in_turns
// CHECK-NEXT: dt.param @a [3, 6] of <param = bf16> named "l.{}.a" [0 step 2] order 0 + [5]
// CHECK-NEXT: dt.param @norm [6, 5] of <param = bf16> named "l.{}.norm" [0] order 1 + [{0, 3, 5, 8, 10, 13}]
// CHECK-NEXT: dt.param @b [3, 7] of <param = bf16> named "l.{}.b" [1 step 2] order 2 + [5]
// CHECK-NEXT: dt.param @c [3, 8] of <param = bf16> named "l.{}.c" [1 step 2] order 3 + [5]
// CHECK-NEXT: }
dt.space @layers_in_turns {
  dt.param @l.0.a [6] of <param = bf16>
  dt.param @l.0.norm [5] of <param = bf16>
  dt.param @l.1.b [7] of <param = bf16>
  dt.param @l.1.c [8] of <param = bf16>
  dt.param @l.1.norm [5] of <param = bf16>
  dt.param @l.2.a [6] of <param = bf16>
  dt.param @l.2.norm [5] of <param = bf16>
  dt.param @l.3.b [7] of <param = bf16>
  dt.param @l.3.c [8] of <param = bf16>
  dt.param @l.3.norm [5] of <param = bf16>
  dt.param @l.4.a [6] of <param = bf16>
  dt.param @l.4.norm [5] of <param = bf16>
  dt.param @l.5.b [7] of <param = bf16>
  dt.param @l.5.c [8] of <param = bf16>
  dt.param @l.5.norm [5] of <param = bf16>
}
dt.mesh @mesh <["pp"=2]>
// CHECK-LABEL: dt.layout @in_two_stages
// CHECK-NEXT: dt.place @a [{"pp" cuts [0, 2, 3]}, {}]{{$}}
// CHECK-NEXT: dt.place @norm [{"pp" cuts [0, 3, 6]}, {}]{{$}}
// CHECK-NEXT: dt.place @b [{"pp" cuts [0, 1, 3]}, {}]{{$}}
// CHECK-NEXT: dt.place @c [{"pp" cuts [0, 1, 3]}, {}]{{$}}
// CHECK-NEXT: }
dt.layout @in_two_stages of @layers_in_turns on [@mesh] world 2 {
  dt.place @l.0.a [{}] at {"pp" = [0]}
  dt.place @l.0.norm [{}] at {"pp" = [0]}
  dt.place @l.1.b [{}] at {"pp" = [0]}
  dt.place @l.1.c [{}] at {"pp" = [0]}
  dt.place @l.1.norm [{}] at {"pp" = [0]}
  dt.place @l.2.a [{}] at {"pp" = [0]}
  dt.place @l.2.norm [{}] at {"pp" = [0]}
  dt.place @l.3.b [{}] at {"pp" = [1]}
  dt.place @l.3.c [{}] at {"pp" = [1]}
  dt.place @l.3.norm [{}] at {"pp" = [1]}
  dt.place @l.4.a [{}] at {"pp" = [1]}
  dt.place @l.4.norm [{}] at {"pp" = [1]}
  dt.place @l.5.b [{}] at {"pp" = [1]}
  dt.place @l.5.c [{}] at {"pp" = [1]}
  dt.place @l.5.norm [{}] at {"pp" = [1]}
}

// -----

// Two of three layers, and a last one that comes too early.
// CHECK-LABEL: dt.space @two_of_three
// CHECK-NEXT: dt.param @a [7, 6] of <param = bf16> named "l.{}.a" [{0, 1, 3, 4, 6, 7, 8}] order 0 + [1]
// CHECK-NEXT: }
dt.space @two_of_three {
  dt.param @l.0.a [6] of <param = bf16>
  dt.param @l.1.a [6] of <param = bf16>
  dt.param @l.3.a [6] of <param = bf16>
  dt.param @l.4.a [6] of <param = bf16>
  dt.param @l.6.a [6] of <param = bf16>
  dt.param @l.7.a [6] of <param = bf16>
  dt.param @l.8.a [6] of <param = bf16>
}

// -----

// Layers and experts whose numbers have holes: a list for each.
// CHECK-LABEL: dt.space @two_lists
// CHECK-NEXT: dt.param @e.w [3, 3, 6] of <param = bf16> named "l.{}.e.{}.w" [{0, 1, 3}, {0, 1, 5}] order 0 + [{0, 3, 7}, 1]
// CHECK-NEXT: dt.param @l.1.x [6] of <param = bf16> order 6
// CHECK-NEXT: }
dt.space @two_lists {
  dt.param @l.0.e.0.w [6] of <param = bf16>
  dt.param @l.0.e.1.w [6] of <param = bf16>
  dt.param @l.0.e.5.w [6] of <param = bf16>
  dt.param @l.1.e.0.w [6] of <param = bf16>
  dt.param @l.1.e.1.w [6] of <param = bf16>
  dt.param @l.1.e.5.w [6] of <param = bf16>
  dt.param @l.1.x [6] of <param = bf16>
  dt.param @l.3.e.0.w [6] of <param = bf16>
  dt.param @l.3.e.1.w [6] of <param = bf16>
  dt.param @l.3.e.5.w [6] of <param = bf16>
}

// -----

// Experts in another order in one layer: no sum of what layer and expert add.
// CHECK-LABEL: dt.space @order_of_its_own
// CHECK-NEXT: dt.param @e.w [2, 2, 6] of <param = bf16> named "l.{}.e.{}.w" [0, 0] order 0 + [2, 1]
// CHECK-NEXT: dt.param @w [2, 6] of <param = bf16> named "l.2.e.{}.w" [0] order 5 + [-1]
// CHECK-NEXT: }
dt.space @order_of_its_own {
  dt.param @l.0.e.0.w [6] of <param = bf16>
  dt.param @l.0.e.1.w [6] of <param = bf16>
  dt.param @l.1.e.0.w [6] of <param = bf16>
  dt.param @l.1.e.1.w [6] of <param = bf16>
  dt.param @l.2.e.1.w [6] of <param = bf16>
  dt.param @l.2.e.0.w [6] of <param = bf16>
}

// -----

// Layers whose stages are of two kinds in turns, which no cut of one dim says.
// CHECK-LABEL: dt.space @axes_in_turns
// CHECK-NEXT: dt.param @a [2, 6] of <param = bf16> named "l.{}.a" [0 step 2] order 0 + [2]
// CHECK-NEXT: dt.param @a_1 [2, 6] of <param = bf16> named "l.{}.a" [1 step 2] order 1 + [2]
// CHECK-NEXT: }
dt.space @axes_in_turns {
  dt.param @l.0.a [6] of <param = bf16>
  dt.param @l.1.a [6] of <param = bf16>
  dt.param @l.2.a [6] of <param = bf16>
  dt.param @l.3.a [6] of <param = bf16>
}
dt.mesh @mesh <["pp"=2, "x"=2]>
dt.layout @two_coordinates of @axes_in_turns on [@mesh] world 4 {
  dt.place @l.0.a [{}] at {"x" = [0]}
  dt.place @l.1.a [{}] at {"x" = [0, 1]}
  dt.place @l.2.a [{}] at {"x" = [0]}
  dt.place @l.3.a [{}] at {"x" = [0, 1]}
}
