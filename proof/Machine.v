(* Machine.v - Ranks that run groups of messages never wait on each other.

   The machine of docs/ExecutionModel.md. Every rank runs a list of actions:
   local work, and the begin and the end of groups. A begin hands all messages
   of a group to the transport and goes on; an end waits until all of them are
   done. Local work may stand anywhere, also between a begin and its end: that
   is where executors put packs that run early and unpacks that run late. It
   never waits for another rank.

   Inside a group the transport may hold a message back at one of its ends
   until others that are ahead of it there have been done. Nothing is buffered:
   a message is done at both of its ends at once, when both have offered it.

   The number of ranks, groups, messages and pieces of work is arbitrary. *)

From Coq Require Import Arith Bool Lia List Wf_nat.
Import ListNotations.

(** ** Messages and actions *)

Definition rank := nat.

(** [number]: which of the messages of its ordered pair in its group, 0 being
    the first. [part]: NCCL cuts a message into parts, one for each of several
    channels, that travel on their own. *)
Record message := Message {
  wave : nat;
  source : rank;
  target : rank;
  number : nat;
  part : nat
}.

Definition message_eq_dec (m m' : message) : {m = m'} + {m <> m'}.
Proof. decide equality; apply Nat.eq_dec. Defined.

Inductive action :=
  | Local (work : nat)
  | Begin (group : list message)
  | End.

(** What a rank still has to run, and the messages of the group that it is in
    that are not done. *)
Record rank_state := RankState {
  rest : list action;
  open : list message
}.

Definition state := rank -> rank_state.

(** ** Steps *)

Section Machine.

(** Ranks are the numbers below [ranks]. *)
Variable ranks : nat.

(** [ahead r m m']: at rank r, m' is not offered before m is done. *)
Variable ahead : rank -> message -> message -> bool.

Definition ready (st : state) (r : rank) (m : message) : Prop :=
  In m (open (st r)) /\
  forall m', In m' (open (st r)) -> ahead r m' m = false.

Definition waiting (st : state) (r : rank) : Prop :=
  exists actions, rest (st r) = End :: actions.

Definition same_but (st st' : state) (touched : list rank) : Prop :=
  forall r, ~ In r touched -> st' r = st r.

(** One step. Messages of an ordered pair meet in the order in which they are
    offered, whatever waves their ends take them for. [lazy]: the transport
    carries messages only while both of their ranks wait in an end, as shared
    memory does; otherwise as soon as both ends have begun, as NCCL does. *)
Inductive step (lazy : bool) (st st' : state) : Prop :=
  | step_local r work actions :
      r < ranks ->
      rest (st r) = Local work :: actions ->
      st' r = RankState actions (open (st r)) ->
      same_but st st' [r] -> step lazy st st'
  | step_begin r group actions :
      r < ranks ->
      rest (st r) = Begin group :: actions -> open (st r) = [] ->
      st' r = RankState actions group ->
      same_but st st' [r] -> step lazy st st'
  | step_end r actions :
      r < ranks ->
      rest (st r) = End :: actions -> open (st r) = [] ->
      st' r = RankState actions [] ->
      same_but st st' [r] -> step lazy st st'
  | step_meet s d w1 w2 n1 n2 p :
      s < ranks -> d < ranks -> s <> d ->
      ready st s (Message w1 s d n1 p) ->
      ready st d (Message w2 s d n2 p) ->
      (lazy = true -> waiting st s /\ waiting st d) ->
      st' s = RankState (rest (st s))
        (remove message_eq_dec (Message w1 s d n1 p) (open (st s))) ->
      st' d = RankState (rest (st d))
        (remove message_eq_dec (Message w2 s d n2 p) (open (st d))) ->
      same_but st st' [s; d] -> step lazy st st'.

Inductive reachable (start : state) : state -> Prop :=
  | reachable_start : reachable start start
  | reachable_step st st' :
      reachable start st -> step false st st' -> reachable start st'.

Definition finished (st : state) : Prop :=
  forall r, r < ranks -> rest (st r) = [] /\ open (st r) = [].

Definition stuck (st : state) : Prop :=
  ~ finished st /\ forall st', ~ step false st st'.

(** ** What a plan keeps *)

Fixpoint groups (actions : list action) : list (list message) :=
  match actions with
  | [] => []
  | Begin group :: more => group :: groups more
  | _ :: more => groups more
  end.

(** Begins and ends alternate. [inside]: an end comes before the next begin. *)
Fixpoint alternate (inside : bool) (actions : list action) : Prop :=
  match actions with
  | [] => inside = false
  | Local _ :: more => alternate inside more
  | Begin _ :: more => inside = false /\ alternate true more
  | End :: more => inside = true /\ alternate false more
  end.

(** The messages of a group are of one wave. *)
Definition one_wave (group : list message) : Prop :=
  forall m m', In m group -> In m' group -> wave m = wave m'.

(** Waves ascend from group to group. *)
Fixpoint ascend (all : list (list message)) : Prop :=
  match all with
  | [] => True
  | group :: more =>
      (forall m m', In m group -> In m' (concat more) -> wave m < wave m') /\
      ascend more
  end.

(** The lowest of these two keys is taken first at both ends of a message. *)
Variable round : rank -> rank -> nat.

Definition round_of (m : message) : nat := round (source m) (target m).

(** At every rank, what is ahead of a message in its group has a lower round. *)
Definition rounds_ascend (group : list message) (r : rank) : Prop :=
  forall m m', In m group -> In m' group ->
  ahead r m m' = true -> round_of m < round_of m'.

Definition program := rank -> list action.

(** Groups come in one order on all ranks, and messages have both ends. *)
Record in_order (plan : program) : Prop := {
  rule_alternate : forall r, r < ranks -> alternate false (plan r);
  rule_waves : forall r, r < ranks ->
    Forall one_wave (groups (plan r)) /\ ascend (groups (plan r));
  rule_ends : forall r m, r < ranks -> In m (concat (groups (plan r))) ->
    (source m = r \/ target m = r) /\
    source m <> target m /\ source m < ranks /\ target m < ranks;
  (** A message stands in one wave at both of its ends: the wave is a part of
      it. *)
  rule_pairs : forall m, source m < ranks -> target m < ranks ->
    (In m (concat (groups (plan (source m)))) <->
     In m (concat (groups (plan (target m)))));
  rule_once : forall r, r < ranks -> NoDup (concat (groups (plan r)))
}.

(** The rule on which everything rests: at most one message per ordered pair
    and group. *)
Definition one_per_pair (plan : program) : Prop :=
  forall r m, r < ranks -> In m (concat (groups (plan r))) -> number m = 0.

Definition keeps_the_rules (plan : program) : Prop :=
  in_order plan /\ one_per_pair plan.

(** What the transport does with the groups of a plan (KernelPlans.v). *)
Definition keeps_rounds (plan : program) : Prop :=
  forall r group, r < ranks -> In group (groups (plan r)) ->
  rounds_ascend group r.

Definition start_of (plan : program) : state :=
  fun r => RankState (plan r) [].

(** ** The invariant *)

Definition pending (s : rank_state) : list message :=
  open s ++ concat (groups (rest s)).

Record fine (r : rank) (s : rank_state) : Prop := {
  fine_alternate : exists inside,
    alternate inside (rest s) /\ (inside = false -> open s = []);
  fine_waves : Forall one_wave (open s :: groups (rest s)) /\
    ascend (open s :: groups (rest s));
  fine_ends : forall m, In m (pending s) ->
    (source m = r \/ target m = r) /\
    source m <> target m /\ source m < ranks /\ target m < ranks;
  fine_once : NoDup (pending s);
  fine_rounds : Forall (fun group => rounds_ascend group r)
    (open s :: groups (rest s))
}.

Record invariant (st : state) : Prop := {
  all_fine : forall r, r < ranks -> fine r (st r);
  all_paired : forall m, source m < ranks -> target m < ranks ->
    (In m (pending (st (source m))) <-> In m (pending (st (target m))))
}.

Lemma start_invariant plan :
  keeps_the_rules plan -> keeps_rounds plan -> invariant (start_of plan).
Proof.
  intros [[Halt Hwaves Hends Hpairs Honce] _] Hrounds.
  split.
  - intros r Hr. split; simpl; unfold pending; simpl.
    + exists false. auto.
    + destruct (Hwaves r Hr) as [Hone Hascend]. split.
      * constructor; [intros m m' []|assumption].
      * split; [intros m m' []|assumption].
    + intros m Hm. apply Hends; assumption.
    + auto.
    + constructor; [intros m m' []|].
      apply Forall_forall. intros group Hgroup. apply Hrounds; assumption.
  - intros m Hs Ht. unfold pending. simpl. auto.
Qed.

(** *** A step that one rank takes alone *)

Lemma fine_local r work actions messages :
  fine r (RankState (Local work :: actions) messages) ->
  fine r (RankState actions messages).
Proof. intros [H1 H2 H3 H4 H5]. split; auto. Qed.

Lemma fine_begin r group actions :
  fine r (RankState (Begin group :: actions) []) ->
  fine r (RankState actions group).
Proof.
  intros [[inside [Halt _]] [Hone Hascend] Hends Honce Hrounds].
  simpl in *. split; simpl; auto.
  - exists true. destruct Halt as [_ Halt]. split; [assumption|discriminate].
  - split; [inversion Hone; assumption|tauto].
  - inversion Hrounds; assumption.
Qed.

Lemma fine_end r actions :
  fine r (RankState (End :: actions) []) ->
  fine r (RankState actions []).
Proof.
  intros [[inside [Halt _]] Hwaves Hends Honce Hrounds].
  simpl in *. split; simpl; auto.
  exists false. destruct Halt as [_ Halt]. auto.
Qed.

(** *** A message that is done *)

Lemma in_remove_both m x l :
  In x (remove message_eq_dec m l) <-> In x l /\ x <> m.
Proof.
  split.
  - apply in_remove.
  - intros [Hin Hneq]. apply in_in_remove; assumption.
Qed.

Lemma pending_remove s m x :
  NoDup (pending s) -> In m (open s) ->
  (In x (pending (RankState (rest s) (remove message_eq_dec m (open s)))) <->
   In x (pending s) /\ x <> m).
Proof.
  intros Honce Hm. unfold pending in *. simpl.
  rewrite !in_app_iff, in_remove_both. split.
  - intros [[Hx Hneq]|Hx]; [tauto|]. split; [tauto|].
    intros ->. revert Honce Hm Hx. clear.
    induction (open s) as [|a l IH]; simpl; [tauto|].
    intros Honce [->|Hin] Hx; inversion Honce as [|y ys Hnot Hmore]; subst.
    + apply Hnot. apply in_or_app. auto.
    + auto.
  - tauto.
Qed.

Lemma fine_meet r s m :
  fine r s -> In m (open s) ->
  fine r (RankState (rest s) (remove message_eq_dec m (open s))).
Proof.
  intros [Halt [Hone Hascend] Hends Honce Hrounds] Hm.
  pose proof (pending_remove s m) as Hpend.
  split; simpl.
  - destruct Halt as [inside [Halt Hopen]]. exists inside.
    split; [assumption|]. intros Hinside. rewrite (Hopen Hinside). reflexivity.
  - inversion Hone as [|g gs Hone1 Hone2]; subst.
    destruct Hascend as [Hlow Hascend]. split.
    + constructor; [|assumption].
      intros a b Ha Hb. apply in_remove in Ha, Hb. apply Hone1; tauto.
    + split; [|assumption].
      intros a b Ha Hb. apply in_remove in Ha. apply Hlow; tauto.
  - intros x Hx. apply Hpend in Hx; [|assumption..]. apply Hends. tauto.
  - unfold pending in *. simpl. revert Honce. clear.
    induction (open s) as [|a l IH]; simpl; [auto|].
    intros Honce. inversion Honce as [|x xs Hnot Hmore]; subst.
    destruct (message_eq_dec m a); [auto|].
    simpl. constructor; [|auto].
    rewrite in_app_iff in *. intros [Hin|Hin]; [|tauto].
    apply in_remove in Hin. tauto.
  - inversion Hrounds as [|g gs Hr1 Hr2]; subst. constructor; [|assumption].
    intros a b Ha Hb. apply in_remove in Ha, Hb. apply Hr1; tauto.
Qed.

(** Two ends that meet take each other for the same wave. Otherwise the end of
    the lower wave would have its own other end still before it. *)
Lemma open_is_lowest r s m m' :
  fine r s -> In m (open s) -> In m' (pending s) ->
  wave m < wave m' \/ (wave m = wave m' /\ In m' (open s)).
Proof.
  intros [_ [Hone [Hlow _]] _ _ _] Hm Hm'.
  unfold pending in Hm'. apply in_app_or in Hm'. destruct Hm' as [Hin|Hin].
  - right. split; [|assumption].
    inversion Hone as [|g gs Hg Hgs]; subst. apply Hg; assumption.
  - left. apply Hlow; assumption.
Qed.

Definition all_first (st : state) : Prop :=
  forall r m, r < ranks -> In m (pending (st r)) -> number m = 0.

Lemma met_is_same st s d w1 w2 n1 n2 p :
  invariant st -> all_first st -> s < ranks -> d < ranks ->
  In (Message w1 s d n1 p) (open (st s)) ->
  In (Message w2 s d n2 p) (open (st d)) -> w1 = w2 /\ n1 = n2.
Proof.
  intros [Hfine Hpaired] Hfirst Hs Hd H1 H2.
  assert (P1 : In (Message w1 s d n1 p) (pending (st s)))
    by (apply in_or_app; auto).
  assert (P2 : In (Message w2 s d n2 p) (pending (st d)))
    by (apply in_or_app; auto).
  pose proof (Hfirst s _ Hs P1) as N1. pose proof (Hfirst d _ Hd P2) as N2.
  simpl in N1, N2. subst.
  apply (Hpaired (Message w1 s d 0 p)) in P1; [|assumption..].
  apply (Hpaired (Message w2 s d 0 p)) in P2; [|assumption..].
  simpl in P1, P2.
  pose proof (open_is_lowest d (st d) _ _ (Hfine d Hd) H2 P1) as A.
  pose proof (open_is_lowest s (st s) _ _ (Hfine s Hs) H1 P2) as B.
  simpl in *. split; [|reflexivity]. lia.
Qed.

(** *** Every step keeps the invariant *)

Lemma pending_alone st st' r :
  (forall x, In x (pending (st' r)) <-> In x (pending (st r))) ->
  same_but st st' [r] ->
  forall q x, In x (pending (st' q)) <-> In x (pending (st q)).
Proof.
  intros Hr Hsame q x. destruct (Nat.eq_dec q r) as [->|Hneq]; [apply Hr|].
  rewrite Hsame; [tauto|]. simpl. intuition.
Qed.

Lemma step_pending lazy st st' :
  step lazy st st' -> invariant st -> all_first st ->
  (forall q x, q < ranks -> In x (pending (st' q)) <-> In x (pending (st q))) \/
  exists m, source m < ranks /\ target m < ranks /\
    In m (open (st (source m))) /\ In m (open (st (target m))) /\
    forall q x, q < ranks -> In x (pending (st' q)) <->
      In x (pending (st q)) /\ (q = source m \/ q = target m -> x <> m).
Proof.
  intros Hstep Hinv Hfirst. destruct Hstep as
    [r work actions Hr Hrest Hst' Hsame
    | r group actions Hr Hrest Hopen Hst' Hsame
    | r actions Hr Hrest Hopen Hst' Hsame
    | s d w1 w2 n1 n2 p Hs Hd Hneq [H1 A1] [H2 A2] _ E1 E2 Hsame].
  - left. intros q x _. apply (pending_alone st st' r); [|assumption].
    intros y. rewrite Hst'. unfold pending. rewrite Hrest. simpl. tauto.
  - left. intros q x _. apply (pending_alone st st' r); [|assumption].
    intros y. rewrite Hst'. unfold pending. rewrite Hrest, Hopen. simpl. tauto.
  - left. intros q x _. apply (pending_alone st st' r); [|assumption].
    intros y. rewrite Hst'. unfold pending. rewrite Hrest, Hopen. simpl. tauto.
  - right.
    destruct (met_is_same st s d w1 w2 n1 n2 p Hinv Hfirst Hs Hd H1 H2)
      as [<- <-].
    exists (Message w1 s d n1 p). simpl.
    repeat (split; [assumption|]).
    intros q x Hq.
    destruct (Nat.eq_dec q s) as [->|Hqs];
      [|destruct (Nat.eq_dec q d) as [->|Hqd]].
    + rewrite E1, pending_remove; [|apply (all_fine _ Hinv s Hs)|assumption].
      intuition.
    + rewrite E2, pending_remove; [|apply (all_fine _ Hinv d Hd)|assumption].
      intuition.
    + rewrite Hsame; [intuition|]. simpl. intuition.
Qed.

Lemma step_fine lazy st st' r :
  step lazy st st' -> invariant st -> r < ranks -> fine r (st' r).
Proof.
  intros Hstep [Hfine _] Hr. specialize (Hfine r Hr).
  destruct Hstep as
    [q work actions _ Hrest Hst' Hsame
    | q group actions _ Hrest Hopen Hst' Hsame
    | q actions _ Hrest Hopen Hst' Hsame
    | s d w1 w2 n1 n2 p _ _ _ [H1 _] [H2 _] _ E1 E2 Hsame].
  - destruct (Nat.eq_dec r q) as [->|Hneq].
    + rewrite Hst'. apply fine_local with work. rewrite <- Hrest.
      destruct (st q); assumption.
    + rewrite Hsame; [assumption|]. simpl. intuition.
  - destruct (Nat.eq_dec r q) as [->|Hneq].
    + rewrite Hst'. apply fine_begin. rewrite <- Hrest, <- Hopen.
      destruct (st q); assumption.
    + rewrite Hsame; [assumption|]. simpl. intuition.
  - destruct (Nat.eq_dec r q) as [->|Hneq].
    + rewrite Hst'. apply fine_end. rewrite <- Hrest. rewrite <- Hopen at 1.
      destruct (st q); assumption.
    + rewrite Hsame; [assumption|]. simpl. intuition.
  - destruct (Nat.eq_dec r s) as [->|Hrs];
      [|destruct (Nat.eq_dec r d) as [->|Hrd]].
    + rewrite E1. apply fine_meet; assumption.
    + rewrite E2. apply fine_meet; assumption.
    + rewrite Hsame; [assumption|]. simpl. intuition.
Qed.

Lemma step_invariant lazy st st' :
  step lazy st st' -> invariant st -> all_first st ->
  invariant st' /\ all_first st'.
Proof.
  intros Hstep Hinv Hfirst.
  pose proof (step_pending lazy st st' Hstep Hinv Hfirst) as Hpend.
  split; [split|].
  - intros r Hr. apply (step_fine lazy st st' r); assumption.
  - intros m Hs Ht. destruct Hinv as [_ Hpaired].
    destruct Hpend as [Hsame|[x [_ [_ [_ [_ Hx]]]]]].
    + rewrite !Hsame; [apply Hpaired; assumption|assumption..].
    + rewrite !Hx; [|assumption..]. specialize (Hpaired m Hs Ht).
      destruct (message_eq_dec m x) as [->|Hneq]; tauto.
  - intros r m Hr Hm. apply (Hfirst r m Hr).
    destruct Hpend as [Hsame|[x [_ [_ [_ [_ Hx]]]]]].
    + apply Hsame in Hm; assumption.
    + apply Hx in Hm; tauto.
Qed.

Lemma reachable_invariant plan st :
  keeps_the_rules plan -> keeps_rounds plan ->
  reachable (start_of plan) st -> invariant st /\ all_first st.
Proof.
  intros Hplan Hrounds Hreach.
  induction Hreach as [|st st' Hreach [IH1 IH2] Hstep].
  - split; [apply start_invariant; assumption|].
    destruct Hplan as [_ Hone]. exact Hone.
  - apply (step_invariant false st st'); assumption.
Qed.

(** ** The lowest message can go on *)

Definition lower (m m' : message) : Prop :=
  wave m < wave m' \/ (wave m = wave m' /\ round_of m < round_of m').

Lemma lower_dec m m' : {lower m m'} + {~ lower m m'}.
Proof.
  unfold lower.
  destruct (lt_dec (wave m) (wave m')); [left; tauto|].
  destruct (Nat.eq_dec (wave m) (wave m')); [|right; tauto].
  destruct (lt_dec (round_of m) (round_of m')); [left|right]; tauto.
Qed.

(** Of any messages there is one that none is lower than. *)
Lemma lowest_exists (l : list message) :
  l <> [] -> exists m, In m l /\ forall x, In x l -> ~ lower x m.
Proof.
  induction l as [|a l IH]; [congruence|]. intros _.
  destruct l as [|b l'].
  - exists a. split; [left; reflexivity|].
    intros x [<-|[]]. unfold lower. lia.
  - destruct IH as [m [Hin Hlow]]; [discriminate|].
    destruct (lower_dec a m) as [Ha|Ha].
    + exists a. split; [left; reflexivity|].
      intros x [<-|Hx]; [unfold lower; lia|].
      specialize (Hlow x Hx). revert Ha Hlow. unfold lower. lia.
    + exists m. split; [right; assumption|].
      intros x [<-|Hx]; [assumption|]. apply Hlow; assumption.
Qed.

Definition change (st : state) (r : rank) (s : rank_state) : state :=
  fun q => if Nat.eq_dec q r then s else st q.

Lemma change_at st r s : change st r s r = s.
Proof. unfold change. destruct (Nat.eq_dec r r); congruence. Qed.

Lemma change_other st r s q : q <> r -> change st r s q = st q.
Proof. unfold change. destruct (Nat.eq_dec q r); congruence. Qed.

(** A rank that has something to do, and no message under way, can go on. *)
Lemma free_rank_steps lazy st r :
  r < ranks -> rest (st r) <> [] -> open (st r) = [] ->
  exists st', step lazy st st'.
Proof.
  intros Hr Hrest Hopen.
  destruct (rest (st r)) as [|[work|group|] actions] eqn:Heq; [congruence|..].
  - exists (change st r (RankState actions (open (st r)))).
    apply step_local with r work actions; auto; [apply change_at|].
    intros q Hq. apply change_other. simpl in Hq. intuition.
  - exists (change st r (RankState actions group)).
    apply step_begin with r group actions; auto; [apply change_at|].
    intros q Hq. apply change_other. simpl in Hq. intuition.
  - exists (change st r (RankState actions [])).
    apply step_end with r actions; auto; [apply change_at|].
    intros q Hq. apply change_other. simpl in Hq. intuition.
Qed.

(** At each of its ends the lowest message is offered, or the rank there has
    something else to do. *)
Lemma lowest_is_ready lazy st r m :
  invariant st -> r < ranks -> In m (pending (st r)) ->
  (forall x, In x (pending (st r)) -> ~ lower x m) ->
  (exists st', step lazy st st') \/ (ready st r m /\ waiting st r).
Proof.
  intros Hinv Hr Hm Hlow. pose proof (all_fine _ Hinv r Hr) as Hfine.
  destruct (in_app_or _ _ _ Hm) as [Hopen|Hlater].
  - destruct (fine_alternate r _ Hfine) as [inside [Halt Hnone]].
    destruct (rest (st r)) as [|[work|group|] actions] eqn:Heq; simpl in Halt.
    + rewrite (Hnone Halt) in Hopen. destruct Hopen.
    + left. exists (change st r (RankState actions (open (st r)))).
      apply step_local with r work actions; auto; [apply change_at|].
      intros q Hq. apply change_other. simpl in Hq. intuition.
    + rewrite (Hnone (proj1 Halt)) in Hopen. destruct Hopen.
    + right. split; [|exists actions; assumption].
      split; [assumption|]. intros m' Hm'.
      destruct (ahead r m' m) eqn:Hahead; [exfalso|reflexivity].
      apply (Hlow m'); [apply in_or_app; auto|]. right.
      pose proof (fine_rounds r _ Hfine) as Hrounds.
      pose proof (fine_waves r _ Hfine) as [Hone _].
      inversion Hrounds; inversion Hone; subst. split; auto.
  - left. apply free_rank_steps with r; [assumption|..].
    + intros Hrest. rewrite Hrest in Hlater. destruct Hlater.
    + destruct (open (st r)) as [|x l] eqn:Hopen; [reflexivity|exfalso].
      apply (Hlow x).
      * unfold pending. rewrite Hopen. left. reflexivity.
      * left. pose proof (fine_waves r _ Hfine) as [_ Hascend].
        rewrite Hopen in Hascend. simpl in Hascend.
        apply Hascend; [left; reflexivity|assumption].
Qed.

Definition everything (st : state) : list message :=
  flat_map (fun r => pending (st r)) (seq 0 ranks).

Lemma in_everything st m :
  In m (everything st) <-> exists r, r < ranks /\ In m (pending (st r)).
Proof.
  unfold everything. rewrite in_flat_map. split.
  - intros [r [Hr Hm]]. apply in_seq in Hr. exists r. split; [lia|assumption].
  - intros [r [Hr Hm]]. exists r. split; [apply in_seq; lia|assumption].
Qed.

(** A rank that has something left, of which none is a message. *)
Lemma rest_or_finished st :
  (exists r, r < ranks /\ rest (st r) <> []) \/
  (forall r, r < ranks -> rest (st r) = []).
Proof.
  induction ranks as [|n IH].
  - right. intros r Hr. lia.
  - destruct IH as [[r [Hr Hrest]]|Hnone].
    + left. exists r. split; [lia|assumption].
    + destruct (rest (st n)) as [|a l] eqn:Heq.
      * right. intros r Hr. destruct (Nat.eq_dec r n) as [->|]; [assumption|].
        apply Hnone. lia.
      * left. exists n. split; [lia|]. rewrite Heq. discriminate.
Qed.

(** *** No state is blocked with work undone *)

Theorem no_deadlock lazy plan st :
  keeps_the_rules plan -> keeps_rounds plan ->
  reachable (start_of plan) st ->
  finished st \/ exists st', step lazy st st'.
Proof.
  intros Hplan Hrounds Hreach.
  destruct (reachable_invariant plan st Hplan Hrounds Hreach) as [Hinv Hfirst].
  destruct (everything st) as [|a l] eqn:Hall.
  - assert (Hnone : forall r, r < ranks -> pending (st r) = []).
    { intros r Hr. destruct (pending (st r)) as [|m ms] eqn:Hp; [reflexivity|].
      assert (In m (everything st)) as Hin.
      { apply in_everything. exists r. rewrite Hp. split; [assumption|].
        left. reflexivity. }
      rewrite Hall in Hin. destruct Hin. }
    assert (Hopen : forall r, r < ranks -> open (st r) = []).
    { intros r Hr. specialize (Hnone r Hr). unfold pending in Hnone.
      apply app_eq_nil in Hnone. tauto. }
    destruct (rest_or_finished st) as [[r [Hr Hrest]]|Hrest].
    + right. apply free_rank_steps with r; auto.
    + left. intros r Hr. auto.
  - destruct (lowest_exists (everything st)) as [m [Hm Hlow]];
      [rewrite Hall; discriminate|].
    apply in_everything in Hm. destruct Hm as [r [Hr Hm]].
    pose proof (fine_ends r _ (all_fine _ Hinv r Hr) m Hm)
      as [Hends [Hneq [Hs Ht]]].
    assert (Hboth : In m (pending (st (source m))) /\
                    In m (pending (st (target m)))).
    { pose proof (all_paired _ Hinv m Hs Ht) as Hpair.
      destruct Hends as [<-|<-]; tauto. }
    destruct Hboth as [Hms Hmt].
    assert (Hat : forall q, q < ranks -> forall x, In x (pending (st q)) ->
                  ~ lower x m).
    { intros q Hq x Hx. apply Hlow. apply in_everything. eauto. }
    right.
    destruct (lowest_is_ready lazy st (source m) m Hinv Hs Hms (Hat _ Hs))
      as [Hstep|[Ready1 Wait1]]; [assumption|].
    destruct (lowest_is_ready lazy st (target m) m Hinv Ht Hmt (Hat _ Ht))
      as [Hstep|[Ready2 Wait2]]; [assumption|].
    destruct m as [w s d n p]. simpl in *.
    exists (change (change st s (RankState (rest (st s))
              (remove message_eq_dec (Message w s d n p) (open (st s)))))
              d (RankState (rest (st d))
              (remove message_eq_dec (Message w s d n p) (open (st d))))).
    apply step_meet with s d w w n n p; auto.
    + rewrite change_other by congruence. apply change_at.
    + apply change_at.
    + intros q Hq. simpl in Hq.
      rewrite !change_other; [reflexivity|intuition..].
Qed.

Corollary no_reachable_state_is_stuck plan st :
  keeps_the_rules plan -> keeps_rounds plan ->
  reachable (start_of plan) st -> ~ stuck st.
Proof.
  intros Hplan Hrounds Hreach [Hnot Hnone].
  destruct (no_deadlock false plan st Hplan Hrounds Hreach)
    as [Hfin|[st' Hstep]].
  - contradiction.
  - exact (Hnone st' Hstep).
Qed.

(** ** Every run ends

    Each step takes away one thing that is left to do: a piece of work, a
    begin, an end, or a message at two ranks. So no run is longer than what
    there was at its start, and one that cannot go on has finished. *)

Definition size_of (s : rank_state) : nat :=
  length (rest s) + length (pending s).

Fixpoint total (st : state) (n : nat) : nat :=
  match n with
  | 0 => 0
  | S k => size_of (st k) + total st k
  end.

Lemma remove_shorter m l : In m l ->
  length (remove message_eq_dec m l) < length l.
Proof. intros Hin. apply remove_length_lt. assumption. Qed.

Lemma total_same st st' n :
  (forall r, r < n -> size_of (st' r) <= size_of (st r)) ->
  total st' n <= total st n.
Proof.
  induction n as [|n IH]; simpl; [lia|]. intros H.
  specialize (IH (fun r Hr => H r (Nat.lt_lt_succ_r _ _ Hr))).
  specialize (H n (Nat.lt_succ_diag_r n)). lia.
Qed.

Lemma total_less st st' n r :
  r < n -> size_of (st' r) < size_of (st r) ->
  (forall q, q < n -> size_of (st' q) <= size_of (st q)) ->
  total st' n < total st n.
Proof.
  induction n as [|n IH]; simpl; [lia|]. intros Hr Hless Hall.
  assert (Hn : forall q, q < n -> size_of (st' q) <= size_of (st q)) by auto.
  destruct (Nat.eq_dec r n) as [->|Hneq].
  - pose proof (total_same st st' n Hn). lia.
  - specialize (IH ltac:(lia) Hless Hn). specialize (Hall n ltac:(lia)). lia.
Qed.

Theorem every_step_does_something lazy st st' :
  step lazy st st' -> total st' ranks < total st ranks.
Proof.
  intros Hstep. destruct Hstep as
    [r work actions Hr Hrest Hst' Hsame
    | r group actions Hr Hrest Hopen Hst' Hsame
    | r actions Hr Hrest Hopen Hst' Hsame
    | s d w1 w2 n1 n2 p Hs Hd Hneq [H1 _] [H2 _] _ E1 E2 Hsame].
  1-3: assert (Hless : size_of (st' r) < size_of (st r));
    [ unfold size_of, pending; rewrite Hst', Hrest; simpl;
      rewrite ?Hopen, ?app_length; simpl; rewrite ?app_length; lia
    | apply total_less with r; [assumption|assumption|];
      intros q Hq; destruct (Nat.eq_dec q r) as [->|Hqr]; [lia|];
      rewrite Hsame; [lia|]; simpl; intuition ].
  assert (L1 : size_of (st' s) < size_of (st s)).
  { unfold size_of, pending. rewrite E1. simpl. rewrite !app_length.
    pose proof (remove_shorter _ _ H1). lia. }
  assert (L2 : size_of (st' d) < size_of (st d)).
  { unfold size_of, pending. rewrite E2. simpl. rewrite !app_length.
    pose proof (remove_shorter _ _ H2). lia. }
  apply total_less with s; [assumption|assumption|].
  intros q Hq. destruct (Nat.eq_dec q s) as [->|Hqs]; [lia|].
  destruct (Nat.eq_dec q d) as [->|Hqd]; [lia|].
  rewrite Hsame; [lia|]. simpl. intuition.
Qed.

(** A run: [steps] many steps of the machine. *)
Inductive run (lazy : bool) : nat -> state -> state -> Prop :=
  | run_none st : run lazy 0 st st
  | run_more steps st st' st'' :
      step lazy st st' -> run lazy steps st' st'' ->
      run lazy (S steps) st st''.

Lemma run_bound lazy steps st st' :
  run lazy steps st st' -> steps + total st' ranks <= total st ranks.
Proof.
  induction 1 as [|steps st st' st'' Hstep Hrun IH]; [lia|].
  apply every_step_does_something in Hstep. lia.
Qed.

(** What a lazy transport does, any other may do. *)
Lemma step_weaker lazy st st' : step lazy st st' -> step false st st'.
Proof.
  intros [r work actions Hr Hrest Hst' Hsame
    | r group actions Hr Hrest Hopen Hst' Hsame
    | r actions Hr Hrest Hopen Hst' Hsame
    | s d w1 w2 n1 n2 p Hs Hd Hneq H1 H2 _ E1 E2 Hsame].
  - apply step_local with r work actions; assumption.
  - apply step_begin with r group actions; assumption.
  - apply step_end with r actions; assumption.
  - apply step_meet with s d w1 w2 n1 n2 p; try assumption. discriminate.
Qed.

Lemma run_reachable lazy start st steps st' :
  reachable start st -> run lazy steps st st' -> reachable start st'.
Proof.
  intros Hreach Hrun. revert Hreach.
  induction Hrun as [|steps st st' st'' Hstep Hrun IH]; [auto|].
  intros Hreach. apply IH. apply reachable_step with st; [assumption|].
  apply step_weaker with lazy. assumption.
Qed.

Theorem every_run_ends lazy plan steps st :
  keeps_the_rules plan -> keeps_rounds plan ->
  run lazy steps (start_of plan) st ->
  steps <= total (start_of plan) ranks /\
  ((forall st', ~ step lazy st st') -> finished st).
Proof.
  intros Hplan Hrounds Hrun. split.
  - pose proof (run_bound _ _ _ _ Hrun). lia.
  - intros Hnone.
    destruct (no_deadlock lazy plan st Hplan Hrounds) as [Hfin|[st' Hstep]].
    + apply run_reachable with lazy (start_of plan) steps;
        [constructor|assumption].
    + assumption.
    + exfalso. exact (Hnone st' Hstep).
Qed.

(** From wherever a run has come to, it can be carried to the end. *)
Theorem every_run_can_finish lazy plan st :
  keeps_the_rules plan -> keeps_rounds plan ->
  reachable (start_of plan) st ->
  exists steps st', run lazy steps st st' /\ finished st'.
Proof.
  intros Hplan Hrounds.
  assert (Hind : forall bound st, total st ranks < bound ->
    reachable (start_of plan) st ->
    exists steps st', run lazy steps st st' /\ finished st').
  { clear st. induction bound as [|bound IH]; [lia|]. intros st Hbound Hreach.
    destruct (no_deadlock lazy plan st Hplan Hrounds Hreach)
      as [Hfin|[st' Hstep]].
    - exists 0, st. split; [constructor|assumption].
    - pose proof (every_step_does_something _ _ _ Hstep) as Hless.
      destruct (IH st') as [steps [st'' [Hrun Hfin]]]; [lia|..].
      + apply reachable_step with st; [assumption|].
        apply step_weaker with lazy. assumption.
      + exists (S steps), st''. split; [|assumption].
        apply run_more with st'; assumption. }
  intros Hreach. apply (Hind (S (total st ranks))); [lia|assumption].
Qed.

End Machine.
