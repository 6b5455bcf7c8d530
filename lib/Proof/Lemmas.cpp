//===- Lemmas.cpp - What the rules imply, as SMT problems -----------------===//
//
// Each text states the hypotheses of one rule and the negation of what follows
// from them. Nothing in them is a number of the plan: ranks, waves, messages,
// pieces, slots and the places of the cuts are all arbitrary.
//
// Where a rule is about all steps of a run, or all pieces, the text is one step
// of an induction. The theorem that is named beside it has the induction too,
// and is checked by Coq (proof/, docs/Proof.md).
//
//===----------------------------------------------------------------------===//

#include "dt/Proof/Lemmas.h"

namespace dt {

namespace {

/// Round (D, d) of NCCL's point-to-point schedule, on ranks that are pairs of
/// a group below G and a place below L in it: a rank sends D groups and d
/// places up, and receives from D groups and d places down, both cyclically.
constexpr const char *kRounds = R"((declare-const G Int)
(declare-const L Int)
(define-fun up ((x Int) (by Int) (n Int)) Int
  (ite (< (+ x by) n) (+ x by) (- (+ x by) n)))
(define-fun down ((x Int) (by Int) (n Int)) Int
  (ite (>= (- x by) 0) (- x by) (+ (- x by) n)))
(define-fun below ((x Int) (n Int)) Bool (and (<= 0 x) (< x n)))
(declare-const senderGroup Int)
(declare-const senderPlace Int)
(declare-const D Int)
(declare-const d Int)
(declare-const E Int)
(declare-const e Int)
(assert (and (below senderGroup G) (below senderPlace L)))
(assert (and (below D G) (below d L) (below E G) (below e L)))
(define-fun receiverGroup () Int (up senderGroup D G))
(define-fun receiverPlace () Int (up senderPlace d L))
; Negation: the receiver does not expect the sender in the round in which the
; sender sends to it, or the pair meets in a second round as well.
(assert (or (not (= (down receiverGroup D G) senderGroup))
            (not (= (down receiverPlace d L) senderPlace))
            (and (= (up senderGroup E G) receiverGroup)
                 (= (up senderPlace e L) receiverPlace)
                 (not (and (= D E) (= d e))))))
)";

/// One rank takes the operations of one group. `number` is a message's place
/// among those of its ordered pair; a visit of a round takes the message that
/// is first of its pair, unless a cut ends the kernel plan there.
constexpr const char *kScan = R"((declare-sort Message 0)
(declare-fun round (Message) Int)
(declare-fun receive (Message) Bool)
(declare-fun number (Message) Int)
(declare-fun taken (Message) Bool)
(declare-fun takenAfter (Message) Bool)
(declare-const visited Int)
(declare-const next Int)
(declare-const cut Bool)
; The rule: at most one message per ordered pair and group.
(assert (forall ((m Message)) (= (number m) 0)))
(assert (forall ((m Message)) (<= 0 (round m))))
; Before the visit, all messages of lower rounds are taken.
(assert (forall ((m Message)) (=> (< (round m) visited) (taken m))))
(define-fun first ((m Message)) Bool
  (forall ((o Message))
    (=> (and (= (round o) (round m)) (= (receive o) (receive m))
             (< (number o) (number m)))
        (taken o))))
; A cut may fall anywhere. After it, the scan goes on from the same round, or
; from round 0, as NCCL up to 2.29.3 does.
(assert (=> cut (and (or (= next visited) (= next 0))
                     (forall ((m Message)) (= (takenAfter m) (taken m))))))
; Otherwise from the next round, or, after the last one, from round 0.
(assert (=> (not cut)
  (and (or (= next (+ visited 1)) (= next 0))
       (forall ((m Message))
         (= (takenAfter m)
            (or (taken m) (and (= (round m) visited) (first m))))))))
(declare-const x Message)
(declare-const y Message)
; Negation: lower rounds are not all taken after the visit, or it takes a
; message while another one of no higher round is left behind.
(assert (or (and (< (round x) next) (not (takenAfter x)))
            (and (not (taken y)) (takenAfter y) (not (takenAfter x))
                 (<= (round x) (round y)))))
)";

/// Items are messages and local work: packs, unpacks, copies, zeros, creates
/// and releases. `before r m n`: at rank r, n is not begun until m is done.
/// Where local work stands is left open, so that packs may run early and
/// unpacks late; it waits for nothing but what stands before it at its own
/// rank.
constexpr const char *kProgress = R"((declare-sort Rank 0)
(declare-sort Item 0)
(declare-fun local (Item) Bool)
(declare-fun wave (Item) Int)
(declare-fun round (Item) Int)
(declare-fun place (Item) Int)
(declare-fun before (Rank Item Item) Bool)
(declare-fun done (Item) Bool)
(define-fun lower ((m Item) (n Item)) Bool
  (or (< (wave m) (wave n))
      (and (= (wave m) (wave n)) (< (round m) (round n)))))
; Messages: every rank runs its waves in ascending order, and takes those of a
; group in ascending rounds. Both ends of a message are the same item: one wave,
; one round.
(assert (forall ((r Rank) (m Item) (n Item))
  (=> (and (not (local m)) (not (local n)) (before r m n)) (lower m n))))
; What stands before local work stands before what waits for that work.
(assert (forall ((r Rank) (m Item) (l Item) (n Item))
  (=> (and (local l) (before r m l) (before r l n)) (before r m n))))
; Local work of a rank is done in some order.
(assert (forall ((r Rank) (l Item) (n Item))
  (=> (and (local l) (local n) (before r l n)) (< (place l) (place n)))))
; Of the messages that are not done, x is the lowest.
(declare-const x Item)
(assert (and (not (local x)) (not (done x))))
(assert (forall ((m Item))
  (=> (and (not (local m)) (not (done m))) (not (lower m x)))))
; At one of its ends, r, y is the first of the local work that it waits for, if
; there is any.
(declare-const r Rank)
(declare-const y Item)
(assert (forall ((l Item))
  (=> (and (local l) (not (done l)) (before r l x))
      (and (local y) (not (done y)) (before r y x) (<= (place y) (place l))))))
; Negation: x waits there for an item, and so does y.
(declare-const forX Item)
(declare-const forY Item)
(assert (and (not (done forX)) (before r forX x)
             (not (done forY)) (before r forY y)))
)";

/// The arena has four areas, {send, receive} x {even, odd group}: disjoint
/// ranges of bytes in any order.
constexpr const char *kFourAreas = R"((declare-fun first (Bool Bool) Int)
(declare-fun last (Bool Bool) Int)
(declare-const arena Int)
(assert (forall ((receive Bool) (odd Bool))
  (and (<= 0 (first receive odd)) (<= (last receive odd) arena))))
(assert (forall ((r Bool) (o Bool) (s Bool) (p Bool))
  (or (and (= r s) (= o p))
      (<= (last r o) (first s p))
      (<= (last s p) (first r o)))))
; Two slots: kind, group (2 half + odd), bytes.
(declare-const receive1 Bool)
(declare-const odd1 Bool)
(declare-const half1 Int)
(declare-const begin1 Int)
(declare-const end1 Int)
(declare-const receive2 Bool)
(declare-const odd2 Bool)
(declare-const half2 Int)
(declare-const begin2 Int)
(declare-const end2 Int)
(define-fun group1 () Int (+ half1 half1 (ite odd1 1 0)))
(define-fun group2 () Int (+ half2 half2 (ite odd2 1 0)))
(assert (and (< begin1 end1) (<= (first receive1 odd1) begin1)
             (<= end1 (last receive1 odd1))))
(assert (and (< begin2 end2) (<= (first receive2 odd2) begin2)
             (<= end2 (last receive2 odd2))))
; Slots of one kind in one group are disjoint.
(assert (=> (and (= receive1 receive2) (= group1 group2))
            (or (<= end1 begin2) (<= end2 begin1))))
; `now`: how many groups of the device have ended. A send slot is in use from
; its pack, which runs during the group before at the earliest, to the end of
; its group; a receive slot from the begin of its group to its unpack, which
; runs during the group after at the latest.
(declare-const now Int)
(define-fun live ((receive Bool) (group Int)) Bool
  (ite receive (<= group now (+ group 1)) (<= (- group 1) now group)))
; Negation: both are live at one moment and share a byte, or one leaves the
; arena.
(assert (or (and (live receive1 group1) (live receive2 group2)
                 (< begin1 end2) (< begin2 end1))
            (< begin1 0)
            (> end1 arena)))
)";

/// Pieces in ascending order of their lower ends in one dim; `reach` is the
/// largest upper end of those before.
constexpr const char *kDisjoint = R"((declare-sort Piece 0)
(declare-sort Dim 0)
(declare-fun lo (Piece Dim) Int)
(declare-fun hi (Piece Dim) Int)
(declare-fun seen (Piece) Bool)
(declare-const swept Dim)
(declare-const reach Int)
(assert (forall ((p Piece)) (=> (seen p) (<= (hi p swept) reach))))
; The next piece starts a new run: it lies beyond all pieces before it.
(declare-const next Piece)
(assert (and (not (seen next)) (>= (lo next swept) reach)))
; Negation: an element is in it and in a piece of a run before.
(declare-fun element (Dim) Int)
(define-fun holds ((p Piece)) Bool
  (forall ((d Dim)) (and (<= (lo p d) (element d)) (< (element d) (hi p d)))))
(declare-const other Piece)
(assert (and (seen other) (holds other) (holds next)))
)";

/// Disjoint pieces inside what a device wants, counted one after another.
constexpr const char *kCount = R"((declare-const wanted Int)
(declare-const covered Int)
(declare-const missing Int)
(declare-const volume Int)
(declare-const coveredAfter Int)
(declare-const missingAfter Int)
(assert (and (<= 0 covered) (<= 0 missing) (= wanted (+ covered missing))))
; The next piece is disjoint from those before and inside what is wanted, so
; its elements were missing.
(assert (and (< 0 volume) (<= volume missing)))
(assert (= coveredAfter (+ covered volume)))
(assert (= missingAfter (- missing volume)))
; Negation: the count fails, or it is complete with an element missing.
(assert (or (not (= wanted (+ coveredAfter missingAfter)))
            (< missingAfter 0)
            (and (= coveredAfter wanted) (not (= missingAfter 0)))))
)";

/// One step of the induction over the waves, with what executors keep: packs
/// may run early and unpacks late, but not across each other where one reads
/// what the other brings.
constexpr const char *kFeeding = R"((declare-sort Rank 0)
(declare-sort Element 0)
(declare-sort Piece 0)
(declare-fun wave (Piece) Int)
(declare-fun sender (Piece) Rank)
(declare-fun receiver (Piece) Rank)
(declare-fun holds (Piece Element) Bool)
(declare-fun fromSource (Piece Element) Bool)
(declare-fun feeder (Piece Element) Piece)
(declare-fun atSource (Rank Element) Bool)
; When things happen.
(declare-fun packed (Piece) Int)
(declare-fun unpacked (Piece) Int)
(declare-fun released (Rank Element) Int)
; The plan: every element of a piece is read from the sender's source, or came
; to its destination with a piece of an earlier wave.
(assert (forall ((p Piece) (e Element)) (=> (holds p e)
  (ite (fromSource p e)
       (atSource (sender p) e)
       (and (holds (feeder p e) e)
            (= (receiver (feeder p e)) (sender p))
            (< (wave (feeder p e)) (wave p)))))))
; The executor: the source is read before its release.
(assert (forall ((p Piece) (e Element))
  (=> (and (holds p e) (fromSource p e))
      (< (packed p) (released (sender p) e)))))
; The executor's rule for forwards: what a piece of an earlier wave brings is
; unpacked before it is read.
(assert (forall ((p Piece) (q Piece) (e Element))
  (=> (and (holds p e) (not (fromSource p e)) (holds q e)
           (= (receiver q) (sender p)) (< (wave q) (wave p)))
      (< (unpacked q) (packed p)))))
; right p e: piece p brings the value of element e. It does if it reads it where
; it is: at the source before its release, or at the destination after it was
; unpacked there, and right.
(declare-fun right (Piece Element) Bool)
(assert (forall ((p Piece) (e Element))
  (=> (and (holds p e) (fromSource p e) (atSource (sender p) e)
           (< (packed p) (released (sender p) e)))
      (right p e))))
(assert (forall ((p Piece) (e Element))
  (=> (and (holds p e) (not (fromSource p e)) (right (feeder p e) e)
           (< (unpacked (feeder p e)) (packed p)))
      (right p e))))
; All pieces of earlier waves are right (induction over the waves).
(declare-const p Piece)
(declare-const e Element)
(assert (forall ((q Piece)) (=> (and (< (wave q) (wave p)) (holds q e))
                                (right q e))))
; Negation: p is not.
(assert (and (holds p e) (not (right p e))))
)";

/// One step of the count, in program order. Of what stands in the program an
/// executor has done some: releases may be late, other work goes on, but the
/// next create waits for them. What is held at the start, the arena and in
/// rollback mode all storage, is part of the count.
constexpr const char *kPeak = R"((declare-const bound Int)
; So far: the count of the program and its largest value, what is held, and how
; much of it was to be released before.
(declare-const count Int)
(declare-const peak Int)
(declare-const held Int)
(declare-const late Int)
(assert (and (<= 0 late) (<= held (+ count late)) (<= held peak)
             (<= count peak)))
; The next event, and whether it is done.
(declare-const create Bool)
(declare-const done Bool)
(declare-const bytes Int)
(assert (<= 0 bytes))
(declare-const countAfter Int)
(declare-const peakAfter Int)
(declare-const heldAfter Int)
(declare-const lateAfter Int)
(assert (= countAfter (ite create (+ count bytes) (- count bytes))))
(assert (= peakAfter (ite (< peak countAfter) countAfter peak)))
(assert (= heldAfter (ite (not done) held
                          (ite create (+ held bytes) (- held bytes)))))
(assert (= lateAfter (ite (or create done) late (+ late bytes))))
; What an executor keeps: a create is done after all releases before it.
(assert (=> (and create done) (= late 0)))
; At the end the peak is compared with the bound.
(assert (<= peakAfter bound))
; Negation: more is held than the bound allows, or the count does not say so.
(assert (or (> heldAfter bound)
            (> heldAfter peakAfter)
            (> heldAfter (+ countAfter lateAfter))
            (> countAfter peakAfter)
            (< lateAfter 0)
            (< peakAfter peak)))
)";

} // namespace

const std::vector<Obligation> &lemmas() {
  static const std::vector<Obligation> all = {
      {"rounds-agree", Claim::DeadlockFree,
       "both ends of an ordered pair see it in the same round, and in one "
       "round only",
       kRounds, "Rounds.rounds_agree"},
      {"cuts-keep-rounds", Claim::DeadlockFree,
       "with one message per ordered pair and group, every rank takes its "
       "messages in ascending rounds wherever its kernel plans are cut",
       kScan, "KernelPlans.cuts_keep_rounds"},
      {"lowest-can-run", Claim::DeadlockFree,
       "of all messages that are not done, that with the lowest (wave, round) "
       "waits for nothing but local work that can go on, wherever local work "
       "stands",
       kProgress, "Machine.no_deadlock"},
      {"slots-never-meet", Claim::MemorySafe,
       "slots in the four areas of an arena never overlap while in use, and "
       "stay inside it",
       kFourAreas, "Slots.slots_never_meet"},
      {"runs-are-disjoint", Claim::Coverage,
       "pieces of different runs of the sweep share no element", kDisjoint,
       "Sweep.runs_are_disjoint"},
      {"count-is-complete", Claim::Coverage,
       "disjoint pieces inside what is wanted, as many elements as wanted, "
       "leave none out",
       kCount, "Coverage.count_is_complete"},
      {"nothing-sent-too-early", Claim::MemorySafe,
       "every piece that is sent holds its value, and nothing is read after "
       "its release",
       kFeeding, "Feeding.nothing_is_sent_too_early"},
      {"peak-is-counted", Claim::MemorySafe,
       "counted at every create and release, a device never holds more than "
       "the bound that its peak keeps to, though releases run late",
       kPeak, "Memory.never_more_than_the_peak"},
  };
  return all;
}

} // namespace dt
