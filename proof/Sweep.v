(* Sweep.v - The sweep finds two boxes that share an element, if there are any.

   Boxes are sorted by where they begin in a dim and cut into runs: a box that
   begins at or beyond the end of all before it starts a new one. Boxes of
   different runs share no element; each run is swept in the next dim. What is
   left together in every dim is compared pair by pair (Arrivals::sweep of the
   compiler). *)

From Coq Require Import Bool Lia List Permutation Sorting.Sorted ZArith.
From DynaTrain Require Import Boxes.
Import ListNotations.

Local Open Scope Z_scope.

(** ** Sorting by where boxes begin *)

Fixpoint insert (d : nat) (b : box) (sorted : list box) : list box :=
  match sorted with
  | [] => [b]
  | c :: more =>
      if low d b <=? low d c then b :: sorted else c :: insert d b more
  end.

Fixpoint sort (d : nat) (boxes : list box) : list box :=
  match boxes with
  | [] => []
  | b :: more => insert d b (sort d more)
  end.

Definition in_order (d : nat) : list box -> Prop :=
  StronglySorted (fun a b => low d a <= low d b).

Lemma insert_permutes d b l : Permutation (b :: l) (insert d b l).
Proof.
  induction l as [|c l IH]; simpl; [auto|].
  destruct (low d b <=? low d c); [auto|].
  rewrite perm_swap. apply perm_skip. assumption.
Qed.

Lemma sort_permutes d l : Permutation l (sort d l).
Proof.
  induction l as [|b l IH]; simpl; [constructor|].
  rewrite IH at 1. apply insert_permutes.
Qed.

Lemma insert_in_order d b l : in_order d l -> in_order d (insert d b l).
Proof.
  induction 1 as [|c l Hl IH Hc]; simpl.
  - repeat constructor.
  - destruct (Z.leb_spec (low d b) (low d c)).
    + repeat constructor; auto. apply Forall_forall. intros x Hx.
      rewrite Forall_forall in Hc. specialize (Hc x Hx). simpl in Hc. lia.
    + constructor; [assumption|]. apply Forall_forall. intros x Hx.
      apply (Permutation_in _ (Permutation_sym (insert_permutes d b l))) in Hx.
      destruct Hx as [<-|Hx]; [lia|]. rewrite Forall_forall in Hc. auto.
Qed.

Lemma sort_in_order d l : in_order d (sort d l).
Proof.
  induction l as [|b l IH]; simpl; [constructor|]. apply insert_in_order, IH.
Qed.

(** ** Runs *)

(** [reach]: the largest end of the boxes in [run]. *)
Fixpoint cut_runs (d : nat) (reach : Z) (run rest : list box)
    : list (list box) :=
  match rest with
  | [] => [run]
  | b :: more =>
      if low d b <? reach
      then cut_runs d (Z.max reach (high d b)) (run ++ [b]) more
      else run :: cut_runs d (high d b) [b] more
  end.

Definition runs (d : nat) (boxes : list box) : list (list box) :=
  match sort d boxes with
  | [] => []
  | b :: more => cut_runs d (high d b) [b] more
  end.

Section Runs.

Variable rank : nat.
Variable d : nat.
Hypothesis dim_exists : (d < rank)%nat.

Lemma cut_runs_apart rest : forall reach run,
  (forall b, In b (run ++ rest) -> length b = rank) ->
  (forall b, In b run -> high d b <= reach) ->
  in_order d rest ->
  (pairwise_disjoint (run ++ rest) <->
   Forall pairwise_disjoint (cut_runs d reach run rest)).
Proof.
  induction rest as [|b rest IH]; intros reach run Hrank Hreach Hsorted; simpl.
  - rewrite app_nil_r. split; [auto|]. intros H. inversion H. assumption.
  - inversion Hsorted as [|c l Hrest Hb]; subst. rewrite Forall_forall in Hb.
    destruct (Z.ltb_spec (low d b) reach) as [Hin|Hout].
    + rewrite <- IH; [|..|assumption].
      * rewrite <- app_assoc. reflexivity.
      * intros x. rewrite <- app_assoc. apply Hrank.
      * intros x Hx. apply in_app_or in Hx.
        destruct Hx as [Hx|[<-|[]]]; [specialize (Hreach x Hx)|]; lia.
    + assert (Hcross : forall x y, In x run -> In y (b :: rest) ->
                disjoint x y).
      { intros x y Hx Hy. apply apart_in_a_dim with d.
        - rewrite Hrank; [assumption|]. apply in_or_app. auto.
        - specialize (Hreach x Hx). destruct Hy as [<-|Hy]; [lia|].
          specialize (Hb y Hy). simpl in Hb. lia. }
      rewrite Forall_cons_iff, <- IH; [|..|assumption].
      * unfold pairwise_disjoint. rewrite pairs_app. simpl. tauto.
      * intros x Hx. apply Hrank. apply in_or_app. right. assumption.
      * intros x [<-|[]]. lia.
Qed.

Theorem runs_are_disjoint boxes :
  (forall b, In b boxes -> length b = rank) ->
  (pairwise_disjoint boxes <-> Forall pairwise_disjoint (runs d boxes)).
Proof.
  intros Hrank.
  pose proof (sort_permutes d boxes) as Hperm.
  pose proof (sort_in_order d boxes) as Hsorted.
  assert (Hrank' : forall b, In b (sort d boxes) -> length b = rank).
  { intros b Hb. apply Hrank.
    apply Permutation_in with (sort d boxes); [apply Permutation_sym|];
      assumption. }
  transitivity (pairwise_disjoint (sort d boxes)).
  - split; apply pairs_permuted; [|apply Permutation_sym]; assumption.
  - unfold runs. destruct (sort d boxes) as [|b more].
    + split; constructor.
    + inversion Hsorted; subst.
      rewrite <- (cut_runs_apart more (high d b) [b]); [reflexivity|..];
        try assumption.
      intros x [<-|[]]. lia.
Qed.

Lemma runs_members boxes run b :
  In run (runs d boxes) -> In b run -> In b boxes.
Proof.
  assert (Hcut : forall rest reach start,
    In run (cut_runs d reach start rest) -> In b run -> In b (start ++ rest)).
  { induction rest as [|c rest IH]; intros reach start Hrun Hb; simpl in Hrun.
    - destruct Hrun as [<-|[]]. apply in_or_app. auto.
    - destruct (low d c <? reach).
      + specialize (IH _ _ Hrun Hb). rewrite <- app_assoc in IH. exact IH.
      + destruct Hrun as [<-|Hrun]; [apply in_or_app; auto|].
        apply in_or_app. right. exact (IH _ _ Hrun Hb). }
  unfold runs. intros Hrun Hb.
  apply (Permutation_in _ (Permutation_sym (sort_permutes d boxes))).
  destruct (sort d boxes) as [|c more]; [destruct Hrun|].
  exact (Hcut more _ [c] Hrun Hb).
Qed.

End Runs.

(** ** The sweep *)

Section Sweep.

Variable rank : nat.

(** How what is together in every dim is compared. *)
Variable compare : list box -> bool.
Hypothesis compare_right : forall boxes,
  (forall b, In b boxes -> length b = rank) ->
  (compare boxes = true <-> pairwise_disjoint boxes).

(** [left] more dims, from dim [d] on. True: no two share an element. *)
Fixpoint sweep (left d : nat) (boxes : list box) : bool :=
  match left with
  | O => compare boxes
  | S fewer => forallb (sweep fewer (S d)) (runs d boxes)
  end.

Lemma sweep_from left : forall d boxes,
  (d + left = rank)%nat ->
  (forall b, In b boxes -> length b = rank) ->
  (sweep left d boxes = true <-> pairwise_disjoint boxes).
Proof.
  induction left as [|left IH]; intros d boxes Hdims Hrank; simpl.
  - apply compare_right. assumption.
  - rewrite (runs_are_disjoint rank d) by (assumption || lia).
    rewrite forallb_forall, Forall_forall.
    assert (Heach : forall run, In run (runs d boxes) ->
      (sweep left (S d) run = true <-> pairwise_disjoint run)).
    { intros run Hrun. apply IH; [lia|]. intros b Hb. apply Hrank.
      apply runs_members with d run; assumption. }
    split; intros H run Hrun; apply Heach; auto.
Qed.

Theorem sweep_is_right boxes :
  (forall b, In b boxes -> length b = rank) ->
  (sweep rank 0 boxes = true <-> pairwise_disjoint boxes).
Proof. apply sweep_from. reflexivity. Qed.

End Sweep.

(** ** Pair by pair *)

Fixpoint compare_all (boxes : list box) : bool :=
  match boxes with
  | [] => true
  | b :: more => forallb (fun c => negb (overlap b c)) more && compare_all more
  end.

Lemma compare_all_right boxes :
  compare_all boxes = true <-> pairwise_disjoint boxes.
Proof.
  induction boxes as [|b boxes IH]; simpl.
  - split; [constructor|reflexivity].
  - rewrite andb_true_iff, IH, forallb_forall. split.
    + intros [Hb Hmore]. constructor; [|assumption].
      apply Forall_forall. intros c Hc. apply overlap_false.
      apply negb_true_iff. auto.
    + intros H. inversion H as [|x l Hb Hmore]; subst. split; [|assumption].
      rewrite Forall_forall in Hb. intros c Hc. apply negb_true_iff.
      apply overlap_false. auto.
Qed.

Theorem compiler_sweep_is_right rank boxes :
  (forall b, In b boxes -> length b = rank) ->
  (sweep compare_all rank 0 boxes = true <-> pairwise_disjoint boxes).
Proof.
  apply sweep_is_right. intros. apply compare_all_right.
Qed.
