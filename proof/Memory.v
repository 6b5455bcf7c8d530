(* Memory.v - A device never holds more than the peak that was counted.

   The peak is counted in the order of the program: storage that is created
   adds to what the device holds, storage that is released takes from it. An
   executor may run creates and releases in another order, as long as no create
   overtakes a release that stands before it: a release may be late while only
   other work goes on, but the next create waits for it. For any number of
   creates and releases. *)

From Coq Require Import Bool Lia List ZArith.
Import ListNotations.

Local Open Scope Z_scope.

Inductive event := Create (bytes : nat) | Release (bytes : nat).

Definition change (e : event) : Z :=
  match e with
  | Create bytes => Z.of_nat bytes
  | Release bytes => - Z.of_nat bytes
  end.

(** What is held after these events, of [base] bytes before them. *)
Fixpoint count (base : Z) (events : list event) : Z :=
  match events with
  | [] => base
  | e :: more => count (base + change e) more
  end.

(** The most that is held, as one pass over the program finds it. *)
Fixpoint peak (base : Z) (events : list event) : Z :=
  match events with
  | [] => base
  | e :: more => Z.max base (peak (base + change e) more)
  end.

Lemma peak_is_no_less events : forall base, base <= peak base events.
Proof. induction events; simpl; intros; lia. Qed.

(** ** In the order of the program *)

Theorem peak_is_the_most events : forall base,
  (forall done left, events = done ++ left ->
     count base done <= peak base events) /\
  exists done left, events = done ++ left /\
    count base done = peak base events.
Proof.
  induction events as [|e events IH]; intros base.
  - split.
    + intros done left E. symmetry in E. apply app_eq_nil in E.
      destruct E as [-> _]. simpl. lia.
    + exists [], []. auto.
  - destruct (IH (base + change e)) as [Hmost [done [left [E Hreached]]]].
    split.
    + intros [|e' done'] left' E'; simpl in *; [lia|].
      injection E' as <- E'. specialize (Hmost done' left' E'). lia.
    + simpl. destruct (Z.max_spec base (peak (base + change e) events))
        as [[_ ->]|[_ ->]].
      * exists (e :: done), left. simpl. subst. auto.
      * exists [], (e :: events). auto.
Qed.

(** ** In other orders

    At a moment some of the events have happened: each event of the program
    with whether it is done. *)

Definition moment := list (event * bool).

Definition program_of (m : moment) : list event := map fst m.

Fixpoint held (base : Z) (m : moment) : Z :=
  match m with
  | [] => base
  | (e, done) :: more => held (base + if done then change e else 0) more
  end.

(** What an executor keeps: a create is done only after all releases that stand
    before it. *)
Definition no_create_overtakes (m : moment) : Prop :=
  forall before bytes after released left,
  m = before ++ (Create bytes, true) :: after ->
  In (Release released, left) before -> left = true.

Lemma count_app events events' base :
  count base (events ++ events') = count (count base events) events'.
Proof. revert base. induction events; simpl; auto. Qed.

Lemma held_app m m' base : held base (m ++ m') = held (held base m) m'.
Proof.
  revert base. induction m as [|[e done] m IH]; simpl; auto.
Qed.

Lemma peak_grows events e base :
  peak base events <= peak base (events ++ [e]) /\
  count base (events ++ [e]) <= peak base (events ++ [e]).
Proof.
  revert base. induction events as [|x events IH]; intros base; simpl; [lia|].
  destruct (IH (base + change x)). lia.
Qed.

(** Where all releases are done, no more is held than the program counts. *)
Lemma all_released m : forall base,
  (forall bytes left, In (Release bytes, left) m -> left = true) ->
  held base m <= count base (program_of m).
Proof.
  assert (Hmono : forall events a b,
    a <= b -> count a events <= count b events).
  { induction events as [|e events IH]; simpl; intros a b H; [assumption|].
    apply IH. lia. }
  induction m as [|[e done] m IH]; simpl; intros base Hreleased; [lia|].
  assert (Hrest : forall b,
    held b m <= count b (program_of m)).
  { intros b. apply IH. intros bytes left Hin. apply Hreleased with bytes.
    right. assumption. }
  eapply Z.le_trans; [apply Hrest|]. apply Hmono.
  destruct e as [bytes|bytes]; destruct done; simpl; try lia.
  specialize (Hreleased bytes false (or_introl eq_refl)). discriminate.
Qed.

Theorem never_more_than_the_peak m base :
  no_create_overtakes m -> held base m <= peak base (program_of m).
Proof.
  induction m as [|[e done] m IH] using rev_ind; intros Hkeeps; [simpl; lia|].
  assert (Hbefore : no_create_overtakes m).
  { intros before bytes after released left E.
    apply Hkeeps with bytes (after ++ [(e, done)]).
    rewrite E, <- app_assoc. reflexivity. }
  specialize (IH Hbefore).
  unfold program_of in *. rewrite map_app, held_app. simpl.
  destruct (peak_grows (map fst m) e base) as [Hgrows Hcount].
  destruct e as [bytes|bytes]; destruct done; simpl in *; try lia.
  assert (Hall : held base m <= count base (map fst m)).
  { apply all_released. intros released left.
    apply Hkeeps with bytes []. reflexivity. }
  rewrite count_app in Hcount. simpl in Hcount. lia.
Qed.

(** ** Wave by wave

    Where all creates of a wave stand before its releases, an executor may move
    both anywhere in their wave: the creates to its start, the releases to its
    end. It is enough that a create waits for the releases of earlier waves. *)

Definition waves_of := list (nat * (event * bool)).

Definition waves_ascend (m : waves_of) : Prop :=
  forall before x after y, m = before ++ x :: after -> In y before ->
  (fst y <= fst x)%nat.

Definition creates_first (m : waves_of) : Prop :=
  forall before w bytes done after released left,
  m = before ++ (w, (Create bytes, done)) :: after ->
  ~ In (w, (Release released, left)) before.

Definition creates_wait_for_earlier_waves (m : waves_of) : Prop :=
  forall w bytes w' released left,
  In (w, (Create bytes, true)) m -> In (w', (Release released, left)) m ->
  (w' < w)%nat -> left = true.

Lemma map_snd_split (m : waves_of) : forall before x after,
  map snd m = before ++ x :: after ->
  exists before' w after', m = before' ++ (w, x) :: after' /\
    map snd before' = before.
Proof.
  induction m as [|[w y] m IH]; intros before x after E.
  - destruct before; discriminate.
  - destruct before as [|b before]; simpl in E; injection E as E1 E2.
    + subst. exists [], w, m. auto.
    + destruct (IH _ _ _ E2) as [before' [w' [after' [-> <-]]]].
      subst. exists ((w, b) :: before'), w', after'. auto.
Qed.

Theorem creates_and_releases_move_within_waves m base :
  waves_ascend m -> creates_first m -> creates_wait_for_earlier_waves m ->
  held base (map snd m) <= peak base (program_of (map snd m)).
Proof.
  intros Hascend Hfirst Hwait. apply never_more_than_the_peak.
  intros before bytes after released left E Hin.
  destruct (map_snd_split _ _ _ _ E) as [before' [w [after' [-> <-]]]].
  apply in_map_iff in Hin. destruct Hin as [[w' x] [Ex Hin]].
  simpl in Ex. subst x.
  apply (Hwait w bytes w' released left).
  - apply in_or_app. right. left. reflexivity.
  - apply in_or_app. left. assumption.
  - specialize (Hascend _ _ _ _ eq_refl Hin). simpl in Hascend.
    destruct (Nat.eq_dec w' w) as [->|]; [|lia].
    exfalso. exact (Hfirst _ _ _ _ _ _ _ eq_refl Hin).
Qed.

(** The rule is needed: a create that overtakes a release holds both. *)
Example overtaking_is_not_counted :
  let m := [(Release 10, false); (Create 10, true)] in
  peak 10 (program_of m) = 10 /\ held 10 m = 20.
Proof. split; reflexivity. Qed.
