(* Boxes.v - Boxes of elements, and that their volume counts them. *)

From Coq Require Import Arith Bool FinFun Lia List Permutation ZArith.
Import ListNotations.

Local Open Scope Z_scope.

(** An element is its coordinates; a box is a half-open interval per dim. *)
Definition element := list Z.
Definition box := list (Z * Z).

Definition holds (b : box) (e : element) : Prop :=
  Forall2 (fun side x => fst side <= x < snd side) b e.

Definition disjoint (a b : box) : Prop := forall e, ~ (holds a e /\ holds b e).

Lemma disjoint_sym a b : disjoint a b -> disjoint b a.
Proof. intros H e [Hb Ha]. apply (H e). auto. Qed.

(** ** The elements of a box *)

Definition interval (side : Z * Z) : list Z :=
  map (fun k => fst side + Z.of_nat k)
    (seq 0 (Z.to_nat (snd side - fst side))).

Fixpoint elements (b : box) : list element :=
  match b with
  | [] => [[]]
  | side :: more =>
      flat_map (fun x => map (cons x) (elements more)) (interval side)
  end.

Fixpoint volume (b : box) : nat :=
  match b with
  | [] => 1
  | side :: more => Z.to_nat (snd side - fst side) * volume more
  end.

Lemma in_interval side x : In x (interval side) <-> fst side <= x < snd side.
Proof.
  unfold interval. rewrite in_map_iff. split.
  - intros [k [<- Hk]]. apply in_seq in Hk. lia.
  - intros H. exists (Z.to_nat (x - fst side)). split; [lia|].
    apply in_seq. lia.
Qed.

Lemma in_elements b : forall e, In e (elements b) <-> holds b e.
Proof.
  induction b as [|side b IH]; intros e; simpl.
  - split.
    + intros [<-|[]]. constructor.
    + intros H. inversion H. auto.
  - rewrite in_flat_map. split.
    + intros [x [Hx He]]. apply in_map_iff in He. destruct He as [e' [<- He']].
      constructor; [apply in_interval; assumption|apply IH; assumption].
    + intros H. inversion H as [|s x bs e' Hside Hmore]; subst.
      exists x. split; [apply in_interval; assumption|].
      apply in_map. apply IH. assumption.
Qed.

Lemma elements_once b : NoDup (elements b).
Proof.
  induction b as [|side b IH]; simpl.
  - repeat constructor. intros [].
  - assert (Hside : NoDup (interval side)).
    { apply Injective_map_NoDup; [|apply seq_NoDup]. intros j k H. lia. }
    induction Hside as [|x l Hnot Hside IHside]; simpl; [constructor|].
    assert (Hhead : NoDup (map (cons x) (elements b))).
    { apply Injective_map_NoDup; [|assumption].
      intros e e' H. injection H. auto. }
    assert (Hapart : forall e, In e (map (cons x) (elements b)) ->
      ~ In e (flat_map (fun x => map (cons x) (elements b)) l)).
    { intros e He Htail. apply in_map_iff in He. destruct He as [e1 [<- _]].
      apply in_flat_map in Htail. destruct Htail as [y [Hy Htail]].
      apply in_map_iff in Htail. destruct Htail as [e2 [E _]].
      injection E as -> _. contradiction. }
    revert Hhead Hapart IHside.
    generalize (map (cons x) (elements b)) as head.
    generalize (flat_map (fun x => map (cons x) (elements b)) l) as tail.
    intros tail head Hhead Hapart Htail.
    induction Hhead as [|e head He Hhead IHhead]; simpl; [assumption|].
    constructor.
    + rewrite in_app_iff. intros [Hin|Hin]; [contradiction|].
      apply (Hapart e); [left; reflexivity|assumption].
    + apply IHhead. intros e' He'. apply Hapart. right. assumption.
Qed.

Lemma volume_counts b : length (elements b) = volume b.
Proof.
  induction b as [|side b IH]; simpl; [reflexivity|].
  assert (Hlength : length (interval side) = Z.to_nat (snd side - fst side)).
  { unfold interval. rewrite map_length, seq_length. reflexivity. }
  rewrite <- Hlength. clear Hlength.
  induction (interval side) as [|x l IHl]; simpl; [reflexivity|].
  rewrite app_length, map_length. f_equal; [exact IH|exact IHl].
Qed.

(** ** Whether two boxes share an element *)

Fixpoint overlap (a b : box) : bool :=
  match a, b with
  | [], [] => true
  | s :: a', t :: b' =>
      (Z.max (fst s) (fst t) <? Z.min (snd s) (snd t)) && overlap a' b'
  | _, _ => false
  end.

Lemma overlap_iff a : forall b,
  overlap a b = true <-> exists e, holds a e /\ holds b e.
Proof.
  induction a as [|s a IH]; intros [|t b]; simpl.
  - split; [|reflexivity]. intros _. exists []. split; constructor.
  - split; [discriminate|]. intros [e [Ha Hb]].
    inversion Ha; subst. inversion Hb.
  - split; [discriminate|]. intros [e [Ha Hb]].
    inversion Hb; subst. inversion Ha.
  - rewrite andb_true_iff, Z.ltb_lt, IH. split.
    + intros [Hlt [e [Ha Hb]]].
      exists (Z.max (fst s) (fst t) :: e).
      split; constructor; try assumption; lia.
    + intros [e [Ha Hb]]. inversion Ha as [|? x ? e' Hs Ha']; subst.
      inversion Hb as [|? ? ? ? Ht Hb']; subst. split; [lia|]. eauto.
Qed.

Lemma overlap_false a b : overlap a b = false <-> disjoint a b.
Proof.
  rewrite <- not_true_iff_false, overlap_iff. unfold disjoint. split.
  - intros H e He. apply H. eauto.
  - intros H [e He]. exact (H e He).
Qed.

(** Boxes of which one ends where the other begins, in some dim. *)
Definition low (d : nat) (b : box) : Z := fst (nth d b (0, 0)).
Definition high (d : nat) (b : box) : Z := snd (nth d b (0, 0)).

Lemma apart_in_a_dim d : forall a b,
  (d < length a)%nat -> high d a <= low d b -> disjoint a b.
Proof.
  induction d as [|d IH]; intros [|s a] [|t b] Hd Hle e [Ha Hb];
    simpl in Hd; try lia.
  - inversion Ha; subst. inversion Hb.
  - inversion Ha as [|? x ? e' Hs Ha']; subst.
    inversion Hb as [|? ? ? ? Ht Hb']; subst.
    unfold high, low in Hle. simpl in Hle. lia.
  - inversion Ha; subst. inversion Hb.
  - inversion Ha as [|? x ? e' Hs Ha']; subst.
    inversion Hb as [|? ? ? ? Ht Hb']; subst.
    apply (IH a b) with (e := e'); [lia|exact Hle|auto].
Qed.

(** ** Pairwise *)

(** Any two of these boxes, at different places, share no element. *)
Definition pairwise_disjoint (boxes : list box) : Prop :=
  ForallOrdPairs disjoint boxes.

Lemma pairs_app (R : box -> box -> Prop) l : forall l',
  ForallOrdPairs R (l ++ l') <->
  ForallOrdPairs R l /\ ForallOrdPairs R l' /\
  (forall a b, In a l -> In b l' -> R a b).
Proof.
  induction l as [|x l IH]; intros l'; simpl.
  - split; [|tauto]. intros H. split; [constructor|]. split; [assumption|].
    intros a b [].
  - split.
    + intros H. inversion H as [|y ys Hx Hl]; subst. apply IH in Hl.
      destruct Hl as [H1 [H2 H3]]. rewrite Forall_app in Hx.
      destruct Hx as [Hx1 Hx2]. rewrite Forall_forall in Hx2.
      split; [constructor; assumption|]. split; [assumption|].
      intros a b [<-|Ha] Hb; auto.
    + intros [H1 [H2 H3]]. inversion H1 as [|y ys Hx Hl]; subst.
      constructor.
      * apply Forall_app. split; [assumption|]. apply Forall_forall. auto.
      * apply IH. split; [assumption|]. split; auto.
Qed.

Lemma pairs_permuted l l' :
  Permutation l l' -> pairwise_disjoint l -> pairwise_disjoint l'.
Proof.
  unfold pairwise_disjoint. induction 1 as
    [|x l l' Hperm IH|x y l|l l' l'' H1 IH1 H2 IH2]; intros H; auto.
  - inversion H as [|z zs Hx Hl]; subst. constructor; [|auto].
    rewrite Forall_forall in *. intros b Hb. apply Hx.
    apply Permutation_in with l'; [apply Permutation_sym|]; assumption.
  - inversion H as [|z zs Hy Hl]; subst. inversion Hl as [|z zs Hx Hl']; subst.
    inversion Hy as [|z zs Hyx Hyl]; subst.
    repeat constructor; auto using disjoint_sym.
Qed.
