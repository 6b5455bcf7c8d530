//===- LocalSocket.cpp - Sockets between processes of a host --------------===//

#include "LocalSocket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace dtrt {

namespace {

constexpr char kPrefix[] = "dynatrain-";

bool isForLater(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

struct Address {
  explicit Address(const SocketName &name) {
    // A first character of zero: no file has this name.
    std::string text = kPrefix + std::string(name.data());
    memcpy(address.sun_path + 1, text.data(), text.size());
    size = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    address.sun_family = AF_UNIX;
  }
  const sockaddr *get() const {
    return reinterpret_cast<const sockaddr *>(&address);
  }

  sockaddr_un address = {};
  socklen_t size = 0;
};

Descriptor makeSocket() {
  return Descriptor(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/// What a sender may leave in a socket for a receiver that has no processor
/// now; the system's limit may be lower. Far larger messages gain nothing: both
/// ends copy at once.
constexpr int kSendBuffer = 1 << 20;

void enlarge(const Descriptor &socket) {
  (void)setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &kSendBuffer,
                   sizeof kSendBuffer);
}

bool isSameUser(const Descriptor &socket) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

/// Refused in one go, so that a flood of them does not hold up the rest.
constexpr int kMaxStrangers = 128;

/// Most descriptors of one message: more would be dropped by the system.
constexpr size_t kMaxAttached = 2;

/// A message of one number, with room for descriptors.
struct Envelope {
  explicit Envelope(uint64_t &number) : part{&number, sizeof number} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }

  iovec part;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxAttached * sizeof(int))] = {};
  msghdr header = {};
};

} // namespace

Descriptor::~Descriptor() {
  if (fd >= 0)
    ::close(fd);
}

Status systemError(const char *what) {
  return makeError(ErrorCode::System, what, ": ", strerror(errno));
}

HostIdentity hostIdentity() {
  HostIdentity identity = {};
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  struct stat network, users;
  // Names of sockets are those of a network namespace; users' numbers are those
  // of a user namespace.
  if (!(file >> boot) || stat("/proc/self/ns/net", &network) != 0 ||
      stat("/proc/self/ns/user", &users) != 0)
    return identity;
  std::string text = boot;
  for (uint64_t part :
       {uint64_t(network.st_ino), uint64_t(users.st_ino), uint64_t(geteuid())})
    text += "/" + std::to_string(part);
  memcpy(identity.data(), text.data(),
         std::min(text.size(), identity.size() - 1));
  return identity;
}

Result<SocketName> makeSocketName() {
  unsigned char random[12];
  if (getrandom(random, sizeof random, 0) != ssize_t(sizeof random))
    return systemError("cannot make a socket's name");
  SocketName name = {};
  for (size_t i = 0; i < sizeof random; ++i)
    snprintf(name.data() + 2 * i, 3, "%02x", random[i]);
  return name;
}

Result<Descriptor> listenLocally(const SocketName &name, int backlog) {
  Descriptor socket = makeSocket();
  Address address(name);
  if (!socket || bind(socket.get(), address.get(), address.size) != 0 ||
      listen(socket.get(), backlog) != 0)
    return systemError("cannot listen on a socket of this host");
  return socket;
}

Result<Descriptor> connectLocally(const SocketName &name) {
  Descriptor socket = makeSocket();
  Address address(name);
  if (!socket || ::connect(socket.get(), address.get(), address.size) != 0)
    return systemError("cannot connect to a socket of this host");
  // A name is free again once its owner is gone.
  if (!isSameUser(socket))
    return makeError(ErrorCode::PeerLost,
                     "a socket of this host belongs to another user");
  enlarge(socket);
  return socket;
}

Result<std::optional<Descriptor>> acceptLocally(const Descriptor &listener) {
  for (int strangers = 0; strangers < kMaxStrangers; ++strangers) {
    Descriptor socket(accept4(listener.get(), nullptr, nullptr,
                              SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket && errno == ECONNABORTED)
      continue;
    if (!socket && !isForLater(errno))
      return systemError("cannot accept a process of this host");
    if (!socket)
      return std::optional<Descriptor>();
    if (!isSameUser(socket))
      continue;
    enlarge(socket);
    return std::optional<Descriptor>(std::move(socket));
  }
  return std::optional<Descriptor>();
}

Result<size_t> sendSome(const Descriptor &socket, const std::byte *data,
                        size_t bytes) {
  ssize_t sent = send(socket.get(), data, bytes, MSG_NOSIGNAL);
  if (sent < 0 && !isForLater(errno))
    return makeError(ErrorCode::PeerLost, strerror(errno));
  return size_t(std::max<ssize_t>(sent, 0));
}

Result<size_t> receiveSome(const Descriptor &socket, std::byte *data,
                           size_t bytes) {
  ssize_t received = recv(socket.get(), data, bytes, 0);
  if (received == 0)
    return makeError(ErrorCode::PeerLost, "connection closed by peer");
  if (received < 0 && !isForLater(errno))
    return makeError(ErrorCode::PeerLost, strerror(errno));
  return size_t(std::max<ssize_t>(received, 0));
}

Status sendParcel(const Descriptor &socket, uint64_t number, int attached) {
  Envelope envelope(number);
  if (attached >= 0) {
    cmsghdr *control = CMSG_FIRSTHDR(&envelope.header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof attached);
    memcpy(CMSG_DATA(control), &attached, sizeof attached);
    envelope.header.msg_controllen = CMSG_SPACE(sizeof attached);
  } else {
    envelope.header.msg_control = nullptr;
    envelope.header.msg_controllen = 0;
  }
  if (sendmsg(socket.get(), &envelope.header, MSG_NOSIGNAL) !=
      ssize_t(sizeof number))
    return systemError("cannot hand over a descriptor");
  return {};
}

Result<std::optional<Parcel>> receiveParcel(const Descriptor &socket) {
  Parcel parcel;
  Envelope envelope(parcel.number);
  ssize_t received = recvmsg(socket.get(), &envelope.header, MSG_CMSG_CLOEXEC);
  if (received == 0)
    return makeError(ErrorCode::PeerLost, "connection closed by peer");
  if (received < 0 && isForLater(errno))
    return std::optional<Parcel>();
  if (received != ssize_t(sizeof parcel.number))
    return systemError("cannot take a descriptor");
  size_t count = 0;
  cmsghdr *control = CMSG_FIRSTHDR(&envelope.header);
  for (; control; control = CMSG_NXTHDR(&envelope.header, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
      continue;
    size_t bytes = control->cmsg_len - CMSG_LEN(0);
    for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int), ++count) {
      int attached = -1;
      memcpy(&attached, CMSG_DATA(control) + at, sizeof attached);
      parcel.attached = Descriptor(attached); // the one before is closed
    }
  }
  if (count > 1)
    return makeError(ErrorCode::PeerLost, "a message with ", count,
                     " descriptors, expected one at most");
  return std::optional<Parcel>(std::move(parcel));
}

} // namespace dtrt
