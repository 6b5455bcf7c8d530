//===- FirstFault.h - Checks on many threads, one answer --------*- C++ -*-===//

#ifndef DT_PROOF_FIRSTFAULT_H
#define DT_PROOF_FIRSTFAULT_H

#include "dt/Proof/Certificate.h"

#include <algorithm>

namespace dt {

/// Items that a thread checks at a time where each takes little.
constexpr size_t kChecksAtOnce = 128;

/// Checks 0 to n - 1 in blocks of so many; `check(i)` returns a MaybeFault. The
/// fault of the lowest number is returned, however many threads there are.
template <typename Check>
MaybeFault firstFault(size_t n, const ParallelFor &parallel, Check check,
                      size_t atOnce = kChecksAtOnce) {
  std::vector<MaybeFault> faults((n + atOnce - 1) / atOnce);
  parallel(faults.size(), [&](size_t block) {
    size_t last = std::min(n, (block + 1) * atOnce);
    for (size_t i = block * atOnce; i < last && !faults[block]; ++i)
      faults[block] = check(i);
  });
  for (MaybeFault &fault : faults)
    if (fault)
      return std::move(fault);
  return std::nullopt;
}

/// Sorts rows of many waves by `isLess`, which compares waves first. Where
/// waves ascend already, as in a plan, every wave is sorted by itself. Equal
/// rows keep their order.
template <typename Row, typename WaveOf, typename Less>
void sortWaves(std::vector<Row> &rows, const ParallelFor &parallel,
               WaveOf waveOf, Less isLess) {
  std::vector<size_t> starts;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i == 0 || waveOf(rows[i]) != waveOf(rows[i - 1]))
      starts.push_back(i);
    if (i > 0 && waveOf(rows[i]) < waveOf(rows[i - 1])) {
      std::stable_sort(rows.begin(), rows.end(), isLess);
      return;
    }
  }
  starts.push_back(rows.size());
  parallel(starts.size() - 1, [&](size_t w) {
    auto first = rows.begin() + starts[w], last = rows.begin() + starts[w + 1];
    if (!std::is_sorted(first, last, isLess))
      std::stable_sort(first, last, isLess);
  });
}

} // namespace dt

#endif // DT_PROOF_FIRSTFAULT_H
