//===- PeerShards.cpp - Messages in the shards of other processes ---------===//

#include "dtrt/core/PeerShards.h"

#include "dtrt/core/ExecutionPlan.h"
#include "dtrt/core/Executor.h"

#include <algorithm>
#include <set>

namespace dtrt {

namespace {

/// Calls fn(shard, state, member) for each source buffer, in the order of
/// places.
template <typename Fn> void forEachSource(const LocalStorage &storage, Fn fn) {
  const auto &shards = storage.shards(Side::Source);
  for (uint32_t shard = 0; shard < shards.size(); ++shard)
    for (unsigned state : statesOf(shards[shard].states))
      for (int64_t member = 0; member < storage.members(Side::Source, shard);
           ++member)
        fn(shard, state, member);
}

} // namespace

std::vector<uint64_t> sourcePlaces(
    const LocalStorage &storage,
    const std::function<std::optional<uint64_t>(const std::byte *, uint64_t)>
        &offsetOf) {
  std::vector<uint64_t> places;
  forEachSource(storage, [&](uint32_t shard, unsigned state, int64_t member) {
    const std::byte *data = storage.data(Side::Source, shard, state, member);
    uint64_t bytes = storage.memberBytes(Side::Source, shard, state);
    auto found = data ? offsetOf(data, bytes) : std::nullopt;
    places.push_back(found.value_or(ShardPlaces::kNowhere));
  });
  return places;
}

std::vector<bool> placedShards(const LocalStorage &storage,
                               const std::vector<uint64_t> &places) {
  std::vector<bool> placed(storage.shards(Side::Source).size(), true);
  size_t next = 0;
  forEachSource(storage, [&](uint32_t shard, unsigned, int64_t) {
    if (next >= places.size() || places[next] == ShardPlaces::kNowhere)
      placed[shard] = false;
    ++next;
  });
  return placed;
}

Result<std::unique_ptr<PeerShards>>
PeerShards::prepare(const PlanCommon &common, uint32_t device,
                    const Transport &transport, const LoadProgram &load) {
  auto made = std::make_unique<PeerShards>();
  for (uint32_t peer : transport.caps().readsFrom) {
    const ShardPlaces *places = transport.placesOf(peer);
    if (!places)
      continue;
    Peer &own = made->peers[peer];
    auto program = load(peer);
    DTRT_RETURN_IF_ERROR(program);
    own.program = std::move(*program);
    own.storage = std::make_unique<LocalStorage>(common, own.program);
    Status status = bind(*own.storage, *places);
    if (status.ok())
      status = findMessages(common, device, own, places->places);
    if (!status.ok())
      return makeError("device ", peer, ": ", status);
  }
  return made;
}

Status PeerShards::bind(LocalStorage &storage, const ShardPlaces &places) {
  Status status;
  size_t next = 0;
  forEachSource(storage, [&](uint32_t shard, unsigned state, int64_t member) {
    uint64_t place = next < places.places.size() ? places.places[next]
                                                 : ShardPlaces::kNowhere;
    ++next;
    if (place == ShardPlaces::kNowhere)
      return;
    uint64_t bytes = storage.memberBytes(Side::Source, shard, state);
    if (place > places.bytes || bytes > places.bytes - place)
      status = makeError(ErrorCode::Mismatch, "a source shard lies at ", place,
                         ", beyond the ", places.bytes, " bytes it shares");
    else // never written: views of a source are read
      storage.bind(Side::Source, shard, state, member,
                   const_cast<std::byte *>(places.start) + place);
  });
  if (status.ok() && next != places.places.size())
    return makeError(ErrorCode::Mismatch, "says where ", places.places.size(),
                     " source buffers lie, expected ", next);
  return status;
}

/// What a sender that all of its peers can read would leave in its shards: one
/// that only some can read leaves no more than that.
Status PeerShards::findMessages(const PlanCommon &common, uint32_t device,
                                Peer &peer,
                                const std::vector<uint64_t> &places) {
  const std::vector<Instruction> &instructions = peer.program.instructions;
  TransportCaps caps;
  caps.readBy = peersOf(peer.program);
  ExecutionOptions options;
  options.readable = placedShards(*peer.storage, places);
  ExecutionPlan plan = planExecution(common, peer.program, caps, options);
  for (size_t i = 0; i < instructions.size(); ++i)
    for (size_t m = 0; m < instructions[i].messages.size(); ++m) {
      const Message &message = instructions[i].messages[m];
      const std::optional<size_t> &from = plan.steps[i].views[m];
      if (message.receive || message.peer != device || !from)
        continue;
      Source &source = peer.messages[instructions[i].wave];
      for (const Segment &segment : instructions[*from].segments) {
        auto prepared = prepareSegment(common, peer.program, segment);
        DTRT_RETURN_IF_ERROR(prepared);
        source.segments.push_back(std::move(*prepared));
      }
      source.view = {&source.segments, peer.storage.get()};
    }
  return {};
}

void PeerShards::forEachBuffer(
    const std::function<void(const std::byte *, uint64_t)> &fn) const {
  std::set<const std::byte *> seen;
  for (const auto &[device, peer] : peers)
    for (const auto &[wave, source] : peer.messages)
      for (const PreparedSegment &segment : source.segments)
        for (const StatePart &part : segment.parts)
          for (int64_t member : segment.members) {
            const std::byte *data = peer.storage->data(
                segment.side, segment.shard, part.state, member);
            if (seen.insert(data).second)
              fn(data, peer.storage->memberBytes(segment.side, segment.shard,
                                                 part.state));
          }
}

const MessageView *PeerShards::viewOf(uint32_t peer, int32_t wave) const {
  auto found = peers.find(peer);
  if (found == peers.end())
    return nullptr;
  auto message = found->second.messages.find(wave);
  return message == found->second.messages.end() ? nullptr
                                                 : &message->second.view;
}

} // namespace dtrt
