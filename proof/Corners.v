(* Corners.v - Boxes hold every element once exactly when their corners cancel.

   In one dim a box is two corners: it counts from where it begins, and counts
   no more from where it ends. What it counts there is what it is in the dims
   that are left, with a sign: +1 for a box that is written, -1 for the shard
   that should be. All count to nothing everywhere exactly if the corners that
   lie at one place do, for every place; these are boxes again, of one dim less
   (Cover::cancel in runtime/verify/Cover.cpp). Where no dim is left a box is its
   sign. *)

From Coq Require Import Arith Lia List ZArith.
Import ListNotations.

Local Open Scope Z_scope.

Section Corners.

(** Places in the dims that are left. *)
Variable Rest : Type.

(** From [from] up to [upto] in this dim; [weight] is what it counts elsewhere,
    sign included. *)
Record box := { from : nat; upto : nat; weight : Rest -> Z }.
Record corner := { place : nat; change : Rest -> Z }.

Definition inside (b : box) (x : nat) : bool :=
  ((from b <=? x) && (x <? upto b))%nat%bool.

(** How much all boxes count at [x] and [y]. *)
Fixpoint counted (boxes : list box) (x : nat) (y : Rest) : Z :=
  match boxes with
  | [] => 0
  | b :: more => (if inside b x then weight b y else 0) + counted more x y
  end.

Fixpoint corners (boxes : list box) : list corner :=
  match boxes with
  | [] => []
  | b :: more =>
      {| place := from b; change := weight b |}
      :: {| place := upto b; change := fun y => - weight b y |}
      :: corners more
  end.

Fixpoint changes (keep : nat -> bool) (list : list corner) (y : Rest) : Z :=
  match list with
  | [] => 0
  | c :: more => (if keep (place c) then change c y else 0) + changes keep more y
  end.

(** What the corners at one place count together. *)
Definition at_place (list : list corner) (p : nat) : Rest -> Z :=
  changes (fun q => q =? p)%nat list.
Definition up_to (list : list corner) (x : nat) : Rest -> Z :=
  changes (fun q => q <=? x)%nat list.

Lemma up_to_zero list y : up_to list 0 y = at_place list 0 y.
Proof.
  unfold up_to, at_place. induction list as [|c list IH]; simpl; [reflexivity|].
  rewrite IH. f_equal. destruct (place c); reflexivity.
Qed.

Lemma up_to_next list x y :
  up_to list (S x) y = up_to list x y + at_place list (S x) y.
Proof.
  unfold up_to, at_place. induction list as [|c list IH]; [reflexivity|].
  cbn [changes]. rewrite IH.
  destruct (Nat.leb_spec (place c) (S x)), (Nat.leb_spec (place c) x),
    (Nat.eqb_spec (place c) (S x)); lia.
Qed.

Lemma counted_by_corners boxes x y :
  (forall b, In b boxes -> (from b <= upto b)%nat) ->
  counted boxes x y = up_to (corners boxes) x y.
Proof.
  unfold up_to. induction boxes as [|b boxes IH]; intros Hboxes;
    [reflexivity|].
  cbn [counted corners changes place change].
  rewrite IH by (intros c Hc; apply Hboxes; right; exact Hc).
  specialize (Hboxes b (or_introl eq_refl)). unfold inside.
  destruct (Nat.leb_spec (from b) x), (Nat.ltb_spec x (upto b)),
    (Nat.leb_spec (upto b) x); cbn [andb]; lia.
Qed.

Theorem corners_cancel boxes :
  (forall b, In b boxes -> (from b <= upto b)%nat) ->
  (forall x y, counted boxes x y = 0) <->
  (forall p y, at_place (corners boxes) p y = 0).
Proof.
  intros Hboxes. split.
  - intros Hnothing p y.
    destruct p as [|p].
    + rewrite <- up_to_zero, <- counted_by_corners by assumption.
      apply Hnothing.
    + pose proof (up_to_next (corners boxes) p y) as Hnext.
      rewrite <- !counted_by_corners, !Hnothing in Hnext by assumption. lia.
  - intros Hcancel x y. rewrite counted_by_corners by assumption.
    induction x as [|x IH].
    + rewrite up_to_zero. apply Hcancel.
    + rewrite up_to_next, IH, Hcancel. reflexivity.
Qed.

End Corners.

(** The shard is a box of weight -1: then written boxes count once where it is
    and nowhere else. *)
Theorem written_once (Rest : Type) boxes shard :
  (forall b, In b boxes -> (from Rest b <= upto Rest b)%nat) ->
  (from Rest shard <= upto Rest shard)%nat ->
  let minus := {| from := from Rest shard; upto := upto Rest shard;
                  weight := fun y => - weight Rest shard y |} in
  (forall p y, at_place Rest (corners Rest (minus :: boxes)) p y = 0) <->
  (forall x y, counted Rest boxes x y = counted Rest [shard] x y).
Proof.
  intros Hboxes Hshard minus.
  rewrite <- corners_cancel.
  - assert (Hminus : forall x, inside Rest minus x = inside Rest shard x)
      by reflexivity.
    split; intros H x y; specialize (H x y); cbn [counted] in *;
      rewrite Hminus in *; cbn [weight minus] in *;
      destruct (inside Rest shard x); lia.
  - intros b [<-|Hb]; [exact Hshard|]. apply Hboxes. exact Hb.
Qed.
