(* Theorems.v - What docs/Proof.md names, and that nothing is supposed for it.

   Each line shall print "Closed under the global context": no axiom, and no
   proof that was left out. *)

From DynaTrain Require Import Rounds Machine KernelPlans Counterexamples.
From DynaTrain Require Import Slots Boxes Coverage Sweep Corners.
From DynaTrain Require Import Feeding Memory Signals.

(* NCCL's rounds *)
Print Assumptions Rounds.every_distance_once.
Print Assumptions Rounds.rounds_agree.
Print Assumptions Rounds.every_pair_has_a_round.
Print Assumptions Rounds.sequence_of_the_source.

(* Groups that are cut anywhere *)
Print Assumptions KernelPlans.cuts_keep_rounds.
Print Assumptions KernelPlans.every_group_can_be_taken.

(* No rank waits for ever *)
Print Assumptions Machine.no_deadlock.
Print Assumptions Machine.no_reachable_state_is_stuck.
Print Assumptions Machine.every_step_does_something.
Print Assumptions Machine.every_run_ends.
Print Assumptions Machine.every_run_can_finish.
Print Assumptions KernelPlans.nccl_never_deadlocks.
Print Assumptions KernelPlans.nccl_runs_end.
Print Assumptions KernelPlans.free_groups_never_deadlock.

(* Without one of the rules they do *)
Print Assumptions Counterexamples.two_messages_deadlock.
Print Assumptions Counterexamples.any_order_deadlocks.
Print Assumptions Counterexamples.crossed_groups_deadlock.

(* Staging *)
Print Assumptions Slots.slots_never_meet.
Print Assumptions Slots.slots_stay_inside.
Print Assumptions Slots.half_steps_apart.
Print Assumptions Slots.parity_is_needed.

(* Coverage *)
Print Assumptions Coverage.count_is_complete.
Print Assumptions Coverage.count_is_needed.
Print Assumptions Sweep.runs_are_disjoint.
Print Assumptions Sweep.sweep_is_right.
Print Assumptions Sweep.compiler_sweep_is_right.
Print Assumptions Corners.corners_cancel.
Print Assumptions Corners.written_once.

(* Values *)
Print Assumptions Feeding.always_sound.
Print Assumptions Feeding.nothing_is_sent_too_early.
Print Assumptions Feeding.everything_arrives.
Print Assumptions Feeding.waves_in_order_keep_the_rules.
Print Assumptions Feeding.a_forward_that_is_packed_early.

(* Memory *)
Print Assumptions Memory.peak_is_the_most.
Print Assumptions Memory.never_more_than_the_peak.
Print Assumptions Memory.creates_and_releases_move_within_waves.
Print Assumptions Memory.overtaking_is_not_counted.

(* One-sided waves *)
Print Assumptions Signals.no_deadlock.
Print Assumptions Signals.every_step_runs_an_action.
Print Assumptions Signals.a_put_finds_its_slot_free.
Print Assumptions Signals.what_is_waited_for_is_there.
