(* Coverage.v - Disjoint pieces of the right volume cover what is wanted.

   What a device wants of a tensor is a finite set of elements. Pieces that lie
   inside it, share no element, and have as many elements as it, cover it, each
   element once. For any number of dims, pieces and elements. *)

From Coq Require Import Arith Bool Lia List ZArith.
From DynaTrain Require Import Boxes.
Import ListNotations.

Definition sum (numbers : list nat) : nat := fold_right plus 0 numbers.

Definition all_elements (pieces : list box) : list element :=
  flat_map elements pieces.

Lemma count_of_all pieces :
  length (all_elements pieces) = sum (map volume pieces).
Proof.
  induction pieces as [|b pieces IH]; simpl; [reflexivity|].
  rewrite app_length, volume_counts, IH. reflexivity.
Qed.

Lemma in_all pieces e :
  In e (all_elements pieces) <-> exists b, In b pieces /\ holds b e.
Proof.
  unfold all_elements. rewrite in_flat_map. split;
    intros [b [Hb He]]; exists b; (split; [assumption|]);
    apply in_elements; assumption.
Qed.

Lemma all_once pieces :
  pairwise_disjoint pieces -> NoDup (all_elements pieces).
Proof.
  induction 1 as [|b pieces Hb Hpieces IH]; simpl; [constructor|].
  rewrite Forall_forall in Hb.
  assert (Hapart : forall e, In e (elements b) -> ~ In e (all_elements pieces)).
  { intros e He Hall. apply in_all in Hall. destruct Hall as [c [Hc Hhold]].
    apply in_elements in He. apply (Hb c Hc e). auto. }
  revert Hapart IH. generalize (all_elements pieces) as tail. clear.
  intros tail Hapart Htail.
  pose proof (elements_once b) as Honce.
  induction Honce as [|e l He Hl IH]; simpl; [assumption|].
  constructor.
  - rewrite in_app_iff. intros [Hin|Hin]; [contradiction|].
    apply (Hapart e); [left; reflexivity|assumption].
  - apply IH. intros e' He'. apply Hapart. right. assumption.
Qed.

(** Each wanted element is in one piece, and in one only. *)
Definition covers_once (pieces : list box) (wanted : list element) : Prop :=
  forall e, In e wanted ->
  exists i, i < length pieces /\ holds (nth i pieces []) e /\
  forall j, j < length pieces -> holds (nth j pieces []) e -> j = i.

Lemma only_once pieces : pairwise_disjoint pieces ->
  forall i j e, i < length pieces -> j < length pieces ->
  holds (nth i pieces []) e -> holds (nth j pieces []) e -> i = j.
Proof.
  induction 1 as [|b pieces Hb Hpieces IH]; simpl; [lia|].
  rewrite Forall_forall in Hb.
  intros [|i] [|j] e Hi Hj He He'; try reflexivity.
  - exfalso. apply (Hb (nth j pieces []) ltac:(apply nth_In; lia) e). auto.
  - exfalso. apply (Hb (nth i pieces []) ltac:(apply nth_In; lia) e). auto.
  - f_equal. apply IH with e; auto; lia.
Qed.

Theorem count_is_complete pieces wanted :
  NoDup wanted ->
  (forall b e, In b pieces -> holds b e -> In e wanted) ->
  pairwise_disjoint pieces ->
  sum (map volume pieces) = length wanted ->
  covers_once pieces wanted.
Proof.
  intros Hwanted Hinside Hdisjoint Hsum e He.
  assert (Hall : In e (all_elements pieces)).
  { revert e He. apply NoDup_length_incl.
    - apply all_once. assumption.
    - rewrite count_of_all, Hsum. apply Nat.le_refl.
    - intros e He. apply in_all in He. destruct He as [b [Hb He]].
      apply Hinside with b; assumption. }
  apply in_all in Hall. destruct Hall as [b [Hb Hhold]].
  destruct (In_nth pieces b [] Hb) as [i [Hi <-]].
  exists i. split; [assumption|]. split; [assumption|].
  intros j Hj Hj'. apply (only_once pieces Hdisjoint j i e); assumption.
Qed.

(** The check refuses no plan that is right. *)
Theorem count_is_needed pieces wanted :
  NoDup wanted ->
  (forall b e, In b pieces -> holds b e -> In e wanted) ->
  pairwise_disjoint pieces ->
  covers_once pieces wanted ->
  sum (map volume pieces) = length wanted.
Proof.
  intros Hwanted Hinside Hdisjoint Hcovers.
  rewrite <- count_of_all. apply Nat.le_antisymm.
  - apply NoDup_incl_length; [apply all_once; assumption|].
    intros e He. apply in_all in He. destruct He as [b [Hb He]].
    apply Hinside with b; assumption.
  - apply NoDup_incl_length; [assumption|].
    intros e He. apply in_all. destruct (Hcovers e He) as [i [Hi [Hhold _]]].
    exists (nth i pieces []). split; [apply nth_In|]; assumption.
Qed.
