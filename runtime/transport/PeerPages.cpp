//===- PeerPages.cpp - What ranks of a host show of their pages -----------===//

#include "PeerPages.h"

#include "dtrt/transport/SharedPages.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace dtrt {

namespace {

/// Source buffers that a peer may have.
constexpr uint64_t kMostPlaces = uint64_t(1) << 24;

/// A table is the number of places, then the places.
uint64_t tableBytes(uint64_t places) { return (places + 1) * sizeof places; }

} // namespace

SharedTable::SharedTable(const std::vector<uint64_t> &places)
    : bytes(tableBytes(places.size())) {
  SharedPages &pages = SharedPages::ofProcess();
  bool isAnywhere =
      std::any_of(places.begin(), places.end(), [](uint64_t place) {
        return place != ShardPlaces::kNowhere;
      });
  if (!isAnywhere || places.size() > kMostPlaces)
    return;
  start = pages.reserve(bytes);
  if (!start || !pages.open(start, bytes))
    return;
  uint64_t count = places.size();
  memcpy(start, &count, sizeof count);
  memcpy(start + sizeof count, places.data(), count * sizeof count);
  file = Descriptor(pages.openReadOnly());
}

SharedTable::~SharedTable() {
  if (start)
    SharedPages::ofProcess().free(start, bytes);
}

uint64_t SharedTable::offset() const {
  return start ? *SharedPages::ofProcess().offsetOf(start, bytes) : 0;
}

PeerPages::~PeerPages() {
  if (shards.start)
    munmap(const_cast<std::byte *>(shards.start), shards.bytes);
}

/// The file's size; an error where it can change, since to read beyond its end
/// would end this process.
static Result<uint64_t> fixedSize(int file) {
  constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  int seals = fcntl(file, F_GET_SEALS);
  struct stat status;
  if (seals < 0 || fstat(file, &status) != 0)
    return systemError("cannot query a peer's pages");
  if ((seals & kSizeSeals) != kSizeSeals)
    return makeError(ErrorCode::PeerLost, "its pages can change their size");
  return uint64_t(status.st_size);
}

/// What lies at a place without memory reads as zeros. The table is copied, and
/// then judged.
Result<PeerPages> PeerPages::map(const Parcel &parcel) {
  auto size = fixedSize(parcel.attached.get());
  DTRT_RETURN_IF_ERROR(size);
  if (parcel.number > *size || *size - parcel.number < tableBytes(0))
    return makeError(ErrorCode::PeerLost, "a table beyond its pages");
  void *start = mmap(nullptr, *size, PROT_READ, MAP_SHARED | MAP_NORESERVE,
                     parcel.attached.get(), 0);
  if (start == MAP_FAILED)
    return systemError("cannot map a peer's pages");
  PeerPages pages;
  pages.shards.start = static_cast<const std::byte *>(start);
  pages.shards.bytes = *size;
  const std::byte *table = pages.shards.start + parcel.number;
  uint64_t count = 0;
  memcpy(&count, table, sizeof count);
  if (count > kMostPlaces || tableBytes(count) > *size - parcel.number)
    return makeError(ErrorCode::PeerLost, "a table of ", count, " places");
  pages.shards.places.resize(count);
  memcpy(pages.shards.places.data(), table + sizeof count,
         count * sizeof count);
  return pages;
}

} // namespace dtrt
