//===- KnownTogether.cpp - What known programs say together ---------------===//

#include "KnownTogether.h"

#include <algorithm>

namespace dtrt {

KnownTogether::KnownTogether(const Programs &programs) {
  std::vector<KnownMulticasts::Program> sent;
  for (const auto &[device, totals] : programs) {
    auto number = uint32_t(devices.size());
    devices.push_back(device);
    for (const UnpairedEnd &end : totals->sends)
      sends.push_back({end, number});
    for (const UnpairedEnd &end : totals->receives)
      receives.push_back({end, number});
    if (!totals->carried.empty())
      sent.push_back({&totals->passedOn, totals->carried.front()});
  }
  sort(sends);
  sort(receives);
  if (sent.size() == programs.size())
    passedOn = KnownMulticasts::of(sent);
}

void KnownTogether::sort(std::vector<KnownEnd> &ends) {
  std::sort(ends.begin(), ends.end(), [](const KnownEnd &a, const KnownEnd &b) {
    return pairKey(a.end) < pairKey(b.end);
  });
}

size_t KnownTogether::numberOf(uint32_t device) const {
  return size_t(std::lower_bound(devices.begin(), devices.end(), device) -
                devices.begin());
}

void KnownTogether::merge(const std::vector<KnownEnd> &known,
                          const std::vector<bool> &isTaken,
                          std::vector<UnpairedEnd> &others) {
  sortEnds(others);
  std::vector<UnpairedEnd> all;
  all.reserve(known.size() + others.size());
  auto next = others.begin();
  for (const KnownEnd &own : known) {
    if (!isTaken[own.program])
      continue;
    for (; next != others.end() && pairKey(*next) < pairKey(own.end); ++next)
      all.push_back(*next);
    all.push_back(own.end);
  }
  all.insert(all.end(), next, others.end());
  others = std::move(all);
}

void KnownTogether::addEnds(const std::vector<bool> &isTaken,
                            std::vector<UnpairedEnd> &sends,
                            std::vector<UnpairedEnd> &receives) const {
  merge(this->sends, isTaken, sends);
  merge(this->receives, isTaken, receives);
}

} // namespace dtrt
