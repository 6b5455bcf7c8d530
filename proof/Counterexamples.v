(* Counterexamples.v - Each rule is needed.

   Plans that keep all rules but one, and a run of each that ends with ranks
   that wait on each other for ever. *)

From Coq Require Import Arith Bool Lia List.
From DynaTrain Require Import Machine Rounds KernelPlans.
Import ListNotations.

(** m comes before m' in the order. *)
Fixpoint comes_before (order : list message) (m m' : message) : bool :=
  match order with
  | [] => false
  | x :: more =>
      if message_eq_dec x m then
        if in_dec message_eq_dec m' more then true else false
      else comes_before more m m'
  end.

(** Every rank has some of these lists; all others have nothing. *)
Definition by_rank {A} (default : A) (all : list A) (r : rank) : A :=
  nth r all default.

Ltac cases_of_rank r :=
  destruct r as [|[|[|r]]]; cbn in *; try lia; try congruence.

Ltac ranks_apart :=
  let q := fresh "q" in let Hq := fresh "Hq" in
  intros q Hq; destruct q as [|[|[|q]]]; cbn in *;
  first [reflexivity | destruct q; reflexivity | exfalso; apply Hq; tauto].

(** Goes through the members of lists that are written out. *)
Ltac members :=
  cbn in *;
  repeat match goal with
  | H : _ \/ _ |- _ => destruct H
  | H : False |- _ => destruct H
  | H : Message _ _ _ _ _ = Message _ _ _ _ _ |- _ =>
      first [discriminate H | injection H; intros; clear H; subst]
  | H : Message _ _ _ _ _ = ?m |- _ => subst m
  end.

(** Goes through the cases of a step that cannot be. *)
Ltac no_step :=
  let st' := fresh "st'" in let H := fresh "H" in
  intros st' H; inversion H as
    [r ? ? ? Hrest | r ? ? ? Hrest | r ? ? Hrest Hopen
    | s d ? ? ? ? ? ? ? ? [Hin1 Hfree1] [Hin2 Hfree2]];
  [ cases_of_rank r | cases_of_rank r | cases_of_rank r | ];
  cases_of_rank s; cases_of_rank d; members; try congruence.

(** ** Two messages of an ordered pair in a group

    NCCL's schedule of three ranks. Rank 0 sends two messages to rank 1, which
    sends one to rank 0. Rank 0's kernel plan is cut after the first message,
    and the next one starts again at round 0: so its second message comes before
    what it receives. Rank 1's plan is not cut: there it comes after. *)

Section TwoMessages.

Local Notation one := (Message 0 0 1 0 0).
Local Notation two := (Message 0 0 1 1 0).
Local Notation back := (Message 0 1 0 0 0).
Local Notation group := [one; two; back].

Definition two_messages : program :=
  by_rank [] [[Begin group; End]; [Begin group; End]; []].

Definition two_messages_ahead (r : rank) : message -> message -> bool :=
  comes_before (by_rank [] [[one; two; back]; [one; back; two]] r).

Definition two_messages_stuck : state :=
  by_rank (RankState [] [])
    [RankState [End] [two; back]; RankState [End] [two; back]].

Lemma two_messages_in_order : in_order (ranks 3 1) two_messages.
Proof.
  assert (Hwaves : forall m m', In m group -> In m' group -> wave m = wave m').
  { cbn. intros m m' [<-|[<-|[<-|[]]]] [<-|[<-|[<-|[]]]]; reflexivity. }
  unfold ranks. split.
  - intros r Hr. cases_of_rank r; auto.
  - intros r Hr. cases_of_rank r; (split; [repeat constructor; exact Hwaves|]);
      repeat split; intros m m' _ Hnone; destruct Hnone.
  - intros r m Hr Hm. cases_of_rank r;
      destruct Hm as [<-|[<-|[<-|[]]]]; cbn; lia.
  - intros m Hs Ht. destruct m as [w s d n p]. cbn in *.
    cases_of_rank s; cases_of_rank d; split; intros H; members; cbn; auto.
  - intros r Hr. cases_of_rank r; try constructor; cbn;
      repeat constructor; cbn; intuition discriminate.
Qed.

(** Both ranks take their group apart as NCCL does. *)
Lemma two_messages_taken_apart :
  taken_apart 3 1 2 two_messages_ahead two_messages.
Proof.
  intros r g Hr Hg. unfold ranks in Hr. cases_of_rank r.
  - destruct Hg as [<-|[]]. exists [[]; [one]; []; [two]; [back]]. split.
    + apply scan_visit; [cbn; lia|]. apply scan_visit; [cbn; lia|].
      apply scan_cut with 0; [tauto|].
      apply scan_visit; [cbn; lia|]. apply scan_visit; [cbn; lia|].
      apply scan_visit; [cbn; lia|]. apply scan_end.
    + intros m m' [<-|[<-|[<-|[]]]] [<-|[<-|[<-|[]]]]; cbn;
        intuition discriminate.
  - destruct Hg as [<-|[]]. exists [[]; [one]; [back]; []; [two]]. split.
    + apply scan_visit; [cbn; lia|]. apply scan_visit; [cbn; lia|].
      apply scan_visit; [cbn; lia|]. apply scan_next_pass.
      apply scan_visit; [cbn; lia|]. apply scan_visit; [cbn; lia|].
      apply scan_end.
    + intros m m' [<-|[<-|[<-|[]]]] [<-|[<-|[<-|[]]]]; cbn;
        intuition discriminate.
Qed.

Theorem two_messages_deadlock :
  exists plan ahead st,
    in_order (ranks 3 1) plan /\ taken_apart 3 1 2 ahead plan /\
    reachable (ranks 3 1) ahead (start_of plan) st /\
    stuck (ranks 3 1) ahead st.
Proof.
  exists two_messages, two_messages_ahead, two_messages_stuck.
  split; [apply two_messages_in_order|].
  split; [apply two_messages_taken_apart|].
  unfold ranks. split.
  - apply reachable_step with
      (by_rank (RankState [] [])
         [RankState [End] group; RankState [End] group]).
    apply reachable_step with (by_rank (RankState [] [])
      [RankState [End] group; RankState [Begin group; End] []]).
    apply reachable_step with (start_of two_messages); [constructor|..].
    + apply step_begin with 0 group [End]; auto; try lia. ranks_apart.
    + apply step_begin with 1 group [End]; auto; try lia. ranks_apart.
    + apply step_meet with 0 1 0 0 0 0 0; auto; try lia; try discriminate.
      1-2: split; [left; reflexivity|].
      1-2: intros m' [<-|[<-|[<-|[]]]]; reflexivity.
      ranks_apart.
  - split.
    + intros Hfin. destruct (Hfin 0) as [Hrest _]; [lia|discriminate].
    + no_step.
      all: repeat match goal with
        | H : forall m', _ -> _ = false |- _ =>
            pose proof (H two ltac:(cbn; tauto));
            pose proof (H back ltac:(cbn; tauto)); clear H
        end.
      all: cbn in *; try congruence.
Qed.

End TwoMessages.

(** ** Any order inside a group

    A ring of three ranks, with one message per ordered pair: at every rank the
    send is ahead of the receive. *)

Section Ring.

Local Notation up := (Message 0 0 1 0 0).
Local Notation across := (Message 0 1 2 0 0).
Local Notation down := (Message 0 2 0 0 0).

Definition ring : program :=
  by_rank [] [[Begin [up; down]; End]; [Begin [across; up]; End];
              [Begin [down; across]; End]].

Definition send_first (r : rank) (m m' : message) : bool :=
  (source m =? r) && (target m' =? r).

Definition ring_stuck : state :=
  by_rank (RankState [] [])
    [RankState [End] [up; down]; RankState [End] [across; up];
     RankState [End] [down; across]].

Lemma ring_in_order : in_order 3 ring.
Proof.
  split.
  - intros r Hr. cases_of_rank r; auto.
  - intros r Hr. cases_of_rank r; (split; [|split; [|exact I]]).
    all: try (intros m m' _ Hnone; destruct Hnone).
    all: constructor; [|constructor]; intros m m' Hm Hm'; members; reflexivity.
  - intros r m Hr Hm. cases_of_rank r; members; cbn; lia.
  - intros m Hs Ht. destruct m as [w s d n p]. cbn in *.
    cases_of_rank s; cases_of_rank d; split; intros H; members; cbn; auto.
  - intros r Hr. cases_of_rank r; repeat constructor; cbn;
      intuition discriminate.
Qed.

Theorem any_order_deadlocks :
  exists plan ahead st,
    keeps_the_rules 3 plan /\
    reachable 3 ahead (start_of plan) st /\ stuck 3 ahead st.
Proof.
  exists ring, send_first, ring_stuck. split; [split|split].
  - apply ring_in_order.
  - intros r m Hr Hm. cases_of_rank r; members; reflexivity.
  - apply reachable_step with (by_rank (RankState [] [])
      [RankState [End] [up; down]; RankState [End] [across; up];
       RankState [Begin [down; across]; End] []]).
    apply reachable_step with (by_rank (RankState [] [])
      [RankState [End] [up; down]; RankState [Begin [across; up]; End] [];
       RankState [Begin [down; across]; End] []]).
    apply reachable_step with (start_of ring); [constructor|..].
    + apply step_begin with 0 [up; down] [End]; auto; try lia. ranks_apart.
    + apply step_begin with 1 [across; up] [End]; auto; try lia. ranks_apart.
    + apply step_begin with 2 [down; across] [End]; auto; try lia. ranks_apart.
  - split.
    + intros Hfin. destruct (Hfin 0) as [Hrest _]; [lia|discriminate].
    + no_step.
      all: repeat match goal with
        | H : forall m', _ -> _ = false |- _ =>
            pose proof (H up); pose proof (H across); pose proof (H down);
            clear H
        end.
      all: cbn in *; intuition discriminate.
Qed.

End Ring.

(** ** Groups in different orders

    Each of two ranks sends in its first group and receives in its second: what
    one calls wave 0 is wave 1 to the other. *)

Section Crossed.

Definition crossed : program :=
  by_rank [] [[Begin [Message 0 0 1 0 0]; End; Begin [Message 1 1 0 0 0]; End];
              [Begin [Message 0 1 0 0 0]; End; Begin [Message 1 0 1 0 0]; End]].

Definition crossed_stuck : state :=
  by_rank (RankState [] [])
    [RankState [End; Begin [Message 1 1 0 0 0]; End] [Message 0 0 1 0 0];
     RankState [End; Begin [Message 1 0 1 0 0]; End] [Message 0 1 0 0 0]].

Theorem crossed_groups_deadlock :
  exists plan st,
    one_per_pair 2 plan /\
    (forall r, r < 2 -> alternate false (plan r) /\
      Forall one_wave (groups (plan r)) /\ ascend (groups (plan r))) /\
    reachable 2 (fun _ _ _ => false) (start_of plan) st /\
    stuck 2 (fun _ _ _ => false) st.
Proof.
  exists crossed, crossed_stuck. split; [|split; [|split]].
  - intros r m Hr Hm. cases_of_rank r; members; reflexivity.
  - intros r Hr. cases_of_rank r;
      (split; [tauto|split; [|split; [|split; [|exact I]]]]).
    all: try (constructor; [|constructor; [|constructor]]).
    all: intros m m' Hm Hm'; members; cbn; lia.
  - apply reachable_step with (by_rank (RankState [] [])
      [RankState [End; Begin [Message 1 1 0 0 0]; End] [Message 0 0 1 0 0];
       RankState (crossed 1) []]).
    apply reachable_step with (start_of crossed); [constructor|..].
    + apply step_begin with 0 [Message 0 0 1 0 0]
        [End; Begin [Message 1 1 0 0 0]; End]; auto. ranks_apart.
    + apply step_begin with 1 [Message 0 1 0 0 0]
        [End; Begin [Message 1 0 1 0 0]; End]; auto. ranks_apart.
  - split.
    + intros Hfin. destruct (Hfin 0) as [Hrest _]; [lia|discriminate].
    + no_step.
Qed.

End Crossed.
