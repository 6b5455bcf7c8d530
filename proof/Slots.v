(* Slots.v - Slots in four areas never meet while in use.

   A device's arena of staging has four areas, {send, receive} x {even, odd
   group}, where the groups of the device are numbered in order. Executors pack
   what a group sends while the group before it runs, at the earliest, and
   unpack what it received while the next group runs, at the latest. For any
   number of groups and slots. *)

From Coq Require Import Arith Bool Lia List.
Import ListNotations.

Section Slots.

(** When a group of the device begins and ends. *)
Variables begins ends : nat -> nat.
Hypothesis group_takes_time : forall g, begins g <= ends g.
Hypothesis groups_in_order : forall g, ends g < begins (S g).

Record slot := Slot {
  receive : bool;
  group : nat;
  first : nat; (* bytes [first, last) *)
  last : nat
}.

(** A send slot is in use from its pack to the end of its group, a receive slot
    from the begin of its group to its unpack. *)
Definition in_use (s : slot) (now : nat) : Prop :=
  if receive s then begins (group s) <= now <= ends (S (group s))
  else (group s = 0 \/ begins (pred (group s)) <= now) /\ now <= ends (group s).

Definition share_a_byte (s s' : slot) : Prop :=
  exists byte, first s <= byte < last s /\ first s' <= byte < last s'.

(** Areas: bytes [area_first, area_last) by kind and parity. *)
Variables area_first area_last : bool -> bool -> nat.
Variable arena : nat.

Definition areas_apart : Prop :=
  forall r o r' o', (r, o) <> (r', o') ->
  area_last r o <= area_first r' o' \/ area_last r' o' <= area_first r o.

Definition in_its_area (s : slot) : Prop :=
  area_first (receive s) (Nat.odd (group s)) <= first s /\
  last s <= area_last (receive s) (Nat.odd (group s)).

Record keeps_to_areas (slots : list slot) : Prop := {
  areas : areas_apart;
  inside : Forall in_its_area slots;
  fits : forall r o, area_last r o <= arena;
  (** Slots of one kind in one group share no byte. *)
  group_apart : forall s s', In s slots -> In s' slots -> s <> s' ->
    receive s = receive s' -> group s = group s' -> ~ share_a_byte s s'
}.

Lemma begins_ascend g g' : g <= g' -> begins g <= begins g'.
Proof.
  induction 1 as [|g' H IH]; [lia|].
  pose proof (group_takes_time g'). pose proof (groups_in_order g'). lia.
Qed.

(** Of two groups with another one between them, the first has been unpacked
    before the second begins, and has ended before the second is packed. *)
Lemma not_at_once s s' now :
  receive s = receive s' -> S (S (group s)) <= group s' ->
  in_use s now -> in_use s' now -> False.
Proof.
  unfold in_use. intros Hkind Hfar. rewrite Hkind.
  destruct (receive s').
  - intros [_ Hend] [Hbegin _].
    pose proof (groups_in_order (S (group s))).
    pose proof (begins_ascend (S (S (group s))) (group s') Hfar). lia.
  - intros [_ Hend] [[Hzero|Hbegin] _]; [lia|].
    pose proof (groups_in_order (group s)).
    pose proof (begins_ascend (S (group s)) (pred (group s'))). lia.
Qed.

Lemma same_parity g g' :
  Nat.odd g = Nat.odd g' -> g <> g' -> S (S g) <= g' \/ S (S g') <= g.
Proof.
  intros Hodd Hneq.
  destruct (le_lt_dec (S (S g)) g'); [tauto|].
  destruct (le_lt_dec (S (S g')) g); [tauto|]. exfalso.
  assert (Hnext : g' = S g \/ g = S g') by lia.
  destruct Hnext as [->| ->]; rewrite Nat.odd_succ, <- Nat.negb_odd in Hodd;
    destruct (Nat.odd _); discriminate.
Qed.

Theorem slots_never_meet slots s s' now :
  keeps_to_areas slots -> In s slots -> In s' slots -> s <> s' ->
  in_use s now -> in_use s' now -> ~ share_a_byte s s'.
Proof.
  intros [Hareas Hinside _ Hgroup] Hs Hs' Hneq Huse Huse'.
  rewrite Forall_forall in Hinside.
  pose proof (Hinside s Hs) as [A1 A2]. pose proof (Hinside s' Hs') as [B1 B2].
  destruct (bool_dec (receive s) (receive s')) as [Hkind|Hkind].
  - destruct (bool_dec (Nat.odd (group s)) (Nat.odd (group s'))) as [Hodd|Hodd].
    + destruct (Nat.eq_dec (group s) (group s')) as [Hsame|Hother].
      * apply Hgroup; assumption.
      * exfalso. destruct (same_parity _ _ Hodd Hother) as [Hfar|Hfar].
        -- apply (not_at_once s s' now); assumption.
        -- apply (not_at_once s' s now); auto.
    + intros [byte [H1 H2]].
      destruct (Hareas (receive s) (Nat.odd (group s))
                       (receive s') (Nat.odd (group s'))); [congruence|lia..].
  - intros [byte [H1 H2]].
    destruct (Hareas (receive s) (Nat.odd (group s))
                     (receive s') (Nat.odd (group s'))); [congruence|lia..].
Qed.

Theorem slots_stay_inside slots s :
  keeps_to_areas slots -> In s slots -> last s <= arena.
Proof.
  intros [_ Hinside Hfits _] Hs.
  rewrite Forall_forall in Hinside. destruct (Hinside s Hs) as [_ Hlast].
  specialize (Hfits (receive s) (Nat.odd (group s))). lia.
Qed.

(** ** Slots that keep to no areas *)

(** Half a step: while a group of the device runs, or between it and the next
    one. *)
Record half_step := HalfStep { of_group : nat; after_it : bool }.

Definition reached (h : half_step) (now : nat) : Prop :=
  if after_it h then ends (of_group h) < now else begins (of_group h) <= now.
Definition not_past (h : half_step) (now : nat) : Prop :=
  if after_it h then now < begins (S (of_group h)) else now <= ends (of_group h).
Definition earlier (h h' : half_step) : Prop :=
  of_group h < of_group h' \/
  (of_group h = of_group h' /\ after_it h = false /\ after_it h' = true).

(** Where one slot's last half step is earlier than another's first, the two are
    never in use at once: so it is enough to look up those of which neither is
    earlier, and that they share no byte. *)
Theorem half_steps_apart last first now :
  earlier last first -> not_past last now -> reached first now -> False.
Proof.
  destruct last as [g a], first as [g' a'].
  unfold earlier, not_past, reached. simpl.
  intros [Hless|[-> [-> ->]]]; [|lia].
  pose proof (begins_ascend (S g) g' Hless) as Hbegin.
  pose proof (groups_in_order g). pose proof (groups_in_order g').
  pose proof (group_takes_time g').
  destruct a, a'; lia.
Qed.

End Slots.

(** Without the parity they may meet: what a group sends is packed while the
    group before it still sends from the same bytes. *)
Theorem parity_is_needed :
  exists begins ends s s' now,
    (forall g, begins g <= ends g) /\ (forall g, ends g < begins (S g)) /\
    group s = 0 /\ group s' = 1 /\ receive s = receive s' /\
    in_use begins ends s now /\ in_use begins ends s' now /\ share_a_byte s s'.
Proof.
  exists (fun g => 2 * g), (fun g => 2 * g + 1), (Slot false 0 0 1),
    (Slot false 1 0 1), 0.
  repeat split; try (intros; lia); simpl; try lia.
  exists 0. simpl. lia.
Qed.
