//===- KnownMulticasts.h - Multicasts of known programs ---------*- C++ -*-===//
//
// A plan of which most programs are known has most multicasts from these. What
// they carry of each element that is passed on is remembered with the program
// that sends it, so that only elements are looked at anew which another program
// carries, or which one has carried that the plan has not.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_VERIFY_KNOWNMULTICASTS_H
#define DTRT_LIB_VERIFY_KNOWNMULTICASTS_H

#include "Multicasts.h"

#include <functional>
#include <memory>
#include <optional>

namespace dtrt {

class KnownMulticasts {
public:
  /// What is known of a program that was right.
  struct Program {
    const PassedOn *passedOn = nullptr;
    std::shared_ptr<const Carried> carried;
  };
  /// Steps that a program of so many items may take.
  using MostSteps = std::function<uint64_t(uint64_t items)>;

  /// None where they have too many ends to be remembered.
  static std::optional<KnownMulticasts>
  of(const std::vector<Program> &programs);

  /// How many multicasts a plan makes: of those that are known the ones that
  /// are taken, and others, by what they pass on and all that they carry. None
  /// where it might take more steps than one program may.
  std::optional<uint64_t> count(const std::vector<bool> &isTaken,
                                PassedOn passedOn,
                                const std::vector<const Carried *> &others,
                                const MostSteps &mostSteps) const;

private:
  using End = MulticastCounter::End;
  using Devices = MulticastCounter::Devices;
  /// An end, by the number of the program that sends.
  struct KnownEnd {
    End end = 0;
    uint32_t program = 0;
  };
  /// What is known of the elements of one number; place by place.
  struct Group {
    std::vector<size_t> firstMaker, firstEnd; // one more than there are places
    std::vector<uint32_t> makers;             // programs that pass it on
    std::vector<KnownEnd> ends;
    std::vector<uint32_t> set; // of those that share it, or kNoSet
  };
  static constexpr uint32_t kNoSet = UINT32_MAX;
  /// Where the segments of one family and states lie that a program carries.
  struct Reach {
    uint32_t family = 0;
    uint64_t states = 0;
    uint64_t count = 0; // of segments
    DimVector first, end;

    void add(const Segment &segment);
    bool meets(const Reach &other) const;
  };
  static std::vector<Reach> reachOf(const Carried &carried);
  static Reach reachOf(const PassedOn::Elements &elements);
  /// Elements that others pass on: what is known by number and place, and what
  /// is not.
  struct Added {
    std::vector<std::vector<bool>> isMade;
    std::vector<PassedOn::Elements> elements;
  };
  class Sets;

  bool addEnds();
  void addMakers(const std::vector<Program> &programs);
  void findSets();
  std::optional<size_t> numberOf(uint32_t family, uint64_t states) const;
  Added sorted(PassedOn passedOn) const;
  bool addOthers(const std::vector<const Carried *> &others,
                 const MostSteps &mostSteps, MulticastCounter &known,
                 MulticastCounter &added) const;
  bool addTaken(const std::vector<bool> &isTaken,
                const std::vector<PassedOn::Elements> &elements,
                const MostSteps &mostSteps, MulticastCounter &added) const;
  void numberPlaces();
  std::vector<bool>
  touchedPlaces(const std::vector<bool> &isTaken,
                const std::vector<std::vector<End>> &others) const;
  void recount(size_t number, const std::vector<bool> &isTaken,
               const std::vector<bool> &isMade,
               const std::vector<bool> &isTouched, std::vector<End> others,
               Sets &sets) const;

  std::vector<PassedOn::Elements> elements;
  std::vector<std::shared_ptr<const Carried>> carried; // by program
  std::vector<std::vector<Reach>> reach;               // of each
  std::vector<uint64_t> steps; // that each took to be looked at
  /// All places of all groups have numbers, those of a group from this on.
  std::vector<size_t> firstPlace;
  /// By program, the numbers of the places that it has an end at.
  std::vector<std::vector<uint32_t>> places;
  std::vector<Group> groups;           // as in `elements`
  std::map<Devices, uint32_t> numbers; // of sets
  std::vector<uint32_t> uses;          // by set, elements that it shares
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_KNOWNMULTICASTS_H
