(* Rounds.v - NCCL's rounds: both ends of an ordered pair are in one, the same.

   NCCL takes the operations of a group round by round (ncclP2pSchedule in
   src/init.cc). Ranks are G groups of L places. In a round a rank sends D
   groups and d places up and receives from D groups and d places down, both
   cyclically. All ranks go through the distances (D, d) in one order: D is
   0, 1, 3, 6, 10, ... modulo the next power of two, leaving out those that are
   no distance of groups, and for each D come all d in turn.

   That this visits every distance once is a property of these numbers, which
   NCCL does not prove, but checks by their count. *)

From Coq Require Import Arith Bool FinFun Lia List.
Import ListNotations.

(** ** The distances: every number below a power of two, once *)

Fixpoint distance (power i : nat) : nat :=
  match i with
  | 0 => 0
  | S before => (distance power before + i) mod power
  end.

Lemma distance_below power i : power <> 0 -> distance power i < power.
Proof.
  intros H. destruct i; simpl; [lia|]. apply Nat.mod_upper_bound. assumption.
Qed.

Lemma distance_is_triangular power i : power <> 0 ->
  exists k, 2 * distance power i + 2 * power * k = i * (i + 1).
Proof.
  intros H. induction i as [|i [k IH]].
  - exists 0. simpl. lia.
  - simpl distance.
    pose proof (Nat.div_mod (distance power i + S i) power H) as E.
    exists (k + (distance power i + S i) / power). nia.
Qed.

(** An odd factor does not matter to a power of two. *)
Lemma odd_factor k : forall m p,
  Nat.divide (2 ^ k) ((2 * m + 1) * p) -> Nat.divide (2 ^ k) p.
Proof.
  induction k as [|k IH]; intros m p [q E].
  - exists p. simpl. lia.
  - simpl in E. assert (Heven : exists half, p = 2 * half).
    { exists (q * 2 ^ k - m * p). nia. }
    destruct Heven as [half ->].
    destruct (IH m half) as [r Er]; [exists q; nia|].
    exists r. simpl. nia.
Qed.

Lemma divide_below a b : Nat.divide a b -> b < a -> b = 0.
Proof. intros [q E] H. destruct q; nia. Qed.

Lemma distances_differ k i j :
  i < j -> j < 2 ^ k -> distance (2 ^ k) i <> distance (2 ^ k) j.
Proof.
  intros Hij Hj Heq.
  assert (Hpow : 2 ^ k <> 0) by (apply Nat.pow_nonzero; lia).
  destruct (distance_is_triangular (2 ^ k) i Hpow) as [a Ea].
  destruct (distance_is_triangular (2 ^ k) j Hpow) as [b Eb].
  assert (Hdiv : Nat.divide (2 ^ S k) ((j - i) * (i + j + 1))).
  { exists (b - a). simpl. nia. }
  assert (Hsum : 2 ^ S k = 2 * 2 ^ k) by reflexivity.
  (* One of the factors is odd. *)
  destruct (Nat.Even_or_Odd (j - i)) as [[h Hh]|[h Hh]].
  - replace (i + j + 1) with (2 * (i + h) + 1) in Hdiv by lia.
    rewrite Nat.mul_comm in Hdiv. apply odd_factor in Hdiv.
    apply divide_below in Hdiv; lia.
  - rewrite Hh in Hdiv. apply odd_factor in Hdiv.
    apply divide_below in Hdiv; lia.
Qed.

Definition distances (k : nat) : list nat :=
  map (distance (2 ^ k)) (seq 0 (2 ^ k)).

Theorem every_distance_once k :
  NoDup (distances k) /\
  forall D, In D (distances k) <-> D < 2 ^ k.
Proof.
  assert (Hpow : 2 ^ k <> 0) by (apply Nat.pow_nonzero; lia).
  assert (Honce : NoDup (distances k)).
  { unfold distances. apply NoDup_nth with (d := 0).
    intros i j. rewrite map_length, seq_length. intros Hi Hj.
    assert (Hnth : forall x, x < 2 ^ k ->
      nth x (map (distance (2 ^ k)) (seq 0 (2 ^ k))) 0 = distance (2 ^ k) x).
    { intros x Hx. rewrite (nth_indep _ 0 (distance (2 ^ k) 0))
        by (rewrite map_length, seq_length; assumption).
      rewrite map_nth, seq_nth by assumption. reflexivity. }
    rewrite !Hnth by assumption. intros Heq.
    destruct (lt_eq_lt_dec i j) as [[Hij|Hij]|Hij]; [|assumption|].
    - exfalso. exact (distances_differ k i j Hij Hj Heq).
    - exfalso. symmetry in Heq. exact (distances_differ k j i Hij Hi Heq). }
  split; [assumption|]. intros D. split.
  - intros HD. apply in_map_iff in HD. destruct HD as [i [<- _]].
    apply distance_below. assumption.
  - intros HD.
    assert (Hincl : incl (seq 0 (2 ^ k)) (distances k)).
    { apply NoDup_length_incl; [assumption| |].
      - unfold distances. rewrite map_length. lia.
      - intros x Hx. apply in_map_iff in Hx. destruct Hx as [i [<- _]].
        apply in_seq. pose proof (distance_below (2 ^ k) i Hpow). lia. }
    apply Hincl. apply in_seq. lia.
Qed.

(** ** The schedule *)

Section Schedule.

(** [groups] groups of [places] ranks each; 2 ^ [power] is no less than
    [groups]. *)
Variables groups places power : nat.
Hypothesis some_groups : groups <= 2 ^ power.
Hypothesis some_places : places <> 0.

Definition ranks := groups * places.
Definition group_of (r : nat) := r / places.
Definition place_of (r : nat) := r mod places.
Definition rank_at (g p : nat) := g * places + p.

(** Distances in groups and in places, round by round. *)
Definition rounds : list (nat * nat) :=
  flat_map (fun D => map (pair D) (seq 0 places))
    (filter (fun D => D <? groups) (distances power)).

(** Whom rank [r] sends to, and whom it receives from, in a round. *)
Definition sends_to (r : nat) (by_ : nat * nat) : nat :=
  rank_at ((group_of r + fst by_) mod groups)
          ((place_of r + snd by_) mod places).
Definition receives_from (r : nat) (by_ : nat * nat) : nat :=
  rank_at ((group_of r + groups - fst by_) mod groups)
          ((place_of r + places - snd by_) mod places).

Definition schedule (r : nat) : list (nat * nat) :=
  map (fun by_ => (sends_to r by_, receives_from r by_)) rounds.

(** *** Cyclic distances *)

Definition up (x y n : nat) : nat := (y + n - x) mod n.

Lemma up_below x y n : n <> 0 -> up x y n < n.
Proof. intros H. apply Nat.mod_upper_bound. assumption. Qed.

Lemma mod_cases a n : 0 < n -> a < 2 * n ->
  (a < n /\ a mod n = a) \/ (n <= a /\ a mod n = a - n).
Proof.
  intros Hn Ha. destruct (lt_dec a n) as [Hlow|Hhigh].
  - left. split; [assumption|]. apply Nat.mod_small. assumption.
  - right. split; [lia|].
    replace a with (a - n + 1 * n) at 1 by lia.
    rewrite Nat.mod_add by lia. apply Nat.mod_small. lia.
Qed.

Lemma step_up_iff x y d n : x < n -> y < n -> d < n ->
  ((x + d) mod n = y <-> d = up x y n).
Proof.
  intros Hx Hy Hd. unfold up.
  destruct (mod_cases (x + d) n) as [[? ->]|[? ->]]; [lia..| |];
  destruct (mod_cases (y + n - x) n) as [[? ->]|[? ->]]; lia.
Qed.

Lemma step_down_iff x y d n : x < n -> y < n -> d < n ->
  ((y + n - d) mod n = x <-> d = up x y n).
Proof.
  intros Hx Hy Hd. unfold up.
  destruct (mod_cases (y + n - d) n) as [[? ->]|[? ->]]; [lia..| |];
  destruct (mod_cases (y + n - x) n) as [[? ->]|[? ->]]; lia.
Qed.

Lemma rank_split r : r < ranks ->
  group_of r < groups /\ place_of r < places /\
  r = rank_at (group_of r) (place_of r).
Proof.
  unfold ranks, group_of, place_of, rank_at. intros Hr.
  pose proof (Nat.div_mod r places some_places).
  pose proof (Nat.mod_upper_bound r places some_places).
  split; [|split; [assumption|lia]].
  apply Nat.div_lt_upper_bound; [assumption|lia].
Qed.

Lemma rank_at_injective g p r : p < places -> r < ranks ->
  (rank_at g p = r <-> g = group_of r /\ p = place_of r).
Proof.
  intros Hp Hr. unfold rank_at, group_of, place_of. split.
  - intros <-. split.
    + rewrite Nat.div_add_l by assumption. rewrite Nat.div_small; lia.
    + rewrite Nat.add_comm, Nat.mod_add by assumption.
      rewrite Nat.mod_small; lia.
  - intros [-> ->]. pose proof (Nat.div_mod r places some_places). lia.
Qed.

(** *** Every distance is one round *)

Lemma in_rounds D d : In (D, d) rounds <-> D < groups /\ d < places.
Proof.
  unfold rounds. rewrite in_flat_map. split.
  - intros [x [Hx Hd]]. apply filter_In in Hx. destruct Hx as [_ Hx].
    apply Nat.ltb_lt in Hx. apply in_map_iff in Hd.
    destruct Hd as [y [E Hy]]. apply in_seq in Hy.
    injection E as -> ->. lia.
  - intros [HD Hd]. exists D. split.
    + apply filter_In. split; [|apply Nat.ltb_lt; assumption].
      apply every_distance_once. lia.
    + apply in_map. apply in_seq. lia.
Qed.

Lemma rounds_once : NoDup rounds.
Proof.
  unfold rounds.
  assert (Honce : NoDup (filter (fun D => D <? groups) (distances power)))
    by (apply NoDup_filter, every_distance_once).
  induction Honce as [|D l Hnot Honce IH]; simpl; [constructor|].
  assert (Hhead : NoDup (map (pair D) (seq 0 places))).
  { apply Injective_map_NoDup; [|apply seq_NoDup].
    intros a b E. injection E. auto. }
  assert (Hapart : forall x, In x (map (pair D) (seq 0 places)) ->
    ~ In x (flat_map (fun D => map (pair D) (seq 0 places)) l)).
  { intros x Hx Htail. apply in_map_iff in Hx. destruct Hx as [y [<- _]].
    apply in_flat_map in Htail. destruct Htail as [E [HE Hin]].
    apply in_map_iff in Hin. destruct Hin as [z [Ez _]].
    injection Ez as <- _. contradiction. }
  revert Hhead Hapart IH.
  generalize (map (pair D) (seq 0 places)) as first.
  generalize (flat_map (fun D => map (pair D) (seq 0 places)) l) as tail.
  intros tail first Hfirst Hapart Htail.
  induction Hfirst as [|x first Hx Hfirst IHfirst]; simpl; [assumption|].
  constructor.
  - rewrite in_app_iff. intros [Hin|Hin]; [contradiction|].
    apply (Hapart x); [left; reflexivity|assumption].
  - apply IHfirst. intros y Hy. apply Hapart. right. assumption.
Qed.

(** The round of an ordered pair: the place of its distance. *)
Fixpoint place_in (x : nat * nat) (l : list (nat * nat)) : nat :=
  match l with
  | [] => 0
  | y :: more =>
      if (fst x =? fst y) && (snd x =? snd y) then 0 else S (place_in x more)
  end.

Definition round (s d : nat) : nat :=
  place_in (up (group_of s) (group_of d) groups,
            up (place_of s) (place_of d) places) rounds.

Lemma place_in_spec x l : In x l ->
  place_in x l < length l /\ nth_error l (place_in x l) = Some x.
Proof.
  induction l as [|y l IH]; simpl; [tauto|]. intros Hin.
  destruct ((fst x =? fst y) && (snd x =? snd y)) eqn:E.
  - apply andb_prop in E. destruct E as [E1 E2].
    apply Nat.eqb_eq in E1, E2. split; [lia|]. simpl.
    destruct x, y. simpl in *. congruence.
  - destruct Hin as [->|Hin].
    + rewrite !Nat.eqb_refl in E. discriminate.
    + destruct (IH Hin). split; [lia|assumption].
Qed.

Lemma place_of_nth k x : nth_error rounds k = Some x ->
  k = place_in x rounds.
Proof.
  intros Hk.
  destruct (place_in_spec x rounds (nth_error_In _ _ Hk)) as [Hlen Hx].
  pose proof rounds_once as Honce. rewrite NoDup_nth_error in Honce.
  apply Honce; [|congruence].
  apply nth_error_Some. congruence.
Qed.

(** In round k of their own schedules, s sends to d exactly when d receives
    from s, and exactly when k is the round of the pair. *)
Theorem rounds_agree s d k to from to' from' :
  s < ranks -> d < ranks ->
  nth_error (schedule s) k = Some (to, from) ->
  nth_error (schedule d) k = Some (to', from') ->
  (to = d <-> k = round s d) /\ (from' = s <-> k = round s d).
Proof.
  intros Hs Hd H1 H2. unfold schedule in *.
  rewrite nth_error_map in H1, H2.
  destruct (nth_error rounds k) as [[D e]|] eqn:Hk; [|discriminate].
  simpl in H1, H2. injection H1 as <- _. injection H2 as _ <-.
  pose proof (nth_error_In _ _ Hk) as Hin. apply in_rounds in Hin.
  destruct Hin as [HD He].
  destruct (rank_split s Hs) as [Gs [Ps _]].
  destruct (rank_split d Hd) as [Gd [Pd _]].
  assert (Hround : k = round s d <->
    D = up (group_of s) (group_of d) groups /\
    e = up (place_of s) (place_of d) places).
  { split.
    - intros ->. unfold round in Hk.
      set (x := (up (group_of s) (group_of d) groups,
                 up (place_of s) (place_of d) places)) in *.
      assert (Hx : In x rounds).
      { apply in_rounds. split; apply up_below; lia. }
      destruct (place_in_spec x rounds Hx) as [_ Hx'].
      rewrite Hx' in Hk. unfold x in Hk. injection Hk as <- <-. auto.
    - intros [-> ->]. unfold round. apply place_of_nth. assumption. }
  rewrite Hround. unfold sends_to, receives_from. simpl. split.
  - rewrite rank_at_injective; [|apply Nat.mod_upper_bound|]; [|assumption..].
    rewrite step_up_iff, step_up_iff by assumption. tauto.
  - rewrite rank_at_injective; [|apply Nat.mod_upper_bound|]; [|assumption..].
    rewrite step_down_iff, step_down_iff by assumption. tauto.
Qed.

Theorem every_pair_has_a_round s d :
  s < ranks -> d < ranks ->
  round s d < length (schedule s) /\ length (schedule s) = length rounds.
Proof.
  intros Hs Hd. unfold schedule. rewrite map_length. split; [|reflexivity].
  unfold round. apply place_in_spec. apply in_rounds.
  destruct (rank_split s Hs) as [Gs [Ps _]].
  split; apply up_below; lia.
Qed.

End Schedule.

(** The sequence that the comment in NCCL's source gives for 16 ranks. *)
Example sequence_of_the_source :
  distances 4 = [0; 1; 3; 6; 10; 15; 5; 12; 4; 13; 7; 2; 14; 11; 9; 8].
Proof. reflexivity. Qed.
