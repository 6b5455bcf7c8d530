//===- SharedShards.cpp - Ranks that read each other's shards -------------===//

#include "dtrt/transport/SharedShards.h"

#include "dtrt/transport/SharedPages.h"

namespace dtrt {

Result<std::unique_ptr<PeerShards>> shareShards(const PlanReader &plan,
                                                const LocalStorage &storage,
                                                Transport &transport,
                                                ExecutionOptions &options) {
  const SharedPages &pages = SharedPages::ofProcess();
  std::vector<uint64_t> places =
      sourcePlaces(storage, [&](const std::byte *data, uint64_t bytes) {
        return pages.offsetOf(data, bytes);
      });
  DTRT_RETURN_IF_ERROR(transport.shareShards(places));
  options.readable = placedShards(storage, places);
  auto peers = PeerShards::prepare(
      plan.common(), transport.device(), transport,
      [&](uint32_t device) { return plan.program(device); });
  DTRT_RETURN_IF_ERROR(peers);
  (*peers)->forEachBuffer(&SharedPages::populate);
  options.peers = peers->get();
  return peers;
}

} // namespace dtrt
