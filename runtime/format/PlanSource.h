//===- PlanSource.h - The bytes of a plan file ------------------*- C++ -*-===//
//
// Whoever wrote a plan may write to it again, or cut it, while it is in use. A
// mapping would show that, or end the program; so bytes are copied before they
// are checked, and what is checked is what is used.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_FORMAT_PLANSOURCE_H
#define DTRT_LIB_FORMAT_PLANSOURCE_H

#include "dtrt/types/Status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace dtrt {

/// A part of the file, 8-byte aligned; valid as long as it and the source are.
struct SectionBytes {
  const uint8_t *data = nullptr;
  uint64_t size = 0;
  std::vector<uint64_t> owned; // where the source keeps nothing in memory
};

class PlanSource {
public:
  /// Files of at most this are read at once; of larger ones, a part when it is
  /// asked for.
  static constexpr uint64_t kWhole = 16 << 20;

  /// "-" is standard input, which is read to its end, as pipes are.
  static Result<PlanSource> open(const std::string &path);
  static PlanSource fromBytes(std::string bytes);

  PlanSource(PlanSource &&other) noexcept;
  PlanSource &operator=(PlanSource &&) = delete;
  ~PlanSource();

  uint64_t size() const { return total; }
  /// Fails when the file has become shorter. The part lies in the file as it
  /// was; it starts at a multiple of 8.
  Result<SectionBytes> read(uint64_t offset, uint64_t size) const;
  /// The same bytes piece by piece, without keeping them.
  Status visit(uint64_t offset, uint64_t size,
               const std::function<void(const void *, size_t)> &visit) const;

private:
  PlanSource() = default;
  Status readStream(int file);
  Status readAt(uint64_t offset, void *to, uint64_t size) const;

  std::string bytes; // all of it, unless `file` is open
  int file = -1;
  uint64_t total = 0;
};

} // namespace dtrt

#endif // DTRT_LIB_FORMAT_PLANSOURCE_H
