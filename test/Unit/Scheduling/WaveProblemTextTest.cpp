//===- WaveProblemTextTest.cpp - Wave problems as text --------------------===//

#include "dt/Scheduling/WaveProblemText.h"
#include "ChangedText.h"
#include "RandomStorage.h"
#include "SolvedWaves.h"

using namespace dt;
using namespace dt::testing;

namespace {

const char *const kText = R"({
  "problem": "waves", // Two devices swap what they hold, page by page.
  "cluster": {"devices_per_node": 2, "intra_node_GBps": 200,
              "inter_node_GBps": 25, "latency_us": 10},
  "staging_bytes": 4096,
  "element_bytes": [4],
  "moves": [{"flow": 0, "from": 0, "to": 1, "box": [[0, 4]]},
            {"flow": 0, "hop": 1, "from": 1, "to": 0, "box": [[4, 8]]}],
  "copies": [{"flow": 0, "device": 3, "box": [[0, 8]]}],
  "storage": {"page_bytes": 64, "limit_bytes": 1024, "flows": [
    {"leading": 0, "reads_from": 0, "source_states": [[4, 1]],
     "destination_states": [[2, 2]],
     "source": [{"devices": [0, 3], "dims": [[[0, 4], [6, 8]]],
                 "range": [1, 5]}],
     "destination": []}]}
})";

void expectRefused(const std::string &from, const std::string &to,
                   const std::string &expected) {
  expectUnread(readWaveProblem, replaced(kText, from, to), expected);
}

} // namespace

TEST(WaveProblemText, IsReadWithComments) {
  std::string error;
  auto p = readWaveProblem(kText, error);
  ASSERT_TRUE(p) << error;
  ASSERT_EQ(p->moves.size(), 2u);
  EXPECT_EQ(p->moves[0].hop, 0u);
  EXPECT_EQ(p->moves[1].hop, 1u);
  EXPECT_EQ(p->moves[1].source, 1);
  EXPECT_EQ(toString(p->moves[1].box), "[4:8)");
  ASSERT_EQ(p->copies.size(), 1u);
  EXPECT_EQ(p->copies[0].device, 3);
  ASSERT_TRUE(p->storage);
  EXPECT_EQ(p->storage->limitBytes, 1024);
  EXPECT_EQ(p->storage->flows[0].destination[0].count, 2);
  const Shard &shard = p->storage->source[0][0].shard;
  EXPECT_EQ(shard.elementsPerMember(), 4);
  EXPECT_EQ(shard.dims[0][1], (Interval{6, 8}));
}

TEST(WaveProblemText, ReadsBackWhatItWrote) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 100; ++trial) {
    WaveProblem p = randomStorageProblem(random);
    p.cluster.latencyUs = double(random()) / 3;
    if (random() % 2)
      p.copies.clear();
    for (FlatFlow &flow : p.storage->flows)
      for (FlatStates &states : flow.source)
        states.storage = states.count == 1 ? int64_t(random() % 3) - 1 : -1;
    for (FlatFlow &flow : p.storage->flows)
      for (int64_t device = random() % 3; device < 5; ++device)
        flow.staying.push_back(device);
    if (random() % 2)
      p.storage.reset();
    if (random() % 2)
      p.cluster.links = {{{true, 0}, {false, 3}, double(random() + 1) / 3}};
    std::string text = toText(p), error;
    auto again = readWaveProblem(text, error);
    ASSERT_TRUE(again) << error;
    EXPECT_EQ(toText(*again), text);
    EXPECT_EQ(again->lowerBound(), p.lowerBound());
    EXPECT_EQ(again->check(), p.check());
  }
}

TEST(WaveProblemText, NamesWhatItDoesNotExpect) {
  expectRefused("\"hop\": 1", "\"hops\": 1",
                "unknown key 'hops' in moves[1], expected flow, hop, from, to, "
                "box");
  expectRefused("\"device\": 3", "\"device\": true",
                "copies[0].device must be an integer, not true");
  expectRefused("[[4, 1]]", "[[4]]",
                "storage.flows[0].source_states[0] must be [BYTES, COUNT] or, "
                "of one state, [BYTES, 1, STORAGE], not [4]");
  expectRefused("[[4, 1]]", "[[4, 2, 0]]",
                "storage.flows[0].source_states[0] must be [BYTES, COUNT] or, "
                "of one state, [BYTES, 1, STORAGE], not [4,2,0]");
  expectRefused("[1, 5]", "[1]",
                "storage.flows[0].source[0].range must be [LO, HI], not [1]");
  expectRefused("\"reads_from\": 0, ", "",
                "storage.flows[0].reads_from must be an integer, not missing");
  expectRefused("\"waves\"", "\"routing\"",
                "problem must be \"waves\", not \"routing\"");
}
