//===- LocalHandshake.cpp - Links to ranks of this host -------------------===//

#include "LocalHandshake.h"

#include <algorithm>

namespace dtrt {

namespace {

constexpr std::array<char, 8> kMark = {'d', 't', 'l', 'i', 'n', 'k', '0', '1'};

/// Processes that have connected and have said nothing yet: a rank speaks as it
/// connects, so that one more of these makes room by dropping the first.
constexpr size_t kMaxGuests = 64;
/// Waiting to be accepted, beside the ranks.
constexpr size_t kBacklog = 128;

template <typename Words>
Status say(const Descriptor &socket, const Words &words) {
  // A socket that nothing was written to has room for this.
  auto sent = sendSome(socket, reinterpret_cast<const std::byte *>(&words),
                       sizeof words);
  DTRT_RETURN_IF_ERROR(sent);
  if (*sent != sizeof words)
    return makeError(ErrorCode::System, "a new socket takes ", *sent,
                     " bytes, expected ", sizeof words);
  return {};
}

} // namespace

Result<SocketName> LocalHandshake::listen(size_t peers) {
  auto name = makeSocketName();
  DTRT_RETURN_IF_ERROR(name);
  auto socket = listenLocally(*name, int(peers + kBacklog));
  DTRT_RETURN_IF_ERROR(socket);
  listener = std::move(*socket);
  return name;
}

Status LocalHandshake::connect(uint32_t peer, const SocketName &name) {
  auto socket = connectLocally(name);
  DTRT_RETURN_IF_ERROR(socket);
  static_assert(sizeof(Greeting) == 44, "padding would be sent");
  DTRT_RETURN_IF_ERROR(say(*socket, Greeting{kMark, self, secret.connecting}));
  greeted[peer].socket = std::move(*socket);
  return {};
}

/// Whether all of it is there.
template <typename Words>
Result<bool> LocalHandshake::readOn(Reading<Words> &reading) {
  while (reading.bytes < sizeof reading.words) {
    auto got = receiveSome(reading.socket,
                           reinterpret_cast<std::byte *>(&reading.words) +
                               reading.bytes,
                           sizeof reading.words - reading.bytes);
    DTRT_RETURN_IF_ERROR(got);
    if (*got == 0)
      return false;
    reading.bytes += *got;
  }
  return true;
}

Status LocalHandshake::acceptGuests() {
  for (size_t i = 0; i < kBacklog; ++i) {
    auto socket = acceptLocally(listener);
    DTRT_RETURN_IF_ERROR(socket);
    if (!*socket)
      break;
    guests.emplace_back();
    guests.back().socket = std::move(**socket);
    hearGuests();
    if (guests.size() > kMaxGuests)
      guests.pop_front();
  }
  return {};
}

/// Whether the guest is a rank that is expected, and now has a link.
bool LocalHandshake::welcome(Reading<Greeting> &guest) {
  const Greeting &said = guest.words;
  if (said.mark != kMark || !isSame(said.token, secret.connecting) ||
      expected.count(said.device) == 0 ||
      !say(guest.socket, secret.accepting).ok())
    return false;
  expected.erase(said.device);
  links[said.device] = std::move(guest.socket);
  return true;
}

void LocalHandshake::hearGuests() {
  for (size_t i = 0; i < guests.size();) {
    auto whole = readOn(guests[i]);
    if (whole.ok() && !*whole) {
      ++i;
      continue;
    }
    if (whole.ok())
      (void)welcome(guests[i]);
    guests.erase(guests.begin() + long(i));
  }
}

Status LocalHandshake::hearAnswers() {
  for (auto it = greeted.begin(); it != greeted.end();) {
    auto whole = readOn(it->second);
    if (!whole.ok())
      return makeError("device ", it->first, " of this host: ", whole.status());
    if (!*whole) {
      ++it;
      continue;
    }
    if (!isSame(it->second.words, secret.accepting))
      return makeError(ErrorCode::PeerLost, "device ", it->first,
                       " of this host does not have the switch's secret");
    links[it->first] = std::move(it->second.socket);
    it = greeted.erase(it);
  }
  return {};
}

Status LocalHandshake::progress() {
  if (!expected.empty()) {
    DTRT_RETURN_IF_ERROR(acceptGuests());
    hearGuests();
  }
  return hearAnswers();
}

void LocalHandshake::addTo(std::vector<pollfd> &polled) const {
  if (!expected.empty()) {
    polled.push_back({listener.get(), POLLIN, 0});
    for (const Reading<Greeting> &guest : guests)
      polled.push_back({guest.socket.get(), POLLIN, 0});
  }
  for (const auto &[device, answer] : greeted)
    polled.push_back({answer.socket.get(), POLLIN, 0});
}

} // namespace dtrt
