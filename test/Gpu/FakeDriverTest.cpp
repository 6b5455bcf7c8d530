//===- FakeDriverTest.cpp - The fake driver refuses misuse ----------------===//

#include "FakeDriver.h"
#include "FakeGpu.h"

#include <algorithm>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

constexpr uint64_t kPage = 4096;

/// Addresses for four pages, two pages, and a stream; what a test leaves goes
/// with the machine.
class FakeDriverTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(api.MemAddressReserve(&at, 4 * kPage, kPage, 0, 0), CUDA_SUCCESS);
    kind.location.id = 0;
    for (CUmemGenericAllocationHandle &page : pages)
      ASSERT_EQ(api.MemCreate(&page, kPage, &kind, 0), CUDA_SUCCESS);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  }

  CUresult map(int place, int page) {
    return api.MemMap(at + place * kPage, kPage, 0, pages[page], 0);
  }
  CUresult allow(int place) {
    CUmemAccessDesc access = {};
    access.location.id = 0;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return api.MemSetAccess(at + place * kPage, kPage, &access, 1);
  }
  CUresult unmap(int place) { return api.MemUnmap(at + place * kPage, kPage); }
  void write(int place, int value = 1) {
    cudaMemsetAsync(reinterpret_cast<void *>(at + place * kPage), value, kPage,
                    stream);
  }
  /// Whether a fault says this; then the machine is new again.
  void expectFault(const std::string &text) {
    std::vector<std::string> faults = fakeGpuFaults();
    EXPECT_TRUE(std::any_of(faults.begin(), faults.end(),
                            [&](const std::string &fault) {
                              return fault.find(text) != std::string::npos;
                            }))
        << "no fault says '" << text << "'";
    resetFakeGpus();
    clearFakeGpuFaults();
  }

  const DriverApi &api = fakeDriver();
  CUmemAllocationProp kind = {};
  CUdeviceptr at = 0;
  CUmemGenericAllocationHandle pages[2] = {};
  cudaStream_t stream = nullptr;
};

} // namespace

TEST_F(FakeDriverTest, APageKeepsItsBytesWhereverItIsMapped) {
  ASSERT_EQ(map(0, 0), CUDA_SUCCESS);
  ASSERT_EQ(allow(0), CUDA_SUCCESS);
  write(0, 7);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  ASSERT_EQ(unmap(0), CUDA_SUCCESS);
  ASSERT_EQ(map(3, 0), CUDA_SUCCESS);
  ASSERT_EQ(allow(3), CUDA_SUCCESS);
  auto *bytes = reinterpret_cast<const char *>(at + 3 * kPage);
  EXPECT_EQ(std::count(bytes, bytes + kPage, 7), long(kPage));
  ASSERT_EQ(unmap(3), CUDA_SUCCESS);
  for (CUmemGenericAllocationHandle page : pages)
    EXPECT_EQ(api.MemRelease(page), CUDA_SUCCESS);
  EXPECT_EQ(api.MemAddressFree(at, 4 * kPage), CUDA_SUCCESS);
  cudaStreamDestroy(stream);
  EXPECT_TRUE(fakeGpuFaults().empty());
}

TEST_F(FakeDriverTest, RefusesAccessToAddressesWithoutMemory) {
  write(1);
  cudaStreamSynchronize(stream);
  expectFault("touches addresses without memory");
}

TEST_F(FakeDriverTest, RefusesAccessThatNobodyHasAllowed) {
  map(0, 0);
  write(0);
  cudaStreamSynchronize(stream);
  expectFault("touches memory that its GPU has no access to");
}

TEST_F(FakeDriverTest, RefusesAccessBehindTheEnd) {
  map(3, 0);
  allow(3);
  cudaMemsetAsync(reinterpret_cast<void *>(at + 3 * kPage), 1, 2 * kPage,
                  stream);
  cudaStreamSynchronize(stream);
  expectFault("touches bytes behind the end of its addresses");
}

TEST_F(FakeDriverTest, RefusesToUnmapBeforeTheEventBehindTheLastUse) {
  for (bool mapsAgain : {false, true}) {
    if (mapsAgain)
      SetUp();
    map(0, 0);
    allow(0);
    pauseFakeGpus(true);
    write(0);
    EXPECT_EQ(unmap(0), CUDA_SUCCESS); // the driver waits for nothing
    if (mapsAgain) {
      map(0, 1);
      allow(0);
    }
    pauseFakeGpus(false);
    cudaStreamSynchronize(stream);
    expectFault(mapsAgain ? "memory that was mapped after the work was put"
                          : "touches addresses without memory");
  }
}

TEST_F(FakeDriverTest, RefusesTwoPagesAtOnePlace) {
  map(0, 0);
  EXPECT_NE(map(0, 1), CUDA_SUCCESS);
  expectFault("a page is mapped where there is one");
}

TEST_F(FakeDriverTest, RefusesAPageAtTwoPlaces) {
  map(0, 0);
  EXPECT_NE(map(1, 0), CUDA_SUCCESS);
  expectFault("a page is mapped at a second place");
}

TEST_F(FakeDriverTest, RefusesToMapWhereNothingIsReserved) {
  EXPECT_NE(map(4, 0), CUDA_SUCCESS);
  expectFault("a page is mapped where no addresses are reserved");
}

TEST_F(FakeDriverTest, RefusesToMapAPartOfAPage) {
  EXPECT_NE(api.MemMap(at, kPage / 2, 0, pages[0], 0), CUDA_SUCCESS);
  expectFault("a page is mapped that is not there, or not whole");
}

TEST_F(FakeDriverTest, RefusesToUnmapWhatIsNotMapped) {
  EXPECT_NE(unmap(0), CUDA_SUCCESS);
  expectFault("addresses are unmapped that were not mapped so");
}

TEST_F(FakeDriverTest, RefusesToGiveBackAMappedPage) {
  map(0, 0);
  EXPECT_NE(api.MemRelease(pages[0]), CUDA_SUCCESS);
  expectFault("a page is given back while it is mapped");
}

TEST_F(FakeDriverTest, RefusesToGiveAPageBackTwice) {
  api.MemRelease(pages[0]);
  EXPECT_NE(api.MemRelease(pages[0]), CUDA_SUCCESS);
  expectFault("a page is given back that is not there");
}

TEST_F(FakeDriverTest, RefusesToFreeAddressesWithMemory) {
  map(2, 0);
  EXPECT_NE(api.MemAddressFree(at, 4 * kPage), CUDA_SUCCESS);
  expectFault("addresses are freed while memory is mapped there");
}

TEST_F(FakeDriverTest, RefusesToFreeAPartOfTheAddresses) {
  EXPECT_NE(api.MemAddressFree(at, kPage), CUDA_SUCCESS);
  expectFault("addresses are freed that were not reserved so");
}

TEST_F(FakeDriverTest, RefusesAccessForAddressesWithoutMemory) {
  EXPECT_NE(allow(0), CUDA_SUCCESS);
  expectFault("access is given to addresses without memory");
}

TEST_F(FakeDriverTest, NoticesWhatIsLeft) {
  cudaStreamDestroy(stream);
  std::vector<std::string> faults = fakeGpuFaults();
  ASSERT_EQ(faults.size(), 3u); // and the seed
  EXPECT_EQ(faults[0], "2 pages of GPUs left");
  EXPECT_EQ(faults[1], "1 ranges of addresses left");
  resetFakeGpus();
}
