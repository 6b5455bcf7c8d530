//===- KnownTogether.h - What known programs say together -------*- C++ -*-===//
//
// A plan of which most programs are known has most messages from these. Who is
// asked for many such plans puts their ends into order once.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_VERIFY_KNOWNTOGETHER_H
#define DTRT_LIB_VERIFY_KNOWNTOGETHER_H

#include "KnownMulticasts.h"
#include "ProgramVerifier.h"

namespace dtrt {

/// Of the totals of known programs, the lists that a plan has of all together.
class KnownTogether {
public:
  /// By device, ascending. A program's number is its place there.
  using Programs = std::vector<std::pair<uint32_t, const ProgramTotals *>>;

  explicit KnownTogether(const Programs &programs);

  size_t numPrograms() const { return devices.size(); }
  size_t numberOf(uint32_t device) const;
  /// Adds the ends of those that are taken to others, which it sorts: all are
  /// as pairs are looked for.
  void addEnds(const std::vector<bool> &isTaken,
               std::vector<UnpairedEnd> &sends,
               std::vector<UnpairedEnd> &receives) const;
  /// None where a program sends too much to be remembered.
  const std::optional<KnownMulticasts> &multicasts() const { return passedOn; }

private:
  /// An end, by the number of the program that has it.
  struct KnownEnd {
    UnpairedEnd end;
    uint32_t program = 0;
  };

  static void sort(std::vector<KnownEnd> &ends);
  static void merge(const std::vector<KnownEnd> &known,
                    const std::vector<bool> &isTaken,
                    std::vector<UnpairedEnd> &others);

  std::vector<uint32_t> devices;
  std::vector<KnownEnd> sends, receives; // as pairs are looked for
  std::optional<KnownMulticasts> passedOn;
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_KNOWNTOGETHER_H
