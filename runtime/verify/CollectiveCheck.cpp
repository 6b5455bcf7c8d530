//===- CollectiveCheck.cpp - Do the members of collectives meet? ----------===//

#include "CollectiveCheck.h"

#include "dtrt/format/Collectives.h"

#include <algorithm>
#include <tuple>

namespace dtrt {

namespace {

bool isOfOneCollective(const CollectivePart &a, const CollectivePart &b) {
  return a.wave == b.wave && a.call.members == b.call.members;
}

std::string describe(const CollectivePart &part) {
  return "device " + std::to_string(part.device) + ", instruction " +
         std::to_string(part.instruction) + " (group): has a part in the " +
         collectiveName(part.call.kind) + " of member set " +
         std::to_string(part.call.members) + " in wave " +
         std::to_string(part.wave);
}

Status checkAlike(const CollectivePart &first, const CollectivePart &part) {
  const GroupCollective &a = first.call, &b = part.call;
  if (a.kind == b.kind && a.root == b.root && a.blockBytes == b.blockBytes)
    return {};
  return makeError(describe(part), " with root ", b.root, " and blocks of ",
                   b.blockBytes, " bytes, device ", first.device, " in a ",
                   collectiveName(a.kind), " with root ", a.root,
                   " and blocks of ", a.blockBytes);
}

/// Parts [first, last) are those of one set in one wave.
Status checkOne(const std::vector<uint32_t> &members,
                const CollectivePart *first, const CollectivePart *last) {
  const CollectivePart *part = first;
  for (uint32_t member : members) {
    if (part == last || part->device != member)
      return makeError(describe(*first), ", but device ", member,
                       ", a member, has none");
    DTRT_RETURN_IF_ERROR(checkAlike(*first, *part));
    ++part;
  }
  return {};
}

template <typename Visit>
Status forEachCollective(const std::vector<CollectivePart> &parts,
                         Visit visit) {
  const CollectivePart *end = parts.data() + parts.size();
  for (const CollectivePart *first = parts.data(); first != end;) {
    const CollectivePart *last = first;
    while (last != end && isOfOneCollective(*first, *last))
      ++last;
    DTRT_RETURN_IF_ERROR(visit(first, last));
    first = last;
  }
  return {};
}

} // namespace

Status checkCollectives(const PlanCommon &common,
                        std::vector<CollectivePart> &parts) {
  std::sort(parts.begin(), parts.end(),
            [](const CollectivePart &a, const CollectivePart &b) {
              return std::tie(a.wave, a.call.members, a.device) <
                     std::tie(b.wave, b.call.members, b.device);
            });
  std::vector<bool> isUsed(common.memberSets.size());
  DTRT_RETURN_IF_ERROR(forEachCollective(
      parts, [&](const CollectivePart *first, const CollectivePart *last) {
        isUsed[first->call.members] = true;
        return checkOne(common.memberSets[first->call.members], first, last);
      }));
  for (size_t i = 0; i < isUsed.size(); ++i)
    if (!isUsed[i])
      return makeError("member set ", i, " has no collective");
  return {};
}

std::vector<TimedCollective>
collectivesOf(const PlanCommon &common,
              const std::vector<CollectivePart> &parts) {
  std::vector<TimedCollective> out;
  (void)forEachCollective(
      parts, [&](const CollectivePart *first, const CollectivePart *) {
        out.push_back(timedCollective(common, first->wave, first->call));
        return Status();
      });
  return out;
}

} // namespace dtrt
