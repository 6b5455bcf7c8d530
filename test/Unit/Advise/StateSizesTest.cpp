//===- StateSizesTest.cpp - Bytes against the request reader's shards -----===//
//
// The request reader and lib/Geometry say, tensor by tensor and device by
// device, which boxes lie where. Sizes and moved bytes are counted from these
// boxes and compared.
//
//===----------------------------------------------------------------------===//

#include "JobTesting.h"

#include "dt/Advise/StateSizes.h"
#include "dt/Megatron/OptimizerShards.h"
#include "dt/Request/Request.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

using namespace dt;
using namespace dt::advise;

namespace {

/// What one device holds of one tensor and state.
struct Held {
  int64_t bytes = 0; // padding included
  std::vector<Box> boxes;
};

using Holdings = std::map<std::tuple<uint32_t, std::string, int64_t>, Held>;

int64_t widthOf(const TensorDecl &tensor, const std::string &state) {
  for (const StateDecl &one : tensor.states)
    if (one.name == state)
      return byteWidth(*one.source);
  return 0;
}

std::vector<std::string> statesOf(const TensorDecl &tensor,
                                  const PlaceDecl &place) {
  if (!place.states.empty())
    return place.states;
  std::vector<std::string> names;
  for (const StateDecl &state : tensor.states)
    names.push_back(state.name);
  return names;
}

/// Model chunks are stages beyond the pipeline axis.
Placement withChunks(const PlaceDecl &place, const Mesh &mesh) {
  Placement out = place.placement;
  for (AxisRestriction &at : out.at)
    for (size_t i = 0; at.axis == "pp" && i < at.coordinates.size(); ++i)
      if (!place.chunks.empty())
        at.coordinates[i] += place.chunks[i] * mesh.axisSize("pp");
  return out;
}

class Expanded {
public:
  Expanded(const Request &request, const LayoutDecl &layout)
      : request(request), layout(layout) {
    std::vector<BucketedParam> params;
    std::vector<const PlaceDecl *> places;
    for (const PlaceDecl &place : layout.places) {
      const Mesh &mesh = layout.meshes[place.mesh].mesh;
      const TensorDecl &tensor = request.tensors[place.tensor];
      if (place.bucketed) {
        params.push_back({tensor.shape,
                          0,
                          withChunks(place, mesh),
                          &mesh,
                          layout.zero->axes[place.mesh],
                          place.tensor,
                          {},
                          place.ownBucket,
                          place.mesh});
        places.push_back(&place);
        continue;
      }
      std::string error;
      auto found = evaluate(place.placement, mesh, tensor.shape, 0, error);
      EXPECT_TRUE(found) << error;
      add(place, *found);
    }
    if (params.empty())
      return;
    size_t culprit = 0;
    std::string error;
    auto found =
        evaluateBucketed(params, layout.zero->bucketSize, culprit, error);
    EXPECT_TRUE(found) << error;
    for (size_t i = 0; i < places.size(); ++i)
      add(*places[i], (*found)[i]);
  }

  Holdings holdings;

private:
  void add(const PlaceDecl &place, const std::vector<Holding> &found) {
    const TensorDecl &tensor = request.tensors[place.tensor];
    for (const Holding &holding : found)
      for (int64_t device : holding.devices)
        for (const std::string &state : statesOf(tensor, place)) {
          Held &held = holdings[{place.tensor, state, device}];
          held.bytes +=
              holding.shard.elementsPerMember() * widthOf(tensor, state);
          appendRegions(holding.shard, tensor.shape, held.boxes);
        }
  }

  const Request &request;
  const LayoutDecl &layout;
};

int64_t volume(const std::vector<Box> &boxes) {
  int64_t sum = 0;
  for (const Box &box : boxes)
    sum += box.volume();
  return sum;
}

int64_t shared(const std::vector<Box> &a, const std::vector<Box> &b) {
  int64_t sum = 0;
  for (const Box &x : a)
    for (const Box &y : b)
      if (overlaps(x, y))
        sum += intersect(x, y).volume();
  return sum;
}

template <class T> T pick(std::mt19937 &random, std::initializer_list<T> from) {
  return *(from.begin() + random() % from.size());
}

/// Sizes of a world of at most 32 that fit the model; tried until they do.
Text randomLayout(std::mt19937 &random, const ModelShape &model) {
  for (;;) {
    Sizes s;
    s.tp = pick<int64_t>(random, {1, 1, 2, 4});
    s.cp = pick<int64_t>(random, {1, 1, 2});
    s.pp = pick<int64_t>(random, {1, 2, 3, 4});
    s.dp = pick<int64_t>(random, {1, 2, 3, 4});
    s.fsdp = pick<int64_t>(random, {1, 1, 1, 2, 3});
    s.world = s.tp * s.cp * s.pp * s.dp * s.fsdp;
    s.zero = s.fsdp == 1 && random() % 2;
    s.vpp = s.pp > 1 && random() % 4 == 0 ? 2 : 1;
    s.ep = model.experts ? pick<int64_t>(random, {1, 2, 4}) : 1;
    s.etp = model.experts ? pick<int64_t>(random, {1, s.tp}) : s.tp;
    std::string error;
    if (s.world > 32 || !fitsModel(model, s, 128, error))
      continue;
    std::vector<int64_t> blocks(s.pp * s.vpp, 0);
    for (int64_t l = 0; l < model.layers; ++l)
      ++blocks[random() % blocks.size()];
    std::vector<int64_t> devices(36);
    std::iota(devices.begin(), devices.end(), 0);
    if (random() % 2)
      std::shuffle(devices.begin(), devices.end(), random);
    devices.resize(s.world);
    Text out = {
        {"world", s.world}, {"tp", s.tp},          {"cp", s.cp},
        {"pp", s.pp},       {"dp", s.dp},          {"fsdp", s.fsdp},
        {"vpp", s.vpp},     {"ep", s.ep},          {"etp", s.etp},
        {"zero", s.zero},   {"pp_layers", blocks}, {"devices", devices}};
    if (random() % 2)
      out["bucket_size"] = pick<int64_t>(random, {2000, 20000, 100000});
    return out;
  }
}

const char *const kModels[] = {"llama-tiny", "qwen3-moe-tiny", "deepseek-tiny",
                               "gpt2-tiny"};

struct Case {
  explicit Case(uint32_t seed) {
    std::mt19937 random(seed);
    Text text = jobOf(kModels[seed % 4], 36);
    ModelShape model = mustRead(text).model;
    Text before = randomLayout(random, model),
         after = randomLayout(random, model);
    text["layout"] = after;
    destination = mustRead(text).today;
    text["layout"] = before;
    job = mustRead(text);
    Text wanted = {{"model", text["model"]},
                   {"state", text["state"]},
                   {"source", before},
                   {"destination", after}};
    std::string error;
    auto read = readRequest(wanted.dump(), DT_SOURCE_DIR "/examples", error);
    EXPECT_TRUE(read) << error << wanted.dump();
    request = *read;
  }

  Job job;
  Sizes destination;
  Request request;
};

TEST(StateSizes, AreThoseOfTheReadersShards) {
  for (uint32_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    Case one(seed);
    Holdings held = Expanded(one.request, one.request.source).holdings;
    std::map<int64_t, int64_t> bytes;
    for (const auto &[key, value] : held)
      bytes[std::get<2>(key)] += value.bytes;
    std::vector<RankBytes> ranks =
        rankBytes(one.job.model, one.job.today, one.job.vocabMultiple);
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      EXPECT_EQ(ranks[rank].state, bytes[one.job.today.devices[rank]])
          << "rank " << rank;
    std::vector<RankBytes> stages =
        stageBytes(one.job.model, one.job.today, one.job.vocabMultiple);
    int64_t perStage = one.job.today.world / one.job.today.pp;
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      RankBytes most;
      for (int64_t i = 0; i < perStage; ++i) {
        const RankBytes &rank = ranks[stage * perStage + i];
        most.state = std::max(most.state, rank.state);
        most.parameters = std::max(most.parameters, rank.parameters);
        most.stepped = std::max(most.stepped, rank.stepped);
      }
      EXPECT_EQ(stages[stage].state, most.state);
      EXPECT_EQ(stages[stage].parameters, most.parameters);
      EXPECT_EQ(stages[stage].stepped, most.stepped);
    }
  }
}

TEST(StateSizes, ArrivalsAreWhatDevicesLack) {
  for (uint32_t seed = 1000; seed < 1080; ++seed) {
    SCOPED_TRACE(seed);
    Case one(seed);
    Holdings before = Expanded(one.request, one.request.source).holdings;
    Holdings after = Expanded(one.request, one.request.destination).holdings;
    std::map<int64_t, int64_t> lacking;
    for (const auto &[key, held] : after) {
      const auto &[tensor, state, device] = key;
      int64_t missing = volume(held.boxes);
      auto it = before.find(key);
      if (it != before.end())
        missing -= shared(held.boxes, it->second.boxes);
      lacking[device] += missing * widthOf(one.request.tensors[tensor], state);
    }
    Arrivals found = arrivals(one.job, one.job.today, one.destination);
    int64_t sum = 0;
    for (const DeviceArrival &device : found.devices) {
      EXPECT_EQ(device.bytes, lacking[device.device])
          << "device " << device.device;
      EXPECT_LE(device.betweenNodes, device.bytes);
      sum += device.bytes;
    }
    EXPECT_EQ(found.bytes, sum);
  }
}

TEST(StateSizes, LostBytesAreWhatNobodyElseHolds) {
  for (uint32_t seed = 2000; seed < 2060; ++seed) {
    SCOPED_TRACE(seed);
    Case one(seed);
    std::mt19937 random(seed);
    for (int64_t device = 0; device < 36; ++device)
      one.job.cluster.devices[device].isLost = random() % 3 == 0;
    Holdings held = Expanded(one.request, one.request.source).holdings;
    // What no box of a device that is left covers.
    std::map<std::pair<uint32_t, std::string>, std::vector<Box>> lacking;
    for (uint32_t t = 0; t < one.request.tensors.size(); ++t)
      for (const StateDecl &state : one.request.tensors[t].states)
        lacking[{t, state.name}] = {Box::whole(one.request.tensors[t].shape)};
    for (const auto &[key, value] : held) {
      const auto &[tensor, state, device] = key;
      if (one.job.cluster.devices[device].isLost)
        continue;
      std::vector<Box> &open = lacking[{tensor, state}];
      for (const Box &box : value.boxes) {
        std::vector<Box> rest;
        for (const Box &hole : open)
          subtract(hole, box, rest);
        open = std::move(rest);
      }
    }
    int64_t lost = 0;
    for (const auto &[key, boxes] : lacking)
      lost +=
          volume(boxes) * widthOf(one.request.tensors[key.first], key.second);
    EXPECT_EQ(lostBytes(one.job, one.job.today), lost);
  }
}

} // namespace
