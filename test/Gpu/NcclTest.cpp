//===- NcclTest.cpp - The NCCL transport, on NCCL and on a stand-in -------===//
//
// What the transport itself does, its groups, waits, aborts and errors, is
// tested on a stand-in for NCCL whose ranks are threads. Waves between
// processes on GPUs are tested through dt-run.
//
//===----------------------------------------------------------------------===//

#include "FakeNccl.h"
#include "TransportContract.h"

#include "dtrt/Cuda.h"
#include "dtrt/NcclTransport.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

std::shared_ptr<Rendezvous> ranksOf(std::shared_ptr<Store> store, uint32_t rank,
                                    size_t size, double timeout) {
  return std::make_shared<Rendezvous>(std::move(store), rank, uint32_t(size),
                                      Seconds(timeout));
}

Result<std::unique_ptr<NcclTransport>>
tryEnd(uint32_t device, const std::vector<uint32_t> &devices,
       std::shared_ptr<Store> store, double timeout,
       const NcclApi *api = nullptr) {
  auto found = std::find(devices.begin(), devices.end(), device);
  return NcclTransport::create(
      {device, devices,
       ranksOf(std::move(store), uint32_t(found - devices.begin()),
               devices.size(), timeout),
       Seconds(timeout), api});
}

std::unique_ptr<NcclTransport> makeEnd(uint32_t device,
                                       const std::vector<uint32_t> &devices,
                                       std::shared_ptr<Store> store,
                                       double timeout,
                                       const NcclApi *api = nullptr) {
  auto transport = tryEnd(device, devices, std::move(store), timeout, api);
  EXPECT_TRUE(transport.ok()) << transport.status().message();
  return std::move(*transport);
}

void expectContains(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos)
      << "found '" << text << "', expected it to contain '" << part << "'";
}

} // namespace

TEST(Nccl, NamesTheRankThatDoesNotCome) {
  auto end = makeEnd(3, {3, 8}, std::make_shared<MemoryStore>(), 0.1);
  Status status = end->connect({1, 2}, {8});
  ASSERT_FALSE(status.ok());
  expectContains(status.message(),
                 "device 3: nccl connect: timeout of 0.1 s waiting for rank 1");
}

TEST(Nccl, RefusesAnotherPlan) {
  auto store = std::make_shared<MemoryStore>();
  auto end = makeEnd(3, {3, 8}, store, 60),
       other = makeEnd(8, {3, 8}, store, 60);
  Status status, otherStatus;
  std::thread thread([&] { otherStatus = other->connect({5, 6}, {3}); });
  status = end->connect({1, 2}, {8});
  thread.join();
  for (const Status &one : {status, otherStatus}) {
    expectContains(one.message(), "the ranks do not have the same plan: ");
    expectContains(one.message(), "rank 0 has " + digestText({1, 2}));
    expectContains(one.message(), "rank 1 has " + digestText({5, 6}));
  }
}

TEST(Nccl, RefusesADeviceOutsideTheWorld) {
  auto transport = tryEnd(1, {0, 2}, std::make_shared<MemoryStore>(), 1);
  ASSERT_FALSE(transport.ok());
  expectContains(transport.status().message(), "not in this world");
}

TEST(Nccl, ConnectsAWorldOfOne) {
  auto gpus = countGpus();
  if (!gpus.ok())
    GTEST_SKIP() << gpus.status().message();
  auto end = makeEnd(0, {0}, std::make_shared<MemoryStore>(), 30);
  Status status = end->connect({1, 2}, {});
  EXPECT_TRUE(status.ok()) << status.message();
  end->leave();
}

//===----------------------------------------------------------------------===//
// On the stand-in
//===----------------------------------------------------------------------===//

namespace {

class FakeWorld : public TransportWorld {
public:
  FakeWorld(const std::vector<uint32_t> &devices, double timeout) {
    resetFakeNccl();
    auto store = std::make_shared<MemoryStore>();
    for (uint32_t device : devices)
      ends[device] = makeEnd(device, devices, store, timeout, &fakeNccl());
  }
  ~FakeWorld() override {
    ends.clear();
    for (const std::string &fault : fakeNcclFaults())
      ADD_FAILURE() << fault;
  }
  Transport &endpoint(uint32_t device) override { return *ends.at(device); }

private:
  std::map<uint32_t, std::unique_ptr<NcclTransport>> ends;
};

std::unique_ptr<TransportWorld> makeFake(const std::vector<uint32_t> &devices,
                                         double timeout) {
  return std::make_unique<FakeWorld>(devices, timeout);
}

/// Two ranks, each with a group of one message, of these sizes.
std::map<uint32_t, std::string> sendOne(size_t sent, size_t expected) {
  FakeWorld world({0, 1}, 60);
  breakFakeNccl(/*rank=*/0, /*afterGroups=*/2); // the warm-up is one
  std::map<uint32_t, std::string> errors = {{0, ""}, {1, ""}};
  std::vector<std::thread> threads;
  for (uint32_t device : {0, 1})
    threads.emplace_back([&, device] {
      Transport &end = world.endpoint(device);
      std::vector<std::byte> data(device == 0 ? sent : expected);
      Status status = end.connect({1, 2}, {1 - device});
      if (status.ok())
        status = end.group(
            {{device == 1, 1 - device, data.data(), data.size(), nullptr}});
      errors[device] = status.message();
      if (status.ok())
        status = end.group(
            {{device == 1, 1 - device, data.data(), data.size(), nullptr}});
      if (errors[device].empty())
        errors[device] = status.message();
    });
  for (std::thread &thread : threads)
    thread.join();
  return errors;
}

} // namespace

INSTANTIATE_TEST_SUITE_P(NcclStandIn, TransportContract,
                         testing::Values(TransportCase{"nccl", makeFake}),
                         caseName);

TEST(NcclStandIn, AnErrorOfOneCommunicatorEndsAllWithTheReason) {
  auto errors = sendOne(100, 100);
  expectContains(errors[0], "device 0: nccl group 0: remote process exited "
                            "(detail); peers in this phase: 1");
  // Rank 1 may have been done with its group before it heard of the error.
  expectContains(errors[1], "device 1: nccl group ");
  expectContains(errors[1], "rank 0 stopped: device 0: nccl group 0: remote");
}

TEST(NcclStandIn, ALibraryThatIsMissingIsAnErrorOfAllRanks) {
  auto store = std::make_shared<MemoryStore>();
  auto end = makeEnd(0, {0, 9}, store, 60, &fakeNccl());
  // Device 9, as it does where there is no library.
  std::thread without([&] {
    auto ranks = ranksOf(store, 1, 2, 60);
    auto verdict = [](const auto &) { return std::string(); };
    Arrival arrival{"run", 1, "", {{"plan", digestText({1, 2})}}};
    EXPECT_TRUE(ranks->gather(arrival, "", verdict).ok());
    (void)ranks->agree(Step::Nccl, "cannot load NCCL: no file", verdict);
  });
  Status status = end->connect({1, 2}, {9});
  end->abort(status);
  without.join();
  ASSERT_FALSE(status.ok());
  expectContains(status.message(), "device 9: cannot load NCCL: no file");
}
