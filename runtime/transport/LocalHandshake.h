//===- LocalHandshake.h - Links to ranks of this host -----------*- C++ -*-===//
//
// Makes one socket per pair of ranks, of which the lower device connects. Who
// connects shows that it is of the switch by the secret's first token, who
// accepts by the second; both must be processes of one user. Anybody on the
// host can find the socket's name and connect to it: who says nothing, or
// something else, is not waited for and gets no link.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TRANSPORT_LOCALHANDSHAKE_H
#define DTRT_TRANSPORT_LOCALHANDSHAKE_H

#include "LocalSocket.h"

#include "dtrt/transport/Secret.h"

#include <deque>
#include <map>
#include <poll.h>
#include <set>
#include <vector>

namespace dtrt {

class LocalHandshake {
public:
  LocalHandshake(uint32_t device, const Secret &secret)
      : self(device), secret(secret) {}

  /// Where others find this rank.
  Result<SocketName> listen(size_t peers);
  /// Fails where the system refuses, before any link is made to this peer.
  Status connect(uint32_t peer, const SocketName &name);
  /// This peer has connected to this rank, or will.
  void expect(uint32_t peer) { expected.insert(peer); }

  /// Goes as far as it goes without waiting. An error names the device.
  Status progress();
  bool done() const { return expected.empty() && greeted.empty(); }
  /// What to wait for, unless it is done.
  void addTo(std::vector<pollfd> &polled) const;
  /// A socket per device, once done.
  std::map<uint32_t, Descriptor> takeLinks() { return std::move(links); }

private:
  /// What is read until it is whole.
  template <typename Words> struct Reading {
    Descriptor socket;
    Words words = {};
    size_t bytes = 0;
  };
  /// What a rank says when it connects.
  struct Greeting {
    std::array<char, 8> mark = {};
    uint32_t device = 0;
    Token token = {};
  };

  template <typename Words> static Result<bool> readOn(Reading<Words> &reading);
  Status acceptGuests();
  void hearGuests();
  bool welcome(Reading<Greeting> &guest);
  Status hearAnswers();

  const uint32_t self;
  const Secret secret;
  Descriptor listener;
  std::set<uint32_t> expected;                // devices
  std::deque<Reading<Greeting>> guests;       // have not said who they are
  std::map<uint32_t, Reading<Token>> greeted; // by device; have not answered
  std::map<uint32_t, Descriptor> links;       // by device
};

} // namespace dtrt

#endif // DTRT_TRANSPORT_LOCALHANDSHAKE_H
