//===- LocalLink.cpp - Messages of one pair inside a host -----------------===//

#include "LocalLink.h"

#include "dtrt/core/Packing.h"

#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#ifndef F_SEAL_FUTURE_WRITE // from Linux 5.1 on
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace dtrt {

namespace {

enum Kind : uint64_t {
  InArena = 1, // the message lies in the sender's arena, at `offset`
  InPages,     // in its shared pages, at `offset`
  InShards,    // in shards of it that the receiver reads
  Inline,      // the message follows
  Taken,       // the message has been copied from where it lay
  Aborted,     // the sender has failed; its error follows
};

constexpr size_t kMaxAbortText = 4096;

/// What makes the size of memory a fixed one.
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

} // namespace

PeerArena::~PeerArena() {
  if (start)
    munmap(const_cast<std::byte *>(start), size);
}

/// All pages at once: those of staging that are not used were never written.
Result<PeerArena> PeerArena::map(const Parcel &parcel) {
  PeerArena arena;
  if (!parcel.attached || parcel.number == 0)
    return arena;
  int seals = fcntl(parcel.attached.get(), F_GET_SEALS);
  struct stat file;
  if (seals < 0 || fstat(parcel.attached.get(), &file) != 0)
    return systemError("cannot query a peer's staging");
  if ((seals & kSizeSeals) != kSizeSeals)
    return makeError(ErrorCode::PeerLost, "its staging can change its size");
  if (uint64_t(file.st_size) != parcel.number)
    return makeError(ErrorCode::PeerLost, "its staging has ", file.st_size,
                     " bytes, it said ", parcel.number);
  void *start = mmap(nullptr, parcel.number, PROT_READ,
                     MAP_SHARED | MAP_POPULATE, parcel.attached.get(), 0);
  if (start == MAP_FAILED)
    return systemError("cannot map a peer's staging");
  arena.start = static_cast<const std::byte *>(start);
  arena.size = parcel.number;
  return arena;
}

bool sealSharedMemory(const Descriptor &memory) {
  int seals = kSizeSeals | F_SEAL_SEAL;
  return fcntl(memory.get(), F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE) == 0 ||
         fcntl(memory.get(), F_ADD_SEALS, seals) == 0;
}

Status LocalLink::mapPeerArena(const Parcel &parcel) {
  auto mapped = PeerArena::map(parcel);
  if (!mapped.ok())
    return makeError(name, ": ", mapped.status());
  peerArena = std::move(*mapped);
  return {};
}

void LocalLink::post(const TransportMessage &message, SentFrom from) {
  if (message.receive) {
    incoming = message;
    return;
  }
  outgoing = message;
  static constexpr Kind kKinds[] = {InArena, InPages, Inline};
  Kind kind = message.view ? InShards : kKinds[from.memory];
  put({kind, from.offset, message.bytes});
  body = message.data;
  bodyLeft = kind == Inline ? message.bytes : 0;
}

void LocalLink::put(const Frame &frame) {
  head = frame;
  headLeft = sizeof head;
}

short LocalLink::events() const {
  bool reads = incoming || outgoing;
  return short((reads ? POLLIN : 0) | (outputLeft() > 0 ? POLLOUT : 0));
}

std::string LocalLink::nameOfPending() const {
  const auto &message = incoming ? incoming : outgoing;
  if (!message)
    return name;
  return name + " while " + (message->receive ? "receiving " : "sending ") +
         std::to_string(message->bytes) + " bytes";
}

Status LocalLink::lost(const std::string &reason) const {
  return makeError(ErrorCode::PeerLost, peer, "lost ", nameOfPending(), ": ",
                   reason);
}

Status LocalLink::timedOut(std::chrono::duration<double> timeout) const {
  return makeError(ErrorCode::Timeout, "no answer within ", timeout.count(),
                   " s from ", nameOfPending());
}

Status LocalLink::progress() {
  DTRT_RETURN_IF_ERROR(write());
  DTRT_RETURN_IF_ERROR(read());
  return write();
}

Status LocalLink::write() {
  while (outputLeft() > 0) {
    if (headLeft + bodyLeft == 0) {
      owesTaken = false;
      put({Taken, 0, 0});
    }
    bool isHead = headLeft > 0;
    const std::byte *from =
        isHead ? reinterpret_cast<const std::byte *>(&head + 1) - headLeft
               : body;
    auto sent = sendSome(stream, from, isHead ? headLeft : bodyLeft);
    if (!sent.ok()) {
      // It may have said why it has gone.
      DTRT_RETURN_IF_ERROR(read());
      return lost(sent.status().message());
    }
    if (*sent == 0)
      return {};
    (isHead ? headLeft : bodyLeft) -= *sent;
    if (!isHead)
      body += *sent;
    // What follows its frame is the socket's once it is written.
    if (outgoing && headLeft + bodyLeft == 0 && head.kind == Inline)
      outgoing.reset();
  }
  return {};
}

Status LocalLink::read() {
  while (incoming || outgoing || !abortText.empty()) {
    bool isBody = intoLeft > 0;
    std::byte *to =
        isBody ? into : reinterpret_cast<std::byte *>(&got) + gotBytes;
    auto received =
        receiveSome(stream, to, isBody ? intoLeft : sizeof got - gotBytes);
    if (!received.ok())
      return lost(received.status().message());
    if (*received == 0)
      return {};
    if (isBody) {
      into += *received;
      intoLeft -= *received;
      if (intoLeft == 0)
        DTRT_RETURN_IF_ERROR(finishBody());
      continue;
    }
    gotBytes += *received;
    if (gotBytes < sizeof got)
      continue;
    gotBytes = 0;
    DTRT_RETURN_IF_ERROR(handle(got));
  }
  return {};
}

Status LocalLink::handle(const Frame &frame) {
  if (frame.kind == Aborted && frame.bytes > 0 &&
      frame.bytes <= kMaxAbortText) {
    abortText.resize(frame.bytes, ' ');
    into = reinterpret_cast<std::byte *>(abortText.data());
    intoLeft = abortText.size();
    return {};
  }
  if (frame.kind == Taken && outgoing) {
    outgoing.reset();
    return {};
  }
  if (frame.kind < InArena || frame.kind > Inline || !incoming)
    return lost("it sent an unexpected frame");
  if (frame.bytes != incoming->bytes)
    return makeError(ErrorCode::Mismatch, name, " sends ", frame.bytes,
                     " bytes, expected ", incoming->bytes);
  if (frame.kind == InArena)
    return takeFrom(peerArena.data(), peerArena.bytes(), frame);
  if (frame.kind == InPages)
    return takeFrom(peerPages ? peerPages->start : nullptr,
                    peerPages ? peerPages->bytes : 0, frame);
  if (frame.kind == InShards)
    return takeFromShards();
  into = incoming->data;
  intoLeft = incoming->bytes;
  return {};
}

Status LocalLink::takeFrom(const std::byte *memory, uint64_t size,
                           const Frame &frame) {
  if (frame.offset > size || frame.bytes > size - frame.offset)
    return lost("a message beyond its memory");
  const std::byte *from = memory + frame.offset;
  if (incoming->view)
    DTRT_RETURN_IF_ERROR(unpackMessage(*incoming->view, from));
  else
    memcpy(incoming->data, from, frame.bytes);
  incoming.reset();
  owesTaken = true;
  return {};
}

Status LocalLink::takeFromShards() {
  if (!incoming->peerView)
    return lost("a message in shards that this process does not read");
  DTRT_RETURN_IF_ERROR(incoming->view
                           ? copyMessage(*incoming->peerView, *incoming->view)
                           : packMessage(*incoming->peerView, incoming->data));
  incoming.reset();
  owesTaken = true;
  return {};
}

Status LocalLink::finishBody() {
  if (!abortText.empty())
    return makeError(ErrorCode::Cancelled, abortText);
  if (incoming->view)
    DTRT_RETURN_IF_ERROR(unpackMessage(*incoming->view, incoming->data));
  incoming.reset();
  return {};
}

void LocalLink::sayAborted(const std::string &why) {
  // Within a message nothing can be said: the peer sees the stream's end.
  bool isWithin = headLeft + bodyLeft > 0 && headLeft < sizeof head;
  if (isWithin) {
    shutdown(stream.get(), SHUT_RDWR);
    return;
  }
  std::string text = why.empty() ? "aborted" : why.substr(0, kMaxAbortText);
  Frame frame{Aborted, 0, text.size()};
  std::string all(reinterpret_cast<const char *>(&frame), sizeof frame);
  all += text;
  auto sent = sendSome(stream, reinterpret_cast<const std::byte *>(all.data()),
                       all.size());
  if (!sent.ok() || *sent < all.size())
    shutdown(stream.get(), SHUT_RDWR);
}

} // namespace dtrt
