(* Signals.v - Waves that put into their receivers' memory wait for nobody for
   ever, and never write where something is still read.

   The waves of runtime/nccl/NcclPuts.h. On its stream every rank runs four
   actions per wave:

     0. a signal to each of its senders: the slot is free,
     1. a wait for that of each of its receivers,
     2. to each receiver the bytes, and then a signal,
     3. a wait for that of each of its senders.

   Signals have no number. A rank counts those of each peer, and a wait is for
   the next one: which wave and which action it came from is what is proved
   here, and not supposed. A signal is seen after all that its rank has put to
   the same peer before.

   The number of ranks and waves, and who sends to whom, is arbitrary; two
   waves of a rank are in one order on all ranks, and a rank that takes no part
   in a wave has actions there that do nothing. *)

From Coq Require Import Arith Bool Lia.

Definition rank := nat.

Section Signals.

Variables ranks waves : nat.

(** [sends w s d]: in wave w there is a message from s to d, one at most. *)
Variable sends : nat -> rank -> rank -> bool.

Definition one (b : bool) : nat := if b then 1 else 0.

(** What [count] has in the first k actions. *)
Fixpoint total (count : nat -> nat) (k : nat) : nat :=
  match k with
  | 0 => 0
  | S before => total count before + count before
  end.

(** Signals from rank p to rank r in the action k of p. *)
Definition signal (p r : rank) (k : nat) : nat :=
  match k mod 4 with
  | 0 => one (sends (k / 4) r p)
  | 2 => one (sends (k / 4) p r)
  | _ => 0
  end.

(** Signals of rank p for which rank r waits in the action k of r. *)
Definition wait (r p : rank) (k : nat) : nat :=
  match k mod 4 with
  | 1 => one (sends (k / 4) r p)
  | 3 => one (sends (k / 4) p r)
  | _ => 0
  end.

Definition signalled (p r : rank) : nat -> nat := total (signal p r).
Definition waited (r p : rank) : nat -> nat := total (wait r p).

(** How many actions a rank has run. *)
Definition state := rank -> nat.

Definition last : nat := 4 * waves.

(** A wait is over when the peer has sent as many signals as have been waited
    for, that one included. All else goes on at once. *)
Definition can_go (st : state) (r : rank) : Prop :=
  st r < last /\
  forall p, p < ranks -> waited r p (S (st r)) <= signalled p r (st p).

Definition step (st st' : state) : Prop :=
  exists r, r < ranks /\ can_go st r /\ st' r = S (st r) /\
    forall p, p <> r -> st' p = st p.

Inductive reachable : state -> Prop :=
  | reachable_start st : (forall r, st r = 0) -> reachable st
  | reachable_step st st' : reachable st -> step st st' -> reachable st'.

Definition finished (st : state) : Prop :=
  forall r, r < ranks -> st r = last.

(** ** Counting *)

Lemma total_grows (count : nat -> nat) (k k' : nat) :
  k <= k' -> total count k <= total count k'.
Proof. induction 1; simpl; lia. Qed.

Lemma wave_of (w i : nat) : i < 4 -> (4 * w + i) / 4 = w.
Proof.
  intro. rewrite (Nat.mul_comm 4 w), Nat.div_add_l by lia.
  rewrite Nat.div_small by lia. lia.
Qed.

Lemma action_of (w i : nat) : i < 4 -> (4 * w + i) mod 4 = i.
Proof.
  intro. rewrite Nat.add_comm, (Nat.mul_comm 4 w), Nat.mod_add by lia.
  apply Nat.mod_small. lia.
Qed.

Ltac actions :=
  rewrite ?wave_of, ?action_of by lia; cbn [one].

Lemma signal_0 p r w : signal p r (4 * w) = one (sends w r p).
Proof.
  replace (4 * w) with (4 * w + 0) by lia. unfold signal. actions. reflexivity.
Qed.
Lemma signal_1 p r w : signal p r (4 * w + 1) = 0.
Proof. unfold signal. actions. reflexivity. Qed.
Lemma signal_2 p r w : signal p r (4 * w + 2) = one (sends w p r).
Proof. unfold signal. actions. reflexivity. Qed.
Lemma signal_3 p r w : signal p r (4 * w + 3) = 0.
Proof. unfold signal. actions. reflexivity. Qed.
Lemma wait_0 r p w : wait r p (4 * w) = 0.
Proof.
  replace (4 * w) with (4 * w + 0) by lia. unfold wait. actions. reflexivity.
Qed.
Lemma wait_1 r p w : wait r p (4 * w + 1) = one (sends w r p).
Proof. unfold wait. actions. reflexivity. Qed.
Lemma wait_2 r p w : wait r p (4 * w + 2) = 0.
Proof. unfold wait. actions. reflexivity. Qed.
Lemma wait_3 r p w : wait r p (4 * w + 3) = one (sends w p r).
Proof. unfold wait. actions. reflexivity. Qed.

Lemma total_next count k : total count (S k) = total count k + count k.
Proof. reflexivity. Qed.

(** Before a wave as many signals have been sent as waited for. *)
Lemma even_before_a_wave p r w :
  signalled p r (4 * w) = waited r p (4 * w).
Proof.
  induction w as [|w IH]; [reflexivity|].
  replace (4 * S w) with (S (S (S (S (4 * w))))) by lia.
  unfold signalled, waited in *. rewrite !total_next.
  replace (S (S (S (4 * w)))) with (4 * w + 3) by lia.
  replace (S (S (4 * w))) with (4 * w + 2) by lia.
  replace (S (4 * w)) with (4 * w + 1) by lia.
  rewrite signal_0, signal_1, signal_2, signal_3.
  rewrite wait_0, wait_1, wait_2, wait_3. lia.
Qed.

Section Wave.

Variables (p r : rank) (w : nat).
Let before := signalled p r (4 * w).

Lemma signalled_1 : signalled p r (4 * w + 1) = before + one (sends w r p).
Proof.
  unfold before, signalled. replace (4 * w + 1) with (S (4 * w)) by lia.
  now rewrite total_next, signal_0.
Qed.
Lemma signalled_2 : signalled p r (4 * w + 2) = before + one (sends w r p).
Proof.
  rewrite <- signalled_1. unfold signalled.
  replace (4 * w + 2) with (S (4 * w + 1)) by lia.
  rewrite total_next, signal_1. lia.
Qed.
Lemma signalled_3 :
  signalled p r (4 * w + 3) =
    before + one (sends w r p) + one (sends w p r).
Proof.
  rewrite <- signalled_2. unfold signalled.
  replace (4 * w + 3) with (S (4 * w + 2)) by lia.
  now rewrite total_next, signal_2.
Qed.

Lemma waited_1 : waited r p (4 * w + 1) = before.
Proof.
  unfold before. rewrite even_before_a_wave. unfold waited.
  replace (4 * w + 1) with (S (4 * w)) by lia. rewrite total_next, wait_0. lia.
Qed.
Lemma waited_2 : waited r p (4 * w + 2) = before + one (sends w r p).
Proof.
  rewrite <- waited_1. unfold waited.
  replace (4 * w + 2) with (S (4 * w + 1)) by lia.
  now rewrite total_next, wait_1.
Qed.
Lemma waited_3 : waited r p (4 * w + 3) = before + one (sends w r p).
Proof.
  rewrite <- waited_2. unfold waited.
  replace (4 * w + 3) with (S (4 * w + 2)) by lia.
  rewrite total_next, wait_2. lia.
Qed.
Lemma waited_4 :
  waited r p (4 * w + 4) = before + one (sends w r p) + one (sends w p r).
Proof.
  rewrite <- waited_3. unfold waited.
  replace (4 * w + 4) with (S (4 * w + 3)) by lia.
  now rewrite total_next, wait_3.
Qed.

End Wave.

(** What a rank waits for in an action, its peers have sent before they come to
    the same one. *)
Lemma peers_as_far_are_far_enough p r k :
  waited r p (S k) <= signalled p r k.
Proof.
  pose proof (Nat.div_mod k 4 ltac:(lia)) as split.
  pose proof (Nat.mod_upper_bound k 4 ltac:(lia)) as small.
  set (w := k / 4) in *. set (i := k mod 4) in *.
  assert (i = 0 \/ i = 1 \/ i = 2 \/ i = 3) as [E|[E|[E|E]]] by lia;
    rewrite E in split; rewrite split.
  - replace (S (4 * w + 0)) with (4 * w + 1) by lia.
    rewrite waited_1, Nat.add_0_r. lia.
  - replace (S (4 * w + 1)) with (4 * w + 2) by lia.
    rewrite waited_2, signalled_1. lia.
  - replace (S (4 * w + 2)) with (4 * w + 3) by lia.
    rewrite waited_3, signalled_2. lia.
  - replace (S (4 * w + 3)) with (4 * w + 4) by lia.
    rewrite waited_4, signalled_3. lia.
Qed.

(** ** No rank waits for ever *)

(** One of those that have run the fewest actions. *)
Lemma someone_is_last (st : state) (n : nat) :
  0 < n -> exists r, r < n /\ forall p, p < n -> st r <= st p.
Proof.
  induction n as [|n IH]; [lia|]. intros _.
  destruct n as [|n].
  - exists 0. split; [lia|]. intros p ?. replace p with 0 by lia. lia.
  - destruct (IH ltac:(lia)) as (r & ? & least).
    destruct (le_lt_dec (st r) (st (S n))).
    + exists r. split; [lia|]. intros p ?.
      destruct (Nat.eq_dec p (S n)) as [->|]; [lia|]. apply least. lia.
    + exists (S n). split; [lia|]. intros p ?.
      destruct (Nat.eq_dec p (S n)) as [->|]; [lia|].
      specialize (least p ltac:(lia)). lia.
Qed.

Lemma within (st : state) :
  reachable st -> forall r, st r <= last.
Proof.
  induction 1 as [st start|st st' _ IH (r & _ & (open & _) & next & others)].
  - intro r. rewrite start. lia.
  - intro p. destruct (Nat.eq_dec p r) as [->|differs].
    + lia.
    + now rewrite (others p differs).
Qed.

(** Whatever has been run, someone can go on, or all is done. *)
Theorem no_deadlock (st : state) :
  reachable st -> ~ finished st -> exists st', step st st'.
Proof.
  intros reached open.
  destruct (Nat.eq_dec ranks 0) as [none|some].
  { exfalso. apply open. intros r ?. lia. }
  destruct (someone_is_last st ranks ltac:(lia)) as (r & small & least).
  assert (st r < last) as undone.
  { destruct (le_lt_dec last (st r)) as [done|]; [exfalso|assumption].
    apply open. intros p ?.
    pose proof (within st reached p). specialize (least p ltac:(lia)). lia. }
  exists (fun p => if Nat.eq_dec p r then S (st r) else st p).
  exists r. repeat split; try assumption.
  - intros p ?. etransitivity; [apply peers_as_far_are_far_enough|].
    apply total_grows. apply least. lia.
  - now destruct (Nat.eq_dec r r).
  - intros p differs. now destruct (Nat.eq_dec p r).
Qed.

(** A step is one action of one rank, of which there are finitely many. *)
Theorem every_step_runs_an_action (st st' : state) :
  step st st' ->
  exists r, r < ranks /\ st r < last /\ st' r = S (st r) /\
    forall p, p <> r -> st' p = st p.
Proof. intros (r & ? & (? & _) & ? & ?). now exists r. Qed.

(** ** A signal names its wave *)

(** Nobody has waited for more signals of a peer than it has sent. *)
Lemma never_ahead (st : state) :
  reachable st -> forall r p, r < ranks -> p < ranks ->
  waited r p (st r) <= signalled p r (st p).
Proof.
  induction 1 as [st start|st st' _ IH (r & _ & (_ & go) & next & others)].
  - intros r p _ _. rewrite !start. unfold waited. simpl. lia.
  - intros q p small small'.
    assert (signalled p q (st p) <= signalled p q (st' p)) as grown.
    { apply total_grows. destruct (Nat.eq_dec p r) as [->|differs].
      - lia.
      - now rewrite (others p differs). }
    destruct (Nat.eq_dec q r) as [->|differs].
    + rewrite next. specialize (go p small'). lia.
    + rewrite (others q differs). specialize (IH q p small small'). lia.
Qed.

(** When a rank puts in a wave, its receiver has said so in this wave: it has
    run all that stands before that in its stream, among it whoever read what
    was in the slot. *)
Theorem a_put_finds_its_slot_free (st : state) (r p : rank) (w : nat) :
  reachable st -> r < ranks -> p < ranks ->
  sends w r p = true -> 4 * w + 2 <= st r -> 4 * w + 1 <= st p.
Proof.
  intros reached ? ? message far.
  pose proof (never_ahead st reached r p ltac:(lia) ltac:(lia)) as enough.
  destruct (le_lt_dec (4 * w + 1) (st p)) as [|short]; [assumption|exfalso].
  pose proof (total_grows (wait r p) _ _ far) as waits.
  pose proof (total_grows (signal p r) (st p) (4 * w) ltac:(lia)) as signals.
  fold (waited r p) in waits. fold (signalled p r) in signals.
  rewrite waited_2, message in waits. cbn [one] in waits. lia.
Qed.

(** When a rank has waited for what is put in a wave, it is there. *)
Theorem what_is_waited_for_is_there (st : state) (r p : rank) (w : nat) :
  reachable st -> r < ranks -> p < ranks ->
  sends w p r = true -> 4 * w + 4 <= st r -> 4 * w + 3 <= st p.
Proof.
  intros reached ? ? message far.
  pose proof (never_ahead st reached r p ltac:(lia) ltac:(lia)) as enough.
  destruct (le_lt_dec (4 * w + 3) (st p)) as [|short]; [assumption|exfalso].
  pose proof (total_grows (wait r p) _ _ far) as waits.
  pose proof (total_grows (signal p r) (st p) (4 * w + 2) ltac:(lia))
    as signals.
  fold (waited r p) in waits. fold (signalled p r) in signals.
  rewrite waited_4, message in waits. rewrite signalled_2 in signals.
  cbn [one] in waits. lia.
Qed.

End Signals.
