//===- LocalSocket.h - Sockets between processes of a host ------*- C++ -*-===//
//
// Stream sockets of the abstract namespace: a name is gone when the processes
// that use it are, so that nothing is left behind. Only processes of one user
// get through to each other. All sockets are non-blocking.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TRANSPORT_LOCALSOCKET_H
#define DTRT_TRANSPORT_LOCALSOCKET_H

#include "dtrt/types/Status.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace dtrt {

/// A file descriptor, closed with its owner.
class Descriptor {
public:
  explicit Descriptor(int fd = -1) : fd(fd) {}
  Descriptor(Descriptor &&other) noexcept : fd(other.release()) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }
  ~Descriptor();

  int get() const { return fd; }
  explicit operator bool() const { return fd >= 0; }
  int release() { return std::exchange(fd, -1); }

private:
  int fd;
};

/// "WHAT: the system's reason", of errno.
Status systemError(const char *what);

/// The same for all processes that can reach each other by a name, and for no
/// others; zeros where that cannot be told.
using HostIdentity = std::array<char, 96>;
HostIdentity hostIdentity();

/// A name that nobody else has.
using SocketName = std::array<char, 32>;
Result<SocketName> makeSocketName();

Result<Descriptor> listenLocally(const SocketName &name, int backlog);
/// To a process of this user.
Result<Descriptor> connectLocally(const SocketName &name);
/// The next process of this user that has connected; none: nobody has.
Result<std::optional<Descriptor>> acceptLocally(const Descriptor &listener);

/// Bytes that went, at most `bytes`; 0: none can now. PeerLost when the other
/// end is closed.
Result<size_t> sendSome(const Descriptor &socket, const std::byte *data,
                        size_t bytes);
Result<size_t> receiveSome(const Descriptor &socket, std::byte *data,
                           size_t bytes);

/// A number and, unless -1, a descriptor with it.
struct Parcel {
  uint64_t number = 0;
  Descriptor attached;
};
Status sendParcel(const Descriptor &socket, uint64_t number, int attached);
/// None: it has not come yet.
Result<std::optional<Parcel>> receiveParcel(const Descriptor &socket);

} // namespace dtrt

#endif // DTRT_TRANSPORT_LOCALSOCKET_H
