//===- Collective.h - What a library's collectives do -----------*- C++ -*-===//
//
// Members stand in ascending order of their devices. Each has memory of equal
// blocks: what it gives, and what it gets. With n members, 0 the root:
//
//              gives                     gets
//   broadcast  the root its one block    all others that block
//   all_gather one block                 n: block k is that of member k
//   all_to_all n: block k is for k       n: block k is from member k
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TYPES_COLLECTIVE_H
#define DTRT_TYPES_COLLECTIVE_H

#include <cstddef>
#include <cstdint>

namespace dtrt {

/// The numbers are written to files and never change.
enum class CollectiveKind : uint8_t {
  Broadcast = 0,
  AllGather = 1,
  AllToAll = 2
};
constexpr size_t kNumCollectiveKinds = 3;

/// "broadcast", "all_gather", "all_to_all".
constexpr const char *collectiveName(CollectiveKind kind) {
  return kind == CollectiveKind::Broadcast   ? "broadcast"
         : kind == CollectiveKind::AllGather ? "all_gather"
                                             : "all_to_all";
}

/// Whether a collective is a library's call, or messages.
enum class CollectiveChoice : uint8_t { Auto = 0, Messages = 1, Library = 2 };

/// "auto", "messages", "library".
constexpr const char *collectiveChoiceName(CollectiveChoice choice) {
  return choice == CollectiveChoice::Auto       ? "auto"
         : choice == CollectiveChoice::Messages ? "messages"
                                                : "library";
}

/// Blocks that a member gives, and those that it gets.
constexpr uint64_t blocksGiven(CollectiveKind kind, uint64_t members,
                               bool isRoot) {
  return kind == CollectiveKind::Broadcast   ? isRoot
         : kind == CollectiveKind::AllGather ? 1
                                             : members;
}
constexpr uint64_t blocksGot(CollectiveKind kind, uint64_t members,
                             bool isRoot) {
  return kind == CollectiveKind::Broadcast ? !isRoot : members;
}

/// The block that goes to, and the one that comes from, the member of a place.
constexpr uint64_t blockFor(CollectiveKind kind, uint64_t place) {
  return kind == CollectiveKind::AllToAll ? place : 0;
}
constexpr uint64_t blockFrom(CollectiveKind kind, uint64_t place) {
  return kind == CollectiveKind::Broadcast ? 0 : place;
}

} // namespace dtrt

#endif // DTRT_TYPES_COLLECTIVE_H
