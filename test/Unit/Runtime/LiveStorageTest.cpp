//===- LiveStorageTest.cpp - A trainer's tensors that come and go ---------===//

#include "PlanBuilder.h"

#include "dtrt/core/LiveStorage.h"
#include "dtrt/format/ShardView.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <tuple>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// Pages of a byte each, none of which has more than one use.
class FakePool : public PagePool {
public:
  Status hold(std::byte *, uint64_t bytes) override {
    EXPECT_LE(bytes, there - used);
    used += bytes;
    return {};
  }
  Status letGo(std::byte *, uint64_t bytes) override {
    used -= bytes;
    return {};
  }
  std::unique_ptr<PageRehearsal> rehearse() const override {
    return std::make_unique<Rehearsal>();
  }
  Status makeSure(uint64_t pages) override {
    if (used + pages > limit)
      return makeError("no ", pages, " pages more");
    there = std::max(there, used + pages);
    return {};
  }

  uint64_t used = 0, there = 0, limit = UINT64_MAX;

private:
  class Rehearsal : public PageRehearsal {
  public:
    Status hold(std::byte *, uint64_t bytes) override {
      more += int64_t(bytes);
      most = std::max(most, more);
      return {};
    }
    Status letGo(std::byte *, uint64_t bytes) override {
      more -= int64_t(bytes);
      return {};
    }
    uint64_t mostMore() const override { return uint64_t(most); }

  private:
    int64_t more = 0, most = 0;
  };
};

/// What a trainer would free and allocate, byte by byte or whole.
class FakeMemory : public LiveMemory {
public:
  FakeMemory(uint64_t bytes, bool pages, uint64_t &all, uint64_t limit)
      : content(bytes), live(bytes), pages(pages), all(all), limit(limit) {}

  /// What there is of it is the pool's from now on.
  void moveTo(FakePool &to) {
    own = &to;
    to.used += uint64_t(std::count(live.begin(), live.end(), true));
    to.there = to.used;
  }
  PagePool *pool() const override { return own; }
  std::byte *address() const override {
    return own ? const_cast<std::byte *>(content.data()) : nullptr;
  }
  PooledBytes pooled() const override { return PooledBytes({}, 0); }
  bool hasPages() const override { return pages; }
  Result<std::byte *> create(uint64_t lo, uint64_t hi) override {
    uint64_t added = pages ? hi - lo : exists() ? 0 : content.size();
    if (all + added > limit)
      return makeError("cannot allocate ", added, " bytes");
    set(lo, hi, true);
    all += added;
    if (own)
      DTRT_RETURN_IF_ERROR(own->hold(content.data() + lo, hi - lo));
    return content.data();
  }
  Status release(uint64_t lo, uint64_t hi) override {
    set(lo, hi, false);
    if (own)
      DTRT_RETURN_IF_ERROR(own->letGo(content.data() + lo, hi - lo));
    all -= pages ? hi - lo : exists() ? 0 : content.size();
    return {};
  }
  bool canTake(const LiveMemory &from) const override {
    return static_cast<const FakeMemory &>(from).live.size() == live.size();
  }
  void take(LiveMemory &from) override {
    auto &other = static_cast<FakeMemory &>(from);
    EXPECT_TRUE(other.exists());
    if (exists()) {
      all -= content.size();
      if (own)
        own->used -= content.size();
    }
    std::swap(content, other.content);
    std::fill(live.begin(), live.end(), true);
    std::fill(other.live.begin(), other.live.end(), false);
  }
  bool exists() const {
    return std::find(live.begin(), live.end(), true) != live.end();
  }

private:
  void set(uint64_t lo, uint64_t hi, bool to) {
    ASSERT_LE(hi, live.size());
    for (uint64_t i = lo; i < hi; ++i) {
      EXPECT_NE(live[i], to) << "byte " << i;
      live[i] = to;
    }
  }

  std::vector<std::byte> content;
  std::vector<bool> live;
  bool pages;
  uint64_t &all, limit;
  FakePool *own = nullptr;
};

/// One device's tensors: a memory for each, or one for all of a side and state.
struct Trainer {
  Trainer(const TestPlan &plan, uint32_t device, bool shared,
          uint64_t limit = UINT64_MAX, bool pages = false)
      : reader(plan.reader()), program(*reader.program(device)) {
    LocalStorage storage(reader.common(), program);
    for (const ExpectedTensor &tensor : expectedTensors(storage))
      tensors.push_back({tensor.tensor, tensor.state, tensor.side,
                         tensor.ordinal, nullptr, tensor.bytes, nullptr, 0});
    std::map<std::pair<Side, std::string>, uint64_t> sizes;
    for (TensorBinding &tensor : tensors) {
      uint64_t &end = sizes[{tensor.side, tensor.state}];
      tensor.offset = shared ? end : 0;
      end += tensor.bytes;
    }
    std::map<std::pair<Side, std::string>, FakeMemory *> known;
    for (TensorBinding &tensor : tensors) {
      FakeMemory *&memory = known[{tensor.side, tensor.state}];
      if (!memory || !shared)
        memory = &memories.emplace_back(
            shared ? sizes[{tensor.side, tensor.state}] : tensor.bytes, pages,
            all, limit);
      tensor.memory = memory;
      if (tensor.side == Side::Source)
        tensor.data =
            *memory->create(tensor.offset, tensor.offset + tensor.bytes) +
            tensor.offset;
    }
  }

  /// Gives tensors that stay as they are for both sides; how many.
  unsigned giveInPlace() {
    LocalStorage storage(reader.common(), program);
    std::vector<ExpectedTensor> expected = expectedTensors(storage);
    for (size_t to = 0; to < tensors.size(); ++to)
      for (size_t from = 0; from < tensors.size(); ++from) {
        TensorBinding &own = tensors[to], &other = tensors[from];
        if (!expected[to].inPlace || own.side == other.side ||
            own.side == Side::Source || own.tensor != other.tensor ||
            own.state != other.state || own.ordinal != other.ordinal)
          continue;
        own.memory = other.memory;
        own.data = other.data;
        own.offset = other.offset;
        twins.push_back(&own);
      }
    return unsigned(twins.size());
  }

  /// Runs what creates and releases; the most bytes that existed.
  uint64_t run(LiveStorage &storage) {
    uint64_t most = all;
    for (const Instruction &instruction : program.instructions)
      for (const Segment &range : instruction.segments) {
        Status status;
        if (instruction.op == Opcode::Create)
          status = storage.create(range);
        if (instruction.op == Opcode::Release)
          status = storage.release(range);
        EXPECT_TRUE(status.ok()) << status.message();
        most = std::max(most, all);
      }
    return most;
  }

  PlanReader reader;
  RankProgram program;
  uint64_t all = 0; // bytes that exist
  std::deque<FakeMemory> memories;
  std::vector<TensorBinding> tensors;
  std::vector<const TensorBinding *> twins;
};

/// Buffers of both sides that the storage hands over.
std::set<std::tuple<Side, uint32_t, unsigned, int64_t>>
handedOver(const LiveStorage &storage) {
  std::set<std::tuple<Side, uint32_t, unsigned, int64_t>> out;
  std::map<std::byte *, ExpectedTensor> sources;
  for (const ExpectedTensor &tensor : expectedTensors(storage)) {
    std::byte *data = storage.data(tensor.side, tensor.shard, tensor.stateIndex,
                                   tensor.member);
    if (tensor.side == Side::Source)
      sources[data] = tensor;
    else if (auto from = sources.find(data); data && from != sources.end())
      for (const ExpectedTensor &own : {from->second, tensor})
        out.insert({own.side, own.shard, own.stateIndex, own.member});
  }
  return out;
}

/// The most bytes that the program has at once, where all that is handed over
/// exists once.
uint64_t peakOf(const RankProgram &program, const LiveStorage &storage) {
  struct Parts : LocalStorage {
    using LocalStorage::BufferPart;
    using LocalStorage::LocalStorage;
    using LocalStorage::partsOf;
  };
  Parts parts(storage.common(), program);
  auto kept = handedOver(storage);
  int64_t live = 0;
  for (const ExpectedTensor &tensor : expectedTensors(storage))
    live += tensor.side == Side::Source ? int64_t(tensor.bytes) : 0;
  int64_t most = live;
  for (const Instruction &instruction : program.instructions)
    for (const Segment &range : instruction.segments)
      for (const Parts::BufferPart &part : parts.partsOf(range)) {
        if (kept.count({part.side, part.shard, part.state, part.member}))
          continue;
        if (instruction.op == Opcode::Create)
          live += part.bytes.size();
        if (instruction.op == Opcode::Release)
          live -= part.bytes.size();
        most = std::max(most, live);
      }
  return uint64_t(most);
}

uint64_t bytesOn(const Trainer &trainer, Side side) {
  uint64_t bytes = 0;
  for (const TensorBinding &tensor : trainer.tensors)
    bytes += tensor.side == side ? tensor.bytes : 0;
  return bytes;
}

void expectContains(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos)
      << "found '" << text << "', expected it to contain '" << part << "'";
}

} // namespace

TEST(LiveStorage, ComesAndGoesWithTheProgram) {
  for (bool shared : {false, true}) {
    SCOPED_TRACE(shared ? "shared" : "alone");
    Trainer trainer(planByTensor(shared), /*device=*/2, shared);
    auto storage = LiveStorage::bind(trainer.reader.common(), trainer.program,
                                     trainer.tensors);
    ASSERT_TRUE(storage.ok()) << storage.status().message();
    EXPECT_EQ(trainer.all, bytesOn(trainer, Side::Source));
    uint64_t peak = peakOf(trainer.program, **storage);
    ASSERT_TRUE((*storage)->clear().ok());
    EXPECT_EQ(trainer.run(**storage), peak);
    EXPECT_LE(peak, (*storage)->peakLiveBytes());
    EXPECT_EQ(trainer.all, bytesOn(trainer, Side::Destination));
    for (const TensorBinding &tensor : trainer.tensors)
      EXPECT_EQ(static_cast<FakeMemory *>(tensor.memory)->exists(),
                tensor.side == Side::Destination);
    for (uint32_t shard = 0; shard < trainer.program.destination.size();
         ++shard)
      for (unsigned state : statesOf(trainer.program.destination[shard].states))
        EXPECT_NE((*storage)->data(Side::Destination, shard, state, 0),
                  nullptr);
  }
}

TEST(LiveStorage, RefusesTensorsThatShareWhatThePlanGivesBackOneByOne) {
  Trainer trainer(planByTensor(/*shared=*/false), 2, /*shared=*/true);
  auto storage = LiveStorage::bind(trainer.reader.common(), trainer.program,
                                   trainer.tensors);
  ASSERT_FALSE(storage.ok());
  expectContains(storage.status().message(), "share a storage");
}

TEST(LiveStorage, MakesTheDestinationOfOtherPlansAtOnce) {
  for (MemoryMode mode : {MemoryMode::Rollback, MemoryMode::Flat}) {
    Trainer trainer(reshapePlan(mode), 2, /*shared=*/false);
    auto storage = LiveStorage::bind(trainer.reader.common(), trainer.program,
                                     trainer.tensors);
    ASSERT_TRUE(storage.ok()) << storage.status().message();
    uint64_t both =
        bytesOn(trainer, Side::Source) + bytesOn(trainer, Side::Destination);
    EXPECT_EQ(trainer.all, both);
    EXPECT_EQ(trainer.run(**storage), both);
    EXPECT_EQ(trainer.all, both);
  }
}

TEST(LiveStorage, ComesAndGoesByPageWhereMemoryHasPages) {
  for (bool shared : {false, true}) {
    Trainer trainer(reshapePlan(MemoryMode::Flat), 2, shared, UINT64_MAX,
                    /*pages=*/true);
    auto storage = LiveStorage::bind(trainer.reader.common(), trainer.program,
                                     trainer.tensors);
    ASSERT_TRUE(storage.ok()) << storage.status().message();
    EXPECT_TRUE((*storage)->givesBack());
    EXPECT_EQ(trainer.all, bytesOn(trainer, Side::Source));
    uint64_t peak = peakOf(trainer.program, **storage);
    ASSERT_TRUE((*storage)->clear().ok());
    EXPECT_EQ(trainer.run(**storage), peak);
    EXPECT_LE(peak, (*storage)->peakLiveBytes());
    EXPECT_EQ(trainer.all, bytesOn(trainer, Side::Destination));
  }
}

TEST(LiveStorage, MakesSureOfAllPagesBeforeAnyGoes) {
  for (bool shared : {false, true})
    for (bool byTensor : {false, true}) {
      SCOPED_TRACE(shared);
      SCOPED_TRACE(byTensor);
      Trainer trainer(byTensor ? planByTensor(shared)
                               : reshapePlan(MemoryMode::Flat),
                      2, shared, UINT64_MAX, /*pages=*/true);
      FakePool pool;
      for (FakeMemory &memory : trainer.memories)
        memory.moveTo(pool);
      auto storage = LiveStorage::bind(trainer.reader.common(), trainer.program,
                                       trainer.tensors);
      ASSERT_TRUE(storage.ok()) << storage.status().message();
      uint64_t before = pool.used;
      ASSERT_TRUE((*storage)->makeSure().ok());
      EXPECT_EQ(pool.used, before);
      EXPECT_GT(pool.there, before);
      pool.limit = 0; // from now on it makes none
      uint64_t most = trainer.run(**storage);
      EXPECT_EQ(most, pool.there);
    }
}

TEST(LiveStorage, SaysWhichPagesThereAreNotBeforeAnyGoes) {
  Trainer trainer(reshapePlan(MemoryMode::Flat), 2, /*shared=*/false,
                  UINT64_MAX, /*pages=*/true);
  FakePool pool;
  for (FakeMemory &memory : trainer.memories)
    memory.moveTo(pool);
  auto storage = LiveStorage::bind(trainer.reader.common(), trainer.program,
                                   trainer.tensors);
  ASSERT_TRUE(storage.ok()) << storage.status().message();
  uint64_t before = pool.used;
  ASSERT_TRUE((*storage)->makeSure().ok());
  uint64_t needs = pool.there - before;
  pool.limit = pool.there - 1;
  EXPECT_EQ((*storage)->makeSure().message(),
            "no " + std::to_string(needs) + " pages more");
  EXPECT_EQ(pool.used, before);
  EXPECT_EQ(trainer.all, bytesOn(trainer, Side::Source));
}

// What has been made for the destination is given back before the program.
TEST(LiveStorage, CountsWhatIsClearedBeforeTheProgram) {
  Trainer trainer(reshapePlan(MemoryMode::Flat), 2, /*shared=*/false,
                  UINT64_MAX, /*pages=*/true);
  for (TensorBinding &tensor : trainer.tensors)
    if (tensor.side == Side::Destination)
      tensor.data = *tensor.memory->create(0, tensor.bytes);
  FakePool pool;
  for (FakeMemory &memory : trainer.memories)
    memory.moveTo(pool);
  auto storage = LiveStorage::bind(trainer.reader.common(), trainer.program,
                                   trainer.tensors);
  ASSERT_TRUE(storage.ok()) << storage.status().message();
  uint64_t both = pool.used;
  ASSERT_TRUE((*storage)->makeSure().ok());
  EXPECT_EQ(pool.there, both);
  ASSERT_TRUE((*storage)->clear().ok());
  EXPECT_EQ(pool.used, bytesOn(trainer, Side::Source));
  trainer.run(**storage);
  EXPECT_EQ(pool.used, bytesOn(trainer, Side::Destination));
}

TEST(LiveStorage, LeavesTensorsThatAreTheirOwnDestination) {
  for (bool byTensor : {false, true}) {
    SCOPED_TRACE(byTensor ? "by tensor" : "by page");
    TestPlan plan = byTensor ? planByTensor(/*shared=*/false)
                             : reshapePlan(MemoryMode::Flat);
    unsigned found = 0;
    for (uint32_t device : plan.devices()) {
      Trainer trainer(plan, device, /*shared=*/false, UINT64_MAX,
                      /*pages=*/!byTensor);
      found += trainer.giveInPlace();
      auto storage = LiveStorage::bind(trainer.reader.common(), trainer.program,
                                       trainer.tensors);
      ASSERT_TRUE(storage.ok()) << storage.status().message();
      ASSERT_TRUE((*storage)->clear().ok());
      trainer.run(**storage);
      EXPECT_EQ(trainer.all, bytesOn(trainer, Side::Destination));
      for (const TensorBinding *twin : trainer.twins)
        EXPECT_TRUE(static_cast<FakeMemory *>(twin->memory)->exists());
    }
    EXPECT_GT(found, 0u);
  }
}

TEST(LiveStorage, HandsOverTheMemoryOfWhatStays) {
  for (bool pages : {true, false}) {
    SCOPED_TRACE(pages ? "by page" : "by tensor");
    TestPlan plan = keptSquare();
    if (!pages)
      plan.common.summary.granularity = Granularity::Tensor;
    Trainer trainer(plan, 0, /*shared=*/false, UINT64_MAX, pages);
    std::map<std::string, void *> before;
    for (const TensorBinding &tensor : trainer.tensors)
      if (tensor.side == Side::Source)
        before[tensor.state] = tensor.data;
    auto storage = LiveStorage::bind(trainer.reader.common(), trainer.program,
                                     trainer.tensors);
    ASSERT_TRUE(storage.ok()) << storage.status().message();
    EXPECT_TRUE((*storage)->givesBack());
    EXPECT_EQ(trainer.all, bytesOn(trainer, Side::Source));
    ASSERT_TRUE((*storage)->clear().ok());
    uint64_t most = trainer.run(**storage);
    EXPECT_EQ(most, (*storage)->peakLiveBytes());
    EXPECT_EQ(trainer.all, bytesOn(trainer, Side::Destination));
    for (const TensorBinding &tensor : trainer.tensors)
      EXPECT_EQ(static_cast<FakeMemory *>(tensor.memory)->exists(),
                tensor.side == Side::Destination);
    EXPECT_EQ((*storage)->data(Side::Destination, 0, 0, 0), before["param"]);
    EXPECT_EQ((*storage)->data(Side::Destination, 0, 1, 0), before["master"]);
  }
}

// The shard changes, and two layers of it on each device do not.
TEST(LiveStorage, HandsOverLayersThatADeviceKeeps) {
  TestPlan plan = movedStages();
  for (uint32_t device : plan.devices()) {
    Trainer trainer(plan, device, /*shared=*/false, UINT64_MAX, /*pages=*/true);
    std::map<std::pair<std::string, std::string>, void *> before;
    for (const TensorBinding &tensor : trainer.tensors)
      if (tensor.side == Side::Source)
        before[{tensor.tensor, tensor.state}] = tensor.data;
    auto storage = LiveStorage::bind(trainer.reader.common(), trainer.program,
                                     trainer.tensors);
    ASSERT_TRUE(storage.ok()) << storage.status().message();
    ASSERT_TRUE((*storage)->clear().ok());
    uint64_t peak = peakOf(trainer.program, **storage);
    EXPECT_EQ(trainer.run(**storage), peak);
    EXPECT_LT(peak, (*storage)->peakLiveBytes());
    EXPECT_EQ(trainer.all, bytesOn(trainer, Side::Destination));
    unsigned kept = 0;
    for (const ExpectedTensor &tensor : expectedTensors(**storage)) {
      if (tensor.side == Side::Source || !tensor.inPlace)
        continue;
      EXPECT_EQ((*storage)->data(tensor.side, tensor.shard, tensor.stateIndex,
                                 tensor.member),
                before.at({tensor.tensor, tensor.state}));
      ++kept;
    }
    EXPECT_EQ(kept, 4u); // two layers in two states, and nothing else
    EXPECT_EQ(handedOver(**storage).size(), 2 * kept);
    for (const TensorBinding &tensor : trainer.tensors)
      EXPECT_EQ(static_cast<FakeMemory *>(tensor.memory)->exists(),
                tensor.side == Side::Destination);
  }
}

// Memory that cannot go by page stays the source's.
TEST(LiveStorage, CopiesWhatItCannotHandOver) {
  Trainer trainer(keptSquare(), 0, /*shared=*/false);
  auto storage = LiveStorage::bind(trainer.reader.common(), trainer.program,
                                   trainer.tensors);
  ASSERT_TRUE(storage.ok()) << storage.status().message();
  EXPECT_FALSE((*storage)->givesBack());
  EXPECT_NE((*storage)->data(Side::Destination, 0, 0, 0),
            (*storage)->data(Side::Source, 0, 0, 0));
  EXPECT_EQ(trainer.all, bytesOn(trainer, Side::Source) +
                             bytesOn(trainer, Side::Destination));
}

TEST(LiveStorage, MakesNothingWhereNotAllFits) {
  Trainer roomy(reshapePlan(MemoryMode::Rollback), 2, /*shared=*/false);
  uint64_t source = bytesOn(roomy, Side::Source);
  Trainer trainer(reshapePlan(MemoryMode::Rollback), 2, /*shared=*/false,
                  source + bytesOn(roomy, Side::Destination) - 1);
  auto storage = LiveStorage::bind(trainer.reader.common(), trainer.program,
                                   trainer.tensors);
  ASSERT_FALSE(storage.ok());
  expectContains(storage.status().message(),
                 "no memory for the destination beside the source");
  EXPECT_EQ(trainer.all, source);
}
