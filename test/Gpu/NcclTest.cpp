//===- NcclTest.cpp - NCCL connects, or says who did not come -------------===//
//
// What happens before NCCL starts needs no GPU. Waves between processes are
// tested through dt-run.
//
//===----------------------------------------------------------------------===//

#include "dtrt/Cuda.h"
#include "dtrt/NcclTransport.h"

#include <gtest/gtest.h>

using namespace dtrt;

namespace {

std::unique_ptr<NcclTransport> makeEnd(uint32_t device,
                                       std::vector<uint32_t> devices,
                                       std::shared_ptr<Store> store) {
  auto transport = NcclTransport::create(
      {device, std::move(devices), std::move(store), "test", Seconds(0.1)});
  EXPECT_TRUE(transport.ok()) << transport.status().message();
  return std::move(*transport);
}

void expectContains(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos)
      << "found '" << text << "', expected it to contain '" << part << "'";
}

} // namespace

TEST(Nccl, NamesTheRankThatDoesNotCome) {
  auto end = makeEnd(3, {3, 8}, std::make_shared<MemoryStore>());
  Status status = end->connect({1, 2}, {8});
  ASSERT_FALSE(status.ok());
  expectContains(status.message(),
                 "device 3: nccl connect: rank 1 did not come within 0.1 s");
}

TEST(Nccl, RefusesAnotherPlan) {
  auto store = std::make_shared<MemoryStore>();
  ASSERT_TRUE(store->set("test/connect/1", digestText({5, 6})).ok());
  auto end = makeEnd(3, {3, 8}, store);
  Status status = end->connect({1, 2}, {8});
  ASSERT_FALSE(status.ok());
  expectContains(status.message(), "device 3 has plan " + digestText({1, 2}) +
                                       ", device 8 has " + digestText({5, 6}));
}

TEST(Nccl, RefusesADeviceOutsideTheWorld) {
  auto transport = NcclTransport::create(
      {1, {0, 2}, std::make_shared<MemoryStore>(), "test", Seconds(1)});
  ASSERT_FALSE(transport.ok());
  expectContains(transport.status().message(), "not in this world");
}

TEST(Nccl, ConnectsAWorldOfOne) {
  auto gpus = countGpus();
  if (!gpus.ok())
    GTEST_SKIP() << gpus.status().message();
  auto transport = NcclTransport::create(
      {0, {0}, std::make_shared<MemoryStore>(), "test", Seconds(30)});
  ASSERT_TRUE(transport.ok()) << transport.status().message();
  Status status = (*transport)->connect({1, 2}, {});
  EXPECT_TRUE(status.ok()) << status.message();
  (*transport)->leave();
}
