(* KernelPlans.v - However a group is cut, its rounds ascend.

   NCCL puts the operations of a group into kernel plans, round by round
   (scheduleP2pTasksToPlan in src/enqueue.cc): a visit of a round takes the
   first message to that round's peer and the first from it. When the plan is
   full it is cut off, and the next one goes on in the same round, or again at
   round 0, as NCCL up to 2.29.3 does. Further messages of a pair wait for the
   next pass over the rounds. A plan is full by a budget that each rank counts
   for itself, so here a cut may fall anywhere, at every rank elsewhere.

   With one message per ordered pair and group, every rank takes its messages in
   ascending rounds. What is taken later may wait for what was taken before, in
   whatever batches, channels and kernel plans: no rank waits for ever. *)

From Coq Require Import Arith Bool Lia List.
From DynaTrain Require Import Machine Rounds.
Import ListNotations.

Section Scan.

Variable count : nat. (* of rounds *)
Variable peers : rank -> nat -> rank * rank. (* to, from, in a round *)

(** Rank r has message m in round k. *)
Definition expects (r : rank) (k : nat) (m : message) : bool :=
  (source m =? r) && (fst (peers r k) =? target m) ||
  (target m =? r) && (snd (peers r k) =? source m).

Definition same_pair (m o : message) : bool :=
  (source m =? source o) && (target m =? target o).

(** The first of its pair that is left, with all its parts. *)
Definition is_first (left : list message) (m : message) : bool :=
  forallb (fun o => negb (same_pair m o) || (number m <=? number o)) left.

Definition taken (r : rank) (k : nat) (left : list message) : list message :=
  filter (fun m => expects r k m && is_first left m) left.
Definition left_over (r : rank) (k : nat) (left : list message)
    : list message :=
  filter (fun m => negb (expects r k m && is_first left m)) left.

(** [scan r left k works]: with these messages left and round k to visit next,
    rank r takes these works, one after the other. *)
Inductive scan (r : rank)
    : list message -> nat -> list (list message) -> Prop :=
  | scan_end k : scan r [] k []
  | scan_visit left k works :
      k < count -> scan r (left_over r k left) (S k) works ->
      scan r left k (taken r k left :: works)
  | scan_next_pass left works :
      scan r left 0 works -> scan r left count works
  | scan_cut left k resume works :
      resume = k \/ resume = 0 -> scan r left resume works ->
      scan r left k works.

(** m is taken in an earlier work than m'. *)
Fixpoint before (works : list (list message)) (m m' : message) : Prop :=
  match works with
  | [] => False
  | work :: more =>
      (In m work /\ In m' (concat more)) \/ before more m m'
  end.

(** ** What is taken *)

Variable r : rank.
Variable round : message -> nat.

(** Every message of the group has a round, in which r expects it, and only
    there; it is the only one of its pair. *)
Definition in_its_round (group : list message) : Prop :=
  forall m, In m group ->
  round m < count /\ number m = 0 /\
  forall k, k < count -> (expects r k m = true <-> k = round m).

Lemma taken_iff group k m :
  in_its_round group -> k < count -> In m group ->
  (In m (taken r k group) <-> round m = k) /\
  (In m (left_over r k group) <-> round m <> k).
Proof.
  intros Hrounds Hk Hm. unfold taken, left_over. rewrite !filter_In.
  destruct (Hrounds m Hm) as [_ [Hnumber Hexpects]].
  specialize (Hexpects k Hk).
  assert (Hfirst : is_first group m = true).
  { apply forallb_forall. intros o _. rewrite Hnumber.
    apply orb_true_iff. right. reflexivity. }
  rewrite Hfirst, andb_true_r.
  assert (Hsym : round m = k <-> k = round m) by (split; auto).
  rewrite Hsym, <- Hexpects.
  destruct (expects r k m); simpl; intuition discriminate.
Qed.

Lemma left_over_incl group k : incl (left_over r k group) group.
Proof. intros m Hm. apply filter_In in Hm. tauto. Qed.

Lemma in_its_round_incl group group' :
  incl group' group -> in_its_round group -> in_its_round group'.
Proof. intros Hincl H m Hm. apply H, Hincl, Hm. Qed.

(** Nothing of a lower round than the one to visit is left: the scan takes all
    that is left, and takes it in ascending rounds. *)
Lemma scan_ascends group k works :
  scan r group k works -> in_its_round group ->
  (forall m, In m group -> k <= round m) ->
  (forall m, In m (concat works) <-> In m group) /\
  (forall m m', before works m m' -> round m < round m').
Proof.
  intros Hscan. induction Hscan as
    [k | group k works Hk Hscan IH | group works Hscan IH
    | group k resume works Hresume Hscan IH]; intros Hrounds Hlow.
  - split; [simpl; tauto|intros m m' []].
  - assert (Hincl := left_over_incl group k).
    destruct IH as [Hall Hasc].
    { apply in_its_round_incl with group; assumption. }
    { intros m Hm. specialize (Hlow m (Hincl m Hm)).
      apply (taken_iff group k m Hrounds Hk (Hincl m Hm)) in Hm. lia. }
    assert (Htaken : incl (taken r k group) group).
    { intros m Hm. apply filter_In in Hm. tauto. }
    split.
    + intros m. simpl. rewrite in_app_iff, Hall. split.
      * intros [Hm|Hm]; [apply Htaken|apply Hincl]; assumption.
      * intros Hm. destruct (taken_iff group k m Hrounds Hk Hm) as [T L].
        rewrite T, L. destruct (Nat.eq_dec (round m) k); tauto.
    + simpl. intros m m' [[Hm Hm']|Hbefore]; [|auto].
      apply Hall in Hm'.
      apply (taken_iff group k m Hrounds Hk (Htaken m Hm)) in Hm.
      pose proof (Hincl m' Hm') as Hin'. pose proof (Hlow m' Hin').
      apply (taken_iff group k m' Hrounds Hk Hin') in Hm'. lia.
  - apply IH; [assumption|]. intros m Hm. lia.
  - apply IH; [assumption|]. intros m Hm. specialize (Hlow m Hm). lia.
Qed.

Theorem cuts_keep_rounds group works :
  scan r group 0 works -> in_its_round group ->
  (forall m, In m (concat works) <-> In m group) /\
  (forall m m', before works m m' -> round m < round m').
Proof.
  intros Hscan Hrounds. apply scan_ascends with 0; try assumption.
  intros m Hm. lia.
Qed.

(** There is such a scan: the one that is never cut. *)
Theorem every_group_can_be_taken group :
  in_its_round group -> exists works, scan r group 0 works.
Proof.
  intros Hrounds.
  assert (Hfrom : forall steps k group, k + steps = count ->
    in_its_round group -> (forall m, In m group -> k <= round m) ->
    exists works, scan r group k works).
  { clear group Hrounds.
    induction steps as [|steps IH]; intros k group Hk Hrounds Hlow.
    - destruct group as [|m group].
      + exists []. constructor.
      + exfalso. destruct (Hrounds m (or_introl eq_refl)) as [Hround _].
        specialize (Hlow m (or_introl eq_refl)). lia.
    - assert (Hincl := left_over_incl group k).
      destruct (IH (S k) (left_over r k group)) as [works Hscan].
      + lia.
      + apply in_its_round_incl with group; assumption.
      + intros m Hm. specialize (Hlow m (Hincl m Hm)).
        apply (taken_iff group k m Hrounds) in Hm;
          [lia|lia|apply Hincl; assumption].
      + exists (taken r k group :: works). apply scan_visit; [lia|assumption]. }
  apply (Hfrom count 0); [lia|assumption|]. intros m Hm. lia.
Qed.

End Scan.

(** ** Plans on NCCL *)

Section Plans.

(** NCCL's schedule of [groups_of_ranks] groups of [places] ranks. *)
Variables groups_of_ranks places power : nat.
Hypothesis some_groups : groups_of_ranks <= 2 ^ power.
Hypothesis some_places : places <> 0.

Let size := ranks groups_of_ranks places.
Let count := length (rounds groups_of_ranks places power).
Let peers (r k : nat) : nat * nat :=
  nth k (schedule groups_of_ranks places power r) (0, 0).
Let pair_round := round groups_of_ranks places power.

Variable ahead : rank -> message -> message -> bool.

(** Every rank takes each of its groups apart, with cuts of its own; what is
    ahead of a message was taken in an earlier work. *)
Definition taken_apart (plan : program) : Prop :=
  forall r group, r < size -> In group (groups (plan r)) ->
  exists works, scan count peers r group 0 works /\
  forall m m', In m group -> In m' group ->
  ahead r m m' = true -> before works m m'.

Lemma peers_at r k : k < count ->
  nth_error (schedule groups_of_ranks places power r) k = Some (peers r k).
Proof.
  intros Hk. unfold peers. apply nth_error_nth'. unfold schedule.
  rewrite map_length. assumption.
Qed.

Lemma plan_in_its_rounds plan r group :
  keeps_the_rules size plan -> r < size -> In group (groups (plan r)) ->
  in_its_round count peers r (fun m => pair_round (source m) (target m)) group.
Proof.
  intros Hplan Hr Hgroup m Hm.
  assert (Hin : In m (concat (groups (plan r)))).
  { apply in_concat. exists group. auto. }
  destruct (rule_ends _ _ (proj1 Hplan) r m Hr Hin) as [Hends [Hneq [Hs Ht]]].
  pose proof (every_pair_has_a_round _ _ power some_groups some_places
                (source m) (target m) Hs Ht) as [Hlast Hlength].
  split; [|split].
  - unfold count. rewrite <- Hlength. exact Hlast.
  - apply (proj2 Hplan r m Hr Hin).
  - intros k Hk.
    pose proof (peers_at (source m) k Hk) as P1.
    pose proof (peers_at (target m) k Hk) as P2.
    destruct (peers (source m) k) as [to from] eqn:E1.
    destruct (peers (target m) k) as [to' from'] eqn:E2.
    destruct (rounds_agree _ _ power some_groups some_places
                (source m) (target m) k to from to' from' Hs Ht P1 P2)
      as [Hto Hfrom].
    unfold expects. fold pair_round in Hto, Hfrom.
    rewrite orb_true_iff, !andb_true_iff, !Nat.eqb_eq.
    destruct Hends as [<-|<-].
    + rewrite E1. simpl. intuition congruence.
    + rewrite E2. simpl. intuition congruence.
Qed.

Lemma taken_apart_keeps_rounds plan :
  keeps_the_rules size plan -> taken_apart plan ->
  keeps_rounds size ahead pair_round plan.
Proof.
  intros Hplan Htaken r group Hr Hgroup m m' Hm Hm' Hahead.
  destruct (Htaken r group Hr Hgroup) as [works [Hscan Hworks]].
  destruct (cuts_keep_rounds count peers r _ group works Hscan
              (plan_in_its_rounds plan r group Hplan Hr Hgroup)) as [_ Hasc].
  apply Hasc. apply Hworks; assumption.
Qed.

(** A plan that keeps the rules never gets stuck on NCCL, wherever its groups
    are cut, and wherever local work stands between the groups. *)
Theorem nccl_never_deadlocks lazy plan st :
  keeps_the_rules size plan -> taken_apart plan ->
  reachable size ahead (start_of plan) st ->
  finished size st \/ exists st', step size ahead lazy st st'.
Proof.
  intros Hplan Htaken. apply no_deadlock with pair_round; [assumption|].
  apply taken_apart_keeps_rounds; assumption.
Qed.

Theorem nccl_runs_end lazy plan steps st :
  keeps_the_rules size plan -> taken_apart plan ->
  run size ahead lazy steps (start_of plan) st ->
  steps <= total (start_of plan) size /\
  ((forall st', ~ step size ahead lazy st st') -> finished size st).
Proof.
  intros Hplan Htaken. apply every_run_ends with pair_round; [assumption|].
  apply taken_apart_keeps_rounds; assumption.
Qed.

(** Transports that take nothing apart (sockets, shared memory, loopback): no
    message of a group is ever behind another. *)
Theorem free_groups_never_deadlock lazy plan st :
  keeps_the_rules size plan -> (forall r m m', ahead r m m' = false) ->
  reachable size ahead (start_of plan) st ->
  finished size st \/ exists st', step size ahead lazy st st'.
Proof.
  intros Hplan Hfree. apply no_deadlock with pair_round; [assumption|].
  intros r group Hr Hgroup m m' Hm Hm' Hahead. rewrite Hfree in Hahead.
  discriminate.
Qed.

End Plans.
