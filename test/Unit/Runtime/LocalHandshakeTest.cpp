//===- LocalHandshakeTest.cpp - Who gets at a rank's memory ---------------===//

#include "LocalHandshake.h"
#include "LocalLink.h"

#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace dtrt;

namespace {

/// As LocalHandshake.h has it.
struct Greeting {
  std::array<char, 8> mark = {'d', 't', 'l', 'i', 'n', 'k', '0', '1'};
  uint32_t device = 0;
  Token token = {};
};

template <typename Words>
void say(const Descriptor &socket, const Words &words, size_t bytes) {
  auto sent =
      sendSome(socket, reinterpret_cast<const std::byte *>(&words), bytes);
  ASSERT_TRUE(sent.ok());
  ASSERT_EQ(*sent, bytes);
}

/// What has come, or that the other end has closed.
std::string heard(const Descriptor &socket) {
  std::byte buffer[256];
  auto got = receiveSome(socket, buffer, sizeof buffer);
  if (!got.ok())
    return "closed";
  return std::string(reinterpret_cast<char *>(buffer), *got);
}

Descriptor guestOf(const SocketName &name) {
  auto socket = connectLocally(name);
  EXPECT_TRUE(socket.ok()) << socket.status().message();
  return std::move(*socket);
}

size_t openDescriptors() {
  size_t count = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (readdir(folder))
    ++count;
  closedir(folder);
  return count;
}

class Handshake : public testing::Test {
protected:
  Handshake() : secret(*Secret::make()), high(7, secret) {
    auto listens = high.listen(1);
    EXPECT_TRUE(listens.ok());
    name = *listens;
    high.expect(3);
  }
  void progress(LocalHandshake &one) {
    Status status = one.progress();
    EXPECT_TRUE(status.ok()) << status.message();
  }
  /// Device 3 comes, and both have a link.
  void expectDone() {
    LocalHandshake low(3, secret);
    ASSERT_TRUE(low.connect(7, name).ok());
    progress(high);
    progress(low);
    EXPECT_TRUE(high.done());
    EXPECT_TRUE(low.done());
    auto here = high.takeLinks(), there = low.takeLinks();
    ASSERT_EQ(here.count(3), 1u);
    ASSERT_EQ(there.count(7), 1u);
    say(there.at(7), secret, 5);
    EXPECT_EQ(heard(here.at(3)).size(), 5u);
  }

  Secret secret;
  LocalHandshake high;
  SocketName name;
};

TEST_F(Handshake, LinksRanksOfOneSecret) { expectDone(); }

TEST_F(Handshake, WhoSaysNothingIsNotWaitedFor) {
  std::vector<Descriptor> guests;
  for (int i = 0; i < 200; ++i) {
    guests.push_back(guestOf(name));
    progress(high);
  }
  EXPECT_FALSE(high.done());
  expectDone();
}

TEST_F(Handshake, WhoDoesNotKnowTheSecretIsLetGo) {
  Greeting wrongToken{{}, 3, secret.accepting};
  wrongToken.mark = Greeting().mark;
  Greeting wrongMark{{}, 3, secret.connecting};
  Greeting wrongDevice;
  wrongDevice.device = 4;
  wrongDevice.token = secret.connecting;
  for (const Greeting &words : {wrongToken, wrongMark, wrongDevice}) {
    Descriptor guest = guestOf(name);
    say(guest, words, sizeof words);
    progress(high);
    EXPECT_EQ(heard(guest), "closed"); // and nothing of the secret
    EXPECT_FALSE(high.done());
  }
  expectDone();
}

TEST_F(Handshake, WordsMayComeInParts) {
  Greeting words;
  words.device = 3;
  words.token = secret.connecting;
  Descriptor guest = guestOf(name), leaver = guestOf(name);
  say(guest, words, 11);
  say(leaver, words, 11);
  progress(high);
  leaver = Descriptor();
  Descriptor(std::move(leaver)); // closes it
  auto rest = sendSome(guest, reinterpret_cast<std::byte *>(&words) + 11,
                       sizeof words - 11);
  ASSERT_TRUE(rest.ok());
  progress(high);
  EXPECT_TRUE(high.done());
  std::string answer = heard(guest);
  EXPECT_EQ(answer,
            std::string(secret.accepting.begin(), secret.accepting.end()));
}

/// Somebody has taken the name of a rank that is gone.
TEST(LocalHandshake, WhoListensMustKnowTheSecretToo) {
  auto name = makeSocketName();
  ASSERT_TRUE(name.ok());
  auto listener = listenLocally(*name, 4);
  ASSERT_TRUE(listener.ok());
  Secret secret = *Secret::make();
  LocalHandshake low(3, secret);
  ASSERT_TRUE(low.connect(7, *name).ok());
  auto accepted = acceptLocally(*listener);
  ASSERT_TRUE(accepted.ok() && *accepted);
  say(**accepted, secret.connecting, sizeof(Token)); // what it was told
  Status status = low.progress();
  EXPECT_EQ(status.message(),
            "device 7 of this host does not have the switch's secret");
  EXPECT_EQ(status.code(), ErrorCode::PeerLost);
}

TEST(Secret, IsReadAsItWasWritten) {
  auto one = Secret::make(), other = Secret::make();
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_FALSE(isSame(one->connecting, one->accepting));
  EXPECT_FALSE(isSame(one->connecting, other->connecting));
  auto read = Secret::parse(one->text());
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(isSame(read->connecting, one->connecting));
  EXPECT_TRUE(isSame(read->accepting, one->accepting));
  EXPECT_FALSE(Secret::parse("").ok());
  EXPECT_FALSE(Secret::parse(std::string(128, 'g')).ok());
  EXPECT_FALSE(Secret::parse(std::string(126, 'a')).ok());
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Descriptor memoryOf(uint64_t bytes) {
  Descriptor memory(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(memory.get(), off_t(bytes)), 0);
  return memory;
}

TEST(PeerArena, SealedMemoryKeepsItsSizeAndIsOnlyRead) {
  Descriptor memory = memoryOf(8192);
  auto *own = static_cast<char *>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0));
  ASSERT_TRUE(sealSharedMemory(memory));
  EXPECT_NE(ftruncate(memory.get(), 4096), 0);
  EXPECT_NE(ftruncate(memory.get(), 16384), 0);
  // From Linux 5.1 on.
  if (fcntl(memory.get(), F_GET_SEALS) & 0x0010) {
    EXPECT_EQ(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED,
                   memory.get(), 0),
              MAP_FAILED);
  }
  own[5000] = 'x';
  auto arena = PeerArena::map({8192, std::move(memory)});
  ASSERT_TRUE(arena.ok()) << arena.status().message();
  EXPECT_EQ(arena->data()[5000], std::byte('x'));
  munmap(own, 8192);
}

TEST(PeerArena, RefusesMemoryThatIsNotAsItWasSaid) {
  auto open = PeerArena::map({8192, memoryOf(8192)});
  ASSERT_FALSE(open.ok());
  EXPECT_EQ(open.status().message(), "its staging can change its size");
  for (uint64_t said : {4096, 8191, 16384}) {
    Descriptor memory = memoryOf(8192);
    ASSERT_TRUE(sealSharedMemory(memory));
    auto arena = PeerArena::map({said, std::move(memory)});
    ASSERT_FALSE(arena.ok());
    EXPECT_EQ(arena.status().message(),
              "its staging has 8192 bytes, it said " + std::to_string(said));
  }
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Descriptor reads(ends[0]), writes(ends[1]);
  EXPECT_FALSE(PeerArena::map({4096, std::move(reads)}).ok());
}

TEST(Parcel, MoreDescriptorsThanOneAreRefusedAndClosed) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  Descriptor one(ends[0]), other(ends[1]);
  size_t before = openDescriptors();
  uint64_t number = 8;
  iovec part{&number, sizeof number};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  cmsghdr *rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(2 * sizeof(int));
  memcpy(CMSG_DATA(rights), ends, sizeof ends);
  ASSERT_EQ(sendmsg(one.get(), &header, 0), ssize_t(sizeof number));
  auto parcel = receiveParcel(other);
  ASSERT_FALSE(parcel.ok());
  EXPECT_EQ(parcel.status().message(),
            "a message with 2 descriptors, expected one at most");
  EXPECT_EQ(openDescriptors(), before);
}

} // namespace
