//===- SharedPagesTest.cpp - Memory that processes of a host read ---------===//
//
// The pages themselves, what of them a peer accepts, and what a link says of
// messages in them. That plans run right with them is tested with the contract
// of all transports (TransportContract.cpp).
//
//===----------------------------------------------------------------------===//

#include "BorrowedTransport.h"
#include "LocalLink.h"
#include "PeerPages.h"
#include "PlanBuilder.h"

#include "dtrt/core/PeerShards.h"
#include "dtrt/transport/LoopbackTransport.h"
#include "dtrt/transport/SharedPages.h"

#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

const auto kPage = uint64_t(sysconf(_SC_PAGESIZE));

/// What another process sees of a file: zeros where there is no memory.
class Mapped {
public:
  Mapped(int file, uint64_t bytes)
      : bytes(bytes), start(mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file,
                                 /*offset=*/0)) {}
  ~Mapped() { munmap(start, bytes); }
  const std::byte &operator[](uint64_t at) const {
    return static_cast<const std::byte *>(start)[at];
  }

private:
  uint64_t bytes;
  void *start;
};

void expectContains(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

} // namespace

TEST(SharedPages, AddressesAreGivenAgain) {
  SharedPages pages(8 * kPage);
  std::byte *first = pages.reserve(2 * kPage + 1);
  std::byte *second = pages.reserve(kPage);
  std::byte *third = pages.reserve(4 * kPage);
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(second - first, ptrdiff_t(3 * kPage));
  EXPECT_EQ(pages.reserve(1), nullptr) << "all are given";
  pages.free(second, kPage);
  pages.free(first, 2 * kPage + 1);
  pages.free(third, 4 * kPage);
  EXPECT_EQ(pages.reserve(8 * kPage), first) << "neighbours join";
}

TEST(SharedPages, MemoryGoesAndComesBackEmpty) {
  SharedPages pages(4 * kPage);
  std::byte *start = pages.reserve(4 * kPage);
  ASSERT_TRUE(pages.open(start, 4 * kPage));
  memset(start, 7, 4 * kPage);
  Descriptor file(pages.openReadOnly());
  Mapped seen(file.get(), 4 * kPage);
  EXPECT_EQ(seen[kPage], std::byte(7));
  pages.close(start + kPage, kPage);
  EXPECT_EQ(seen[kPage - 1], std::byte(7));
  EXPECT_EQ(seen[kPage], std::byte(0));
  EXPECT_DEATH(start[kPage] = std::byte(1), "");
  ASSERT_TRUE(pages.open(start + kPage, kPage));
  EXPECT_EQ(start[kPage], std::byte(0));
}

TEST(SharedPages, AreOnlyReadThroughWhatIsHandedOut) {
  SharedPages pages(kPage);
  Descriptor file(pages.openReadOnly());
  ASSERT_TRUE(file);
  EXPECT_EQ(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(),
                 /*offset=*/0),
            MAP_FAILED);
  EXPECT_NE(ftruncate(file.get(), 0), 0);
  EXPECT_NE(fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                      off_t(kPage)),
            0);
}

TEST(SharedPages, KnowWhatLiesInThem) {
  SharedPages pages(4 * kPage);
  std::byte *start = pages.reserve(4 * kPage);
  EXPECT_EQ(pages.offsetOf(start + 5, 10), std::optional<uint64_t>(5));
  EXPECT_EQ(pages.offsetOf(start + 4 * kPage - 10, 10),
            std::optional<uint64_t>(4 * kPage - 10));
  EXPECT_EQ(pages.offsetOf(start + 4 * kPage - 10, 11), std::nullopt);
  EXPECT_EQ(pages.offsetOf(start - 1, 1), std::nullopt);
  std::byte elsewhere{};
  EXPECT_EQ(pages.offsetOf(&elsewhere, 1), std::nullopt);
}

TEST(SharedPages, GiveNothingWhereTheSystemHasNoAddresses) {
  SharedPages pages(uint64_t(1) << 62);
  EXPECT_EQ(pages.reserve(1), nullptr);
  std::byte elsewhere{};
  EXPECT_EQ(pages.offsetOf(&elsewhere, 1), std::nullopt);
}

/// The pages are its parent's, which goes on with them.
TEST(SharedPages, AForkedProcessGivesNothingBack) {
  SharedPages pages(2 * kPage);
  std::byte *start = pages.reserve(kPage);
  ASSERT_TRUE(pages.open(start, kPage));
  start[0] = std::byte(7);
  pid_t child = fork();
  if (child == 0) {
    bool isGiven = pages.reserve(kPage) != nullptr;
    pages.close(start, kPage);
    pages.free(start, kPage);
    _exit(isGiven || start[0] != std::byte(7));
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(start[0], std::byte(7));
}

//===----------------------------------------------------------------------===//
// What a peer accepts
//===----------------------------------------------------------------------===//

namespace {

Parcel parcelOf(uint64_t bytes, int seals, uint64_t table = 0,
                uint64_t count = 0) {
  Parcel parcel;
  parcel.number = table;
  parcel.attached = Descriptor(memfd_create("test", MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(parcel.attached.get(), off_t(bytes)), 0);
  EXPECT_EQ(pwrite(parcel.attached.get(), &count, sizeof count, 0),
            ssize_t(sizeof count));
  EXPECT_EQ(fcntl(parcel.attached.get(), F_ADD_SEALS, seals), 0);
  return parcel;
}

constexpr int kFixed = F_SEAL_SHRINK | F_SEAL_GROW;

void expectRefused(const Parcel &parcel, const std::string &why) {
  auto pages = PeerPages::map(parcel);
  ASSERT_FALSE(pages.ok());
  EXPECT_TRUE(pages.status().is(ErrorCode::PeerLost));
  expectContains(pages.status().message(), why);
}

} // namespace

TEST(PeerPages, OfASizeThatCanChangeAreRefused) {
  for (int seals : {0, F_SEAL_SHRINK, F_SEAL_GROW})
    expectRefused(parcelOf(kPage, seals), "can change their size");
}

TEST(PeerPages, TablesBeyondThemAreRefused) {
  expectRefused(parcelOf(kPage, kFixed, kPage - 7), "beyond its pages");
  expectRefused(parcelOf(kPage, kFixed, UINT64_MAX), "beyond its pages");
  expectRefused(parcelOf(kPage, kFixed, 0, kPage / 8), "a table of 512 places");
  expectRefused(parcelOf(kPage, kFixed, 0, UINT64_MAX), "a table of");
  EXPECT_TRUE(PeerPages::map(parcelOf(kPage, kFixed, 0, kPage / 8 - 1)).ok());
}

TEST(PeerPages, TablesAreReadAsTheyAreWritten) {
  constexpr uint64_t kNowhere = ShardPlaces::kNowhere;
  EXPECT_EQ(SharedTable({}).descriptor(), -1);
  EXPECT_EQ(SharedTable({kNowhere, kNowhere}).descriptor(), -1);
  SharedTable table({4096, kNowhere, 0});
  ASSERT_GE(table.descriptor(), 0);
  Parcel parcel;
  parcel.number = table.offset();
  parcel.attached = Descriptor(dup(table.descriptor()));
  auto pages = PeerPages::map(parcel);
  ASSERT_TRUE(pages.ok()) << pages.status().message();
  EXPECT_EQ(pages->places().places, (std::vector<uint64_t>{4096, kNowhere, 0}));
}

namespace {

/// Reads the shards of device 0, which says that they lie at these places.
class Reader : public Borrowed {
public:
  Reader(Transport &inner, ShardPlaces said)
      : Borrowed(inner), said(std::move(said)) {}
  TransportCaps caps() const override {
    TransportCaps caps;
    caps.readsFrom = {0};
    return caps;
  }
  const ShardPlaces *placesOf(uint32_t peer) const override {
    return peer == 0 ? &said : nullptr;
  }

private:
  ShardPlaces said;
};

std::string errorOf(const ShardPlaces &said) {
  TestPlan test = reshapePlan();
  PlanReader plan = test.reader();
  LoopbackWorld world(plan.devices());
  Reader transport(world.endpoint(1), said);
  auto peers =
      PeerShards::prepare(plan.common(), 1, transport, [&](uint32_t device) {
        return plan.program(device);
      });
  return peers.status().message();
}

} // namespace

TEST(PeerShards, PlacesThatAreNotOfTheProgramAreRefused) {
  std::byte memory[16];
  EXPECT_EQ(errorOf({memory, sizeof memory, {}}).substr(0, 9), "device 0:");
  expectContains(errorOf({memory, sizeof memory, {}}),
                 "says where 0 source buffers lie, expected");
  TestPlan test = reshapePlan();
  auto program = test.reader().program(0);
  LocalStorage storage(test.common, *program);
  size_t buffers =
      sourcePlaces(storage, [](auto, auto) { return std::nullopt; }).size();
  ShardPlaces said{memory, sizeof memory, std::vector<uint64_t>(buffers, 8)};
  expectContains(errorOf(said),
                 "a source shard lies at 8, beyond the 16 bytes");
  said.places.assign(buffers, ShardPlaces::kNowhere);
  EXPECT_EQ(errorOf(said), "");
}

//===----------------------------------------------------------------------===//
// What a link says
//===----------------------------------------------------------------------===//

namespace {

/// Two ends; what the first sends the second receives.
class Pair {
public:
  Pair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    for (int end : ends)
      links.emplace_back("the peer", Descriptor(end));
  }
  /// The receiver's error, where the sender has the message `from` there.
  std::string errorOf(TransportMessage sent, SentFrom from) {
    std::vector<std::byte> into(sent.bytes);
    TransportMessage received{true, 0, into.data(), sent.bytes};
    links[0].post(sent, from);
    links[1].post(received);
    EXPECT_TRUE(links[0].progress().ok());
    return links[1].progress().message();
  }

  std::vector<LocalLink> links;
};

} // namespace

TEST(LocalLink, AMessageInShardsThatAreNotReadIsAnError) {
  MessageView view;
  TransportMessage sent{false, 0, nullptr, 8};
  sent.view = &view;
  expectContains(Pair().errorOf(sent, {}),
                 "in shards that this process does not read");
}

TEST(LocalLink, AMessageBeyondThePagesIsAnError) {
  std::byte memory[16] = {};
  ShardPlaces pages{memory, sizeof memory, {}};
  TransportMessage sent{false, 0, memory, 8};
  Pair pair;
  pair.links[1].readPages(pages);
  EXPECT_EQ(pair.errorOf(sent, {SentFrom::Pages, 8}), "");
  expectContains(Pair().errorOf(sent, {SentFrom::Pages, 0}),
                 "beyond its memory");
  for (uint64_t offset : {uint64_t(9), uint64_t(17), UINT64_MAX}) {
    Pair another;
    another.links[1].readPages(pages);
    expectContains(another.errorOf(sent, {SentFrom::Pages, offset}),
                   "beyond its memory");
  }
}
