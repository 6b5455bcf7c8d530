//===- ReadBudget.h - What a section may grow to ----------------*- C++ -*-===//
//
// A file shares what occurs twice: names, lists of coordinates, and members,
// which one box names by the thousand. So a hostile file of kilobytes could
// unpack to any number of gigabytes. Whatever grows is charged here, in bytes
// that a reader needs for it, before it is unpacked; docs/PlanFile.md has the
// numbers and why.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_FORMAT_READBUDGET_H
#define DTRT_LIB_FORMAT_READBUDGET_H

#include "dtrt/types/Status.h"

#include <cstdint>

namespace dtrt {

class ReadBudget {
public:
  /// Of a section of `section` bytes that takes `stored` bytes of a file of
  /// `file` bytes.
  ReadBudget(uint64_t section, uint64_t stored, uint64_t file);
  /// Of what is in memory already and comes from no file.
  static ReadBudget unbounded() { return {UINT64_MAX, UINT64_MAX, UINT64_MAX}; }

  /// Takes off `count` entries of `each` bytes. `table` names what they are in
  /// the error.
  Status charge(const char *table, uint64_t count, uint64_t each);

  /// Bytes that the section may unpack to.
  uint64_t limit() const { return most; }
  uint64_t used() const { return taken; }

private:
  uint64_t section = 0, most = 0, taken = 0;
};

/// What a reader needs for each, in bytes, beside what is unpacked.
constexpr uint64_t kBufferCost = 32; // of a member and state, on one side
constexpr uint64_t kRowCost = 8;     // a member in a state, of a box
constexpr uint64_t kNameCost = 32;   // of a tensor, beside the name itself
constexpr uint64_t kLookCost = 1;    // at an interval of a shard

} // namespace dtrt

#endif // DTRT_LIB_FORMAT_READBUDGET_H
