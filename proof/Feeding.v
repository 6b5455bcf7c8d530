(* Feeding.v - Whatever is sent has its value, and so has all that arrives.

   Packs, unpacks, creates and releases of all devices, in the order in which
   they happen. A local copy is a pack and an unpack, one right after the other,
   and so is a message without staging. Packs may run early and unpacks late,
   as long as the rules below are kept, which name the code that keeps them.
   For any number of ranks, waves, pieces and elements.

   That the bytes of a piece stay in staging from its pack to its unpack is what
   Slots.v says, and that the wire brings them is assumed. *)

From Coq Require Import Bool Lia List.
Import ListNotations.

Section Feeding.

Variables rank piece element value : Type.
Hypothesis rank_eq_dec : forall r q : rank, {r = q} + {r <> q}.
Hypothesis piece_eq_dec : forall p q : piece, {p = q} + {p <> q}.

(** ** The plan *)

(** Local pieces have wave 0, messages higher ones. *)
Variable wave : piece -> nat.
Variables sender receiver : piece -> rank.
Variable carries : piece -> element -> bool.

(** Where the sender reads an element: in its source, or in its destination,
    where an earlier piece has put it. *)
Variable from_source : piece -> element -> bool.

(** An element may be made from another one: its dtype changed, or of another
    state. [origin p e] is what is read for e, and [make p e] what is made of
    it. Mostly they are e itself, unchanged. *)
Variable origin : piece -> element -> element.
Variable make : piece -> element -> value -> value.

(** The value that an element shall have. *)
Variable right : element -> value.
Variable at_source : rank -> element -> bool.

(** ** What happens *)

Inductive event :=
  | Pack (p : piece)
  | Unpack (p : piece)
  | Create (r : rank) (what : element -> bool) (** destination storage *)
  | Release (r : rank) (what : element -> bool). (** source storage *)

(** Nothing is [None]: what is not there, or holds no right value. *)
Record memory := Memory {
  source : rank -> element -> option value;
  destination : rank -> element -> option value;
  staged : piece -> element -> option value
}.

Definition read (m : memory) (p : piece) (e : element) : option value :=
  if from_source p e then source m (sender p) (origin p e)
  else destination m (sender p) (origin p e).

Definition happen (m : memory) (event : event) : memory :=
  match event with
  | Pack p =>
      Memory (source m) (destination m)
        (fun q e => if piece_eq_dec q p
                    then option_map (make p e) (read m p e) else staged m q e)
  | Unpack p =>
      Memory (source m)
        (fun r e => if rank_eq_dec r (receiver p)
                    then if carries p e then staged m p e
                         else destination m r e
                    else destination m r e)
        (staged m)
  | Create r what =>
      Memory (source m)
        (fun q e => if rank_eq_dec q r
                    then if what e then None else destination m q e
                    else destination m q e)
        (staged m)
  | Release r what =>
      Memory
        (fun q e => if rank_eq_dec q r
                    then if what e then None else source m q e
                    else source m q e)
        (destination m) (staged m)
  end.

Fixpoint run (m : memory) (trace : list event) : memory :=
  match trace with
  | [] => m
  | event :: more => run (happen m event) more
  end.

Definition start (m : memory) : Prop :=
  forall r e, at_source r e = true -> source m r e = Some (right e).

(** ** What a plan keeps *)

Record plan_feeds : Prop := {
  (** What is read from the source is there (checked by ProofInput.cpp, and by
      checkSegment of PlanCheck.cpp); everything else was brought by a piece of
      an earlier wave (Arrivals::checkFeeding, ProgramVerifier::read). *)
  fed : forall p e, carries p e = true ->
    if from_source p e then at_source (sender p) (origin p e) = true
    else exists q, wave q < wave p /\ receiver q = sender p /\
                   carries q (origin p e) = true;
  (** What is made of the right value is right. *)
  made : forall p e, carries p e = true ->
    right e = make p e (right (origin p e))
}.

(** ** What executors keep *)

Record executors_keep (trace : list event) : Prop := {
  (** A message arrives after it was sent. *)
  pack_first : forall p before after,
    trace = before ++ Unpack p :: after -> In (Pack p) before;
  (** The rule for forwards: what a piece brings to a destination is unpacked
      before a piece of a later wave that reads it there is packed. *)
  unpack_before_forward : forall p q e before after,
    carries p e = true -> from_source p e = false ->
    wave q < wave p -> receiver q = sender p -> carries q (origin p e) = true ->
    trace = before ++ Pack p :: after -> In (Unpack q) before;
  (** Nothing is read from the source after its release. *)
  read_before_release : forall p e before after r what,
    carries p e = true -> from_source p e = true ->
    trace = before ++ Pack p :: after ->
    In (Release r what) before -> r = sender p -> what (origin p e) = false;
  (** Nothing is written before its storage is there. *)
  created_before_write : forall q e before after r what,
    carries q e = true ->
    trace = before ++ Create r what :: after -> r = receiver q ->
    In (Unpack q) before -> what e = false
}.

(** ** At every moment, all that has happened is right *)

Record sound (m : memory) (past : list event) : Prop := {
  sources_right : forall r e, at_source r e = true ->
    (forall what, In (Release r what) past -> what e = false) ->
    source m r e = Some (right e);
  staged_right : forall p e, In (Pack p) past -> carries p e = true ->
    staged m p e = Some (right e);
  arrived_right : forall p e, In (Unpack p) past -> carries p e = true ->
    destination m (receiver p) e = Some (right e)
}.

Lemma run_app past next m : run m (past ++ next) = run (run m past) next.
Proof. revert m. induction past; simpl; auto. Qed.

Lemma in_last (x y : event) l : In x (l ++ [y]) <-> In x l \/ x = y.
Proof. rewrite in_app_iff. simpl. intuition. Qed.

Lemma sound_next m past event future :
  plan_feeds -> executors_keep (past ++ event :: future) ->
  sound m past -> sound (happen m event) (past ++ [event]).
Proof.
  intros [Hfed Hmade] [Hpack Hforward Hrelease Hcreate]
    [Hsource Hstaged Harrived].
  destruct event as [p|p|r what|r what]; split; simpl.
  - intros r e Hat Hpast. apply Hsource; [assumption|].
    intros what Hin. apply Hpast, in_last. auto.
  - intros q e Hin Hcarries. apply in_last in Hin.
    destruct (piece_eq_dec q p) as [->|Hneq].
    + assert (Hread : read m p e = Some (right (origin p e))).
      { unfold read. specialize (Hfed p e Hcarries).
        destruct (from_source p e) eqn:Hfrom.
        - apply Hsource; [assumption|]. intros what Hpast.
          apply (Hrelease p e past future (sender p)); auto.
        - destruct Hfed as [q [Hwave [Hreceiver Hq]]]. rewrite <- Hreceiver.
          apply Harrived; [|assumption].
          apply (Hforward p q e past future); auto. }
      rewrite Hread. simpl. f_equal. symmetry. apply Hmade. assumption.
    + destruct Hin as [Hin|Heq]; [auto|]. injection Heq as ->. contradiction.
  - intros q e Hin Hcarries. apply in_last in Hin.
    destruct Hin as [Hin|Heq]; [auto|discriminate].
  - intros r e Hat Hpast. apply Hsource; [assumption|].
    intros what Hin. apply Hpast, in_last. auto.
  - intros q e Hin Hcarries. apply in_last in Hin.
    destruct Hin as [Hin|Heq]; [auto|discriminate].
  - intros q e Hin Hcarries. apply in_last in Hin.
    assert (Hp : forall e', carries p e' = true ->
      staged m p e' = Some (right e')).
    { intros e' He'. apply Hstaged; [|assumption].
      apply (Hpack p past future). reflexivity. }
    destruct (rank_eq_dec (receiver q) (receiver p)) as [Hr|Hr].
    + destruct (carries p e) eqn:Hpe; [auto|].
      destruct Hin as [Hin|Heq]; [auto|]. injection Heq as ->. congruence.
    + destruct Hin as [Hin|Heq]; [auto|]. injection Heq as ->. contradiction.
  - intros q e Hat Hpast. apply Hsource; [assumption|].
    intros w Hin. apply Hpast, in_last. auto.
  - intros q e Hin Hcarries. apply in_last in Hin.
    destruct Hin as [Hin|Heq]; [auto|discriminate].
  - intros q e Hin Hcarries. apply in_last in Hin.
    destruct Hin as [Hin|Heq]; [|discriminate].
    destruct (rank_eq_dec (receiver q) r) as [Hr|Hr]; [|auto].
    rewrite (Hcreate q e past future r what); auto.
  - intros q e Hat Hpast.
    assert (Hbefore : source m q e = Some (right e)).
    { apply Hsource; [assumption|]. intros w Hin. apply Hpast, in_last. auto. }
    destruct (rank_eq_dec q r) as [->|Hr]; [|assumption].
    rewrite (Hpast what); [assumption|]. apply in_last. auto.
  - intros q e Hin Hcarries. apply in_last in Hin.
    destruct Hin as [Hin|Heq]; [auto|discriminate].
  - intros q e Hin Hcarries. apply in_last in Hin.
    destruct Hin as [Hin|Heq]; [auto|discriminate].
Qed.

Theorem always_sound m trace :
  plan_feeds -> start m -> executors_keep trace ->
  forall past future, trace = past ++ future -> sound (run m past) past.
Proof.
  intros Hplan Hstart Hkeep past.
  induction past as [|event past IH] using rev_ind; intros future E.
  - split; simpl; [auto|intros p e []|intros p e []].
  - rewrite run_app. simpl. rewrite <- app_assoc in E. simpl in E.
    apply sound_next with future; [assumption| |].
    + rewrite <- E. assumption.
    + apply IH with (event :: future). assumption.
Qed.

(** ** What follows *)

(** Whatever is packed, and so sent, has its value. *)
Theorem nothing_is_sent_too_early m trace past p future e :
  plan_feeds -> start m -> executors_keep trace ->
  trace = past ++ Pack p :: future -> carries p e = true ->
  staged (run m (past ++ [Pack p])) p e = Some (right e).
Proof.
  intros Hplan Hstart Hkeep E Hcarries.
  assert (Hsound : sound (run m (past ++ [Pack p])) (past ++ [Pack p])).
  { apply always_sound with trace future; try assumption.
    rewrite <- app_assoc. assumption. }
  apply (staged_right _ _ Hsound); [|assumption].
  apply in_last. auto.
Qed.

(** At the end every element that a piece brings is at its destination. *)
Theorem everything_arrives m trace :
  plan_feeds -> start m -> executors_keep trace ->
  (forall p, In (Unpack p) trace) ->
  forall p e, carries p e = true ->
  destination (run m trace) (receiver p) e = Some (right e).
Proof.
  intros Hplan Hstart Hkeep Hall p e Hcarries.
  apply (arrived_right _ trace); [|apply Hall|assumption].
  apply always_sound with trace []; try assumption.
  symmetry. apply app_nil_r.
Qed.

(** ** There is such an order

    Wave by wave, all packs of a wave before its unpacks. *)

(** The pieces of each wave. *)
Variable pieces_of : nat -> list piece.

Definition wave_of_events (w : nat) : list event :=
  map Pack (pieces_of w) ++ map Unpack (pieces_of w).

Fixpoint in_waves (waves : nat) : list event :=
  match waves with
  | 0 => []
  | S w => in_waves w ++ wave_of_events w
  end.

Lemma split_at (x : event) (l l' : list event) : forall before after,
  l ++ l' = before ++ x :: after ->
  (exists rest, l = before ++ x :: rest) \/
  (exists later, l' = later ++ x :: after /\ before = l ++ later).
Proof.
  induction l as [|y l IH]; intros before after E; simpl in *.
  - right. exists before. auto.
  - destruct before as [|b before]; injection E as -> E.
    + left. exists l. reflexivity.
    + destruct (IH before after E) as [[rest ->]|[later [-> ->]]].
      * left. exists rest. reflexivity.
      * right. exists later. auto.
Qed.

Lemma in_waves_members waves w p :
  w < waves -> In p (pieces_of w) ->
  In (Pack p) (in_waves waves) /\ In (Unpack p) (in_waves waves).
Proof.
  induction waves as [|v IH]; simpl; [lia|]. intros Hw Hp.
  rewrite !in_app_iff. destruct (PeanoNat.Nat.eq_dec w v) as [->|].
  - unfold wave_of_events. rewrite !in_app_iff.
    split; right; [left|right]; apply in_map; assumption.
  - destruct (IH ltac:(lia) Hp). auto.
Qed.

Theorem waves_in_order_keep_the_rules waves :
  (forall p w, In p (pieces_of w) -> wave p = w) ->
  (forall p, In p (pieces_of (wave p))) ->
  executors_keep (in_waves waves).
Proof.
  intros Hof Hall.
  assert (Hpack : forall p before after,
    in_waves waves = before ++ Unpack p :: after -> In (Pack p) before).
  { induction waves as [|v IH]; intros p before after E; simpl in E.
    - destruct before; discriminate.
    - destruct (split_at _ _ _ _ _ E) as [[rest E1]|[later [E1 ->]]].
      + exact (IH p before rest E1).
      + apply in_or_app. right. unfold wave_of_events in E1.
        destruct (split_at _ _ _ _ _ E1) as [[rest E2]|[later' [E2 ->]]].
        * assert (Hin : In (Unpack p) (map Pack (pieces_of v))).
          { rewrite E2. apply in_or_app. right. left. reflexivity. }
          apply in_map_iff in Hin. destruct Hin as [q [Eq _]]. discriminate.
        * apply in_or_app. left. apply in_map.
          assert (Hin : In (Unpack p) (map Unpack (pieces_of v))).
          { rewrite E2. apply in_or_app. right. left. reflexivity. }
          apply in_map_iff in Hin. destruct Hin as [q [Eq Hq]].
          injection Eq as <-. assumption. }
  assert (Hforward : forall p q before after, wave q < wave p ->
    in_waves waves = before ++ Pack p :: after -> In (Unpack q) before).
  { clear Hpack. induction waves as [|v IH]; intros p q before after Hw E;
      simpl in E.
    - destruct before; discriminate.
    - destruct (split_at _ _ _ _ _ E) as [[rest E1]|[later [E1 ->]]].
      + exact (IH p q before rest Hw E1).
      + apply in_or_app. left.
        assert (Hin : In (Pack p) (wave_of_events v)).
        { rewrite E1. apply in_or_app. right. left. reflexivity. }
        apply in_app_or in Hin. destruct Hin as [Hin|Hin];
          apply in_map_iff in Hin; destruct Hin as [x [Ex Hx]];
          [injection Ex as ->|discriminate].
        rewrite (Hof p v Hx) in Hw.
        apply in_waves_members with (wave q); auto. }
  assert (Hnone : forall r what,
    ~ In (Release r what) (in_waves waves) /\
    ~ In (Create r what) (in_waves waves)).
  { clear Hpack Hforward.
    induction waves as [|v IH]; simpl; intros r what; [auto|].
    destruct (IH r what) as [H1 H2]. rewrite !in_app_iff.
    unfold wave_of_events.
    split; intros [H|H]; try contradiction;
      apply in_app_or in H; destruct H as [H|H]; apply in_map_iff in H;
      destruct H as [x [Ex _]]; discriminate. }
  split.
  - assumption.
  - intros p q e before after _ _ Hw _ _. apply Hforward. assumption.
  - intros p e before after r what _ _ E Hin. exfalso.
    destruct (Hnone r what) as [Hno _]. apply Hno. rewrite E.
    apply in_or_app. auto.
  - intros q e before after r what _ E _ _. exfalso.
    destruct (Hnone r what) as [_ Hno]. apply Hno. rewrite E.
    apply in_or_app. right. left. reflexivity.
Qed.

End Feeding.

(** The rule for forwards is needed: rank 1 passes on what it has not unpacked
    yet. Piece 0 goes from rank 0 to rank 1, piece 1 from there to rank 2. *)
Example a_forward_that_is_packed_early :
  let wave (p : nat) := S p in
  let sender (p : nat) := p in
  let receiver (p : nat) := S p in
  let carries (p : nat) (e : unit) := true in
  let from_source (p : nat) (e : unit) := Nat.eqb p 0 in
  let origin (p : nat) (e : unit) := e in
  let make (p : nat) (e : unit) (v : bool) := v in
  let m := Memory nat nat unit bool (fun r e => Some true)
             (fun r e => Some false) (fun p e => None) in
  let trace := [Pack nat nat unit 1; Pack nat nat unit 0;
                Unpack nat nat unit 0; Unpack nat nat unit 1] in
  destination nat nat unit bool
    (run nat nat unit bool PeanoNat.Nat.eq_dec PeanoNat.Nat.eq_dec
       sender receiver carries from_source origin make m trace) 2 tt
  = Some false.
Proof. reflexivity. Qed.
