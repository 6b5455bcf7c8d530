//===- PlanObligations.cpp - The classes of a plan as SMT problems --------===//

#include "dt/Proof/PlanObligations.h"

namespace dt {

namespace {

std::string number(int64_t value) {
  return value < 0 ? "(- " + std::to_string(-value) + ")"
                   : std::to_string(value);
}

std::string define(const std::string &name, int64_t value) {
  return "(define-fun " + name + " () Int " + number(value) + ")\n";
}

//===----------------------------------------------------------------------===//
// Waves
//===----------------------------------------------------------------------===//

/// Of any two waves the later has the higher number, and any two messages of a
/// group, wherever it is cut, are taken in the order of their rounds.
constexpr const char *kWaves = R"((declare-const k Int)
(declare-const l Int)
(define-fun wave ((k Int)) Int (+ first (* step k)))
; A scan over the rounds of a group, with a cut or without one, as in the lemma
; cuts-keep-rounds: x, y are messages with a round and a place in their pair.
(declare-const visited Int)
(declare-const next Int)
(declare-const cut Bool)
(declare-const roundX Int)
(declare-const roundY Int)
(declare-const placeX Int)
(declare-const placeY Int)
(declare-const takenX Bool)
(declare-const takenY Bool)
(assert (and (<= 0 roundX) (<= 0 roundY)))
(assert (and (<= 0 placeX) (< placeX perPair) (<= 0 placeY) (< placeY perPair)))
; Lower rounds have been taken before the visit, in this pass.
(assert (=> (and (< roundX visited) (= placeX 0)) takenX))
(assert (=> (and (< roundY visited) (= placeY 0)) takenY))
(define-fun takes ((round Int) (place Int)) Bool
  (and (not cut) (= round visited) (= place 0)))
(define-fun afterX () Bool (or takenX (takes roundX placeX)))
(define-fun afterY () Bool (or takenY (takes roundY placeY)))
(assert (ite cut (or (= next visited) (= next 0)) (= next (+ visited 1))))
; Negation.
(assert (or (and (<= 0 k) (< k l) (< l count) (>= (wave k) (wave l)))
            (<= first before)
            (> perRank atMost)
            (and (< roundX next) (not afterX))
            (and (not takenY) afterY (not afterX) (<= roundX roundY))))
)";

Obligation wavesObligation(const WaveClass &waves, int64_t before) {
  Obligation out;
  int64_t last = waves.first + waves.step * (waves.count - 1);
  out.name =
      "waves-" + std::to_string(waves.first) + "-to-" + std::to_string(last);
  out.claim = Claim::DeadlockFree;
  out.statement = "waves (" + std::to_string(waves.count) +
                  ") come in one order, and messages of their groups in the "
                  "order of the rounds wherever they are cut";
  out.problem = define("first", waves.first) + define("step", waves.step) +
                define("count", waves.count) + define("before", before) +
                define("perPair", waves.perPair) +
                define("perRank", waves.perRank) +
                define("atMost", kMaxGroupMessages) + kWaves;
  return out;
}

//===----------------------------------------------------------------------===//
// Arenas
//===----------------------------------------------------------------------===//

/// Two slots of a device, in groups of any numbers.
constexpr const char *kArena = R"((declare-const area1 Int)
(declare-const half1 Int)
(declare-const begin1 Int)
(declare-const end1 Int)
(declare-const area2 Int)
(declare-const half2 Int)
(declare-const begin2 Int)
(declare-const end2 Int)
(define-fun odd ((area Int)) Int (ite (or (= area 1) (= area 3)) 1 0))
(define-fun receive ((area Int)) Bool (>= area 2))
(define-fun group1 () Int (+ half1 half1 (odd area1)))
(define-fun group2 () Int (+ half2 half2 (odd area2)))
(assert (and (inside area1 begin1 end1) (inside area2 begin2 end2)))
; Slots of one kind in one group are disjoint: checked by code.
(assert (=> (and (= area1 area2) (= half1 half2))
            (or (<= end1 begin2) (<= end2 begin1))))
; A send slot is in use from the pack, a group early at most, to its group; a
; receive slot from its group to the unpack, a group late at most.
(declare-const now Int)
(define-fun live ((area Int) (group Int)) Bool
  (ite (receive area) (<= group now (+ group 1)) (<= (- group 1) now group)))
; Negation: both are in use at one moment and share a byte, or one leaves the
; limit.
(assert (or (and (live area1 group1) (live area2 group2)
                 (< begin1 end2) (< begin2 end1))
            (< begin1 0)
            (> end1 limit)))
)";

/// Two slots of a device, of all that it has.
constexpr const char *kTwoSlots = R"((declare-const slot1 Int)
(declare-const begin1 Int)
(declare-const end1 Int)
(declare-const first1 Int)
(declare-const last1 Int)
(declare-const slot2 Int)
(declare-const begin2 Int)
(declare-const end2 Int)
(declare-const first2 Int)
(declare-const last2 Int)
(assert (isSlot slot1 begin1 end1 first1 last1))
(assert (isSlot slot2 begin2 end2 first2 last2))
(declare-const now Int)
; Negation: both are in use at one moment and share a byte, or one leaves the
; limit.
(assert (or (and (< slot1 slot2) (not (ordered slot1 slot2))
                 (<= first1 now last1) (<= first2 now last2)
                 (< begin1 end2) (< begin2 end1))
            (< begin1 0)
            (> end1 limit)))
)";

/// Of arenas with areas in one order. Where areas end differs from device to
/// device.
std::string areasProblem(const ArenaClass &arenas) {
  std::string problem, edges = "0", inside;
  for (size_t i = 0; i < arenas.order.size(); ++i) {
    std::string lo = "lo" + std::to_string(i), hi = "hi" + std::to_string(i);
    problem +=
        "(declare-const " + lo + " Int)\n(declare-const " + hi + " Int)\n";
    edges += " " + lo + " " + hi;
    inside += "\n      (and (= area " + std::to_string(arenas.order[i]) +
              ") (<= " + lo + " begin) (<= end " + hi + "))";
  }
  return problem + "(assert (<= " + edges + " peak))\n" +
         "(define-fun inside ((area Int) (begin Int) (end Int)) Bool\n"
         "  (and (< begin end) (or false" +
         inside + ")))\n" + kArena;
}

/// Of one device, slot by slot.
std::string slotsProblem(const ArenaClass &arenas) {
  std::string slots, ordered;
  for (size_t i = 0; i < arenas.slots.size(); ++i) {
    const ArenaSlot &slot = arenas.slots[i];
    slots += "\n  (and (= slot " + std::to_string(i) + ") (= begin " +
             number(slot.bytes.lo) + ") (= end " + number(slot.bytes.hi) +
             ") (= first " + number(slot.first) + ") (= last " +
             number(slot.last) + "))";
  }
  for (auto [a, b] : arenas.ordered)
    ordered += "\n  (and (= a " + std::to_string(a) + ") (= b " +
               std::to_string(b) + "))";
  return "(define-fun isSlot ((slot Int) (begin Int) (end Int) (first Int) "
         "(last Int)) Bool (or false" +
         slots +
         "))\n; The second is packed after the unpack of the first, which it "
         "reads.\n(define-fun ordered ((a Int) (b Int)) Bool (or false" +
         ordered + "))\n" + kTwoSlots;
}

Obligation arenaObligation(const ArenaClass &arenas, int64_t limit) {
  Obligation out;
  out.name = "arenas";
  for (unsigned area : arenas.order)
    out.name += "-" + std::to_string(area);
  out.claim = Claim::MemorySafe;
  out.statement = (arenas.slots.empty()
                       ? "slots of the " + std::to_string(arenas.devices) +
                             " devices with areas in this order"
                       : "the " + std::to_string(arenas.slots.size()) +
                             " slots of a device, which keep to no areas,") +
                  " never share a byte while in use, and stay below the limit";
  out.problem =
      define("limit", limit) + define("peak", arenas.peak) +
      (arenas.slots.empty() ? areasProblem(arenas) : slotsProblem(arenas));
  return out;
}

//===----------------------------------------------------------------------===//
// Covers
//===----------------------------------------------------------------------===//

/// base + strides * i, as a term over i0, i1, ...
std::string affine(const RowClass &pieces, unsigned column) {
  std::string out = "(+ " + number(pieces.base[column]);
  for (size_t loop = 0; loop < pieces.counts.size(); ++loop)
    if (int64_t stride = pieces.strides[loop][column])
      out += " (* " + number(stride) + " i" + std::to_string(loop) + ")";
  return out + " 0)";
}

/// Piece (i0, i1, ...) of the class exists and holds element (x0, x1, ...).
std::string holds(const RowClass &pieces, unsigned rank, size_t loops) {
  std::string out = "(and";
  for (size_t loop = 0; loop < loops; ++loop) {
    int64_t count = loop < pieces.counts.size() ? pieces.counts[loop] : 1;
    std::string i = "i" + std::to_string(loop);
    out += " (<= 0 " + i + ") (< " + i + " " + number(count) + ")";
  }
  for (unsigned d = 0; d < rank; ++d) {
    std::string lo = affine(pieces, d), x = "x" + std::to_string(d);
    out += "\n       (<= " + lo + " " + x + ") (< " + x + " (+ " + lo + " " +
           affine(pieces, rank + d) + "))";
  }
  return out + ")";
}

Obligation coverObligation(const CoverClass &cover, size_t index) {
  Obligation out;
  out.name = "cover-" + std::to_string(index);
  out.claim = Claim::Coverage;
  out.statement = "pieces of " + cover.flow + ", cut as for " +
                  std::to_string(cover.users) +
                  " device(s), share no element and are as many as wanted";
  size_t loops = 0;
  for (const RowClass &pieces : cover.pieces)
    loops = std::max(loops, pieces.counts.size());
  std::string indices, a, b, same = "(= classA classB)";
  for (size_t loop = 0; loop < loops; ++loop) {
    std::string n = std::to_string(loop);
    indices += " (i" + n + " Int)";
    a += " a" + n;
    b += " b" + n;
    same += " (= a" + n + " b" + n + ")";
    out.problem +=
        "(declare-const a" + n + " Int)\n(declare-const b" + n + " Int)\n";
  }
  for (unsigned d = 0; d < cover.rank; ++d)
    out.problem += "(declare-const x" + std::to_string(d) + " Int)\n";
  out.problem += "(declare-const classA Int)\n(declare-const classB Int)\n";
  out.problem +=
      "(define-fun holds ((class Int)" + indices + ") Bool (or false";
  std::string sum = "(+ 0";
  for (size_t i = 0; i < cover.pieces.size(); ++i) {
    out.problem += "\n  (and (= class " + std::to_string(i) + ")\n       " +
                   holds(cover.pieces[i], cover.rank, loops) + ")";
    sum += " " + number(cover.volumes[i]);
  }
  out.problem += "))\n; Negation: two pieces hold one element, or the count of "
                 "elements is wrong.\n(assert (or (and (holds classA" +
                 a + ") (holds classB" + b + ")\n                 (not (and " +
                 same + ")))\n            (not (= " + sum + ") " +
                 number(cover.wanted) + "))))\n";
  return out;
}

} // namespace

std::vector<Obligation> planObligations(const PlanClasses &classes) {
  std::vector<Obligation> out;
  int64_t before = -1;
  for (const WaveClass &waves : classes.waves) {
    out.push_back(wavesObligation(waves, before));
    before = waves.first + waves.step * (waves.count - 1);
  }
  for (const ArenaClass &arenas : classes.arenas)
    if (!arenas.order.empty())
      out.push_back(arenaObligation(arenas, classes.stagingLimit));
  for (size_t i = 0; i < classes.covers.size(); ++i)
    out.push_back(coverObligation(classes.covers[i], i));
  return out;
}

} // namespace dt
