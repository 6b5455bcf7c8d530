//===- FlatOrder.cpp - Blocks of tensors and what they do to memory -------===//

#include "dt/Routing/FlatOrder.h"

#include "FlatSequence.h"
#include "dt/Geometry/Painted.h"

#include <tuple>

using namespace dt;

namespace {

/// A piece of a tensor that travels or is copied, without the leading dims: as
/// all tensors of a cohort have it.
struct Shape {
  uint32_t flow, hop;
  int64_t from, to;
  bool local;
  int64_t sourceShard, destinationShard; // number on the device; -1: none
  Box inner;

  auto key() const {
    return std::tie(flow, hop, from, to, local, sourceShard, destinationShard,
                    inner);
  }
  friend bool operator<(const Shape &a, const Shape &b) {
    return a.key() < b.key();
  }
};

/// One inner dim of a tensor, cut where either side is cut. Every cell between
/// two cuts is divided into `parts` of equal share; part p of all cells
/// together is one step along the dim.
struct DimSteps {
  std::vector<int64_t> cuts;
  int64_t parts = 1;

  int64_t largestCell() const {
    int64_t largest = 1;
    for (size_t i = 1; i < cuts.size(); ++i)
      largest = std::max(largest, cuts[i] - cuts[i - 1]);
    return largest;
  }
  /// What a step holds of an interval; neighbours joined.
  std::vector<Interval> partsOf(Interval whole, int64_t part) const {
    std::vector<Interval> out;
    for (size_t i = 1; i < cuts.size(); ++i) {
      int64_t lo = cuts[i - 1], size = cuts[i] - lo;
      Interval cell = intersect(
          whole, {lo + size * part / parts, lo + size * (part + 1) / parts});
      if (cell.empty())
        continue;
      if (!out.empty() && out.back().hi == cell.lo)
        out.back().hi = cell.hi;
      else
        out.push_back(cell);
    }
    return out;
  }
};

/// How the tensors of a cohort are cut into blocks: the outer inner dims into
/// steps of at most one index per cell, the last of `dims` into larger ones.
struct Blocking {
  std::vector<DimSteps> dims;

  int64_t blocks() const {
    int64_t count = 1;
    for (const DimSteps &dim : dims)
      count *= dim.parts;
    return count;
  }
};

/// Calls fn(box) for the parts of an inner box that a block holds.
template <typename Fn>
void forEachPart(const Blocking &blocking, const Box &inner, int64_t block,
                 Fn fn) {
  std::vector<Box> boxes = {inner};
  for (size_t d = blocking.dims.size(); d-- > 0;) {
    const DimSteps &dim = blocking.dims[d];
    std::vector<Box> next;
    for (Interval part : dim.partsOf(inner[d], block % dim.parts))
      for (const Box &box : boxes) {
        next.push_back(box);
        next.back()[d] = part;
      }
    block /= dim.parts;
    boxes = std::move(next);
  }
  for (const Box &box : boxes)
    fn(box);
}

/// Tensors of one param that are moved alike.
struct Cohort {
  std::vector<uint32_t> shapes;
  std::vector<int64_t> members; // row-major numbers of the leading dims
  std::vector<int64_t> leading; // extents of these
  Blocking blocking;

  std::vector<int64_t> indexOf(int64_t member) const {
    std::vector<int64_t> index(leading.size());
    for (size_t d = leading.size(); d-- > 0;) {
      index[d] = member % leading[d];
      member /= leading[d];
    }
    return index;
  }
};

class Orderer {
public:
  Orderer(const FlatInput &input, int64_t jobBytes)
      : input(input), jobBytes(jobBytes) {}
  FlatOrder run();

private:
  struct Touch {
    int64_t block;
    Interval elements;
  };
  /// (device, is destination, shard, flow whose widths count)
  using Buffer = std::tuple<int64_t, bool, int64_t, uint32_t>;

  uint32_t shapeOf(const Move &move, bool local);
  void addPieces(uint32_t storage);
  void addCohorts(const std::vector<int64_t> &leading,
                  std::vector<std::pair<int64_t, uint32_t>> &pieces);
  Box whole(const Cohort &cohort, const Box &inner) const;
  const Shard &shardOf(const Shape &shape, bool destination) const;
  int64_t rowBytes(const Cohort &cohort, unsigned dim) const;
  void block(Cohort &cohort);
  std::vector<JobEffects> effectsOf(const Cohort &cohort) const;
  void addJobs(uint32_t cohort);
  void emit(const FlatJob &job, uint32_t number, FlatOrder &out) const;

  const FlatInput &input;
  int64_t jobBytes;
  std::vector<std::vector<uint32_t>> movesOf, localsOf; // by storage
  std::map<Shape, uint32_t> known;
  std::vector<Shape> shapes;
  std::vector<Cohort> cohorts;
  std::vector<CohortJobs> jobs;
};

uint32_t Orderer::shapeOf(const Move &move, bool local) {
  const FlatFlow &flow = input.flows[move.flow];
  auto source = input.source.find(flow.readsFrom, move.source, move.box);
  auto destination =
      input.destination.find(move.flow, move.destination, move.box);
  Shape shape = {move.flow,
                 move.hop,
                 move.source,
                 move.destination,
                 local,
                 source ? int64_t(source->shard) : -1,
                 destination ? int64_t(destination->shard) : -1,
                 Box(move.box.rank() - flow.numLeading)};
  for (unsigned d = 0; d < shape.inner.rank(); ++d)
    shape.inner[d] = move.box[flow.numLeading + d];
  auto [it, isNew] = known.try_emplace(shape, shapes.size());
  if (isNew)
    shapes.push_back(shape);
  return it->second;
}

/// All pieces that read the storage of one flow, tensor by tensor.
void Orderer::addPieces(uint32_t storage) {
  unsigned numLeading = input.flows[storage].numLeading;
  std::vector<int64_t> leading(numLeading, 1);
  std::vector<std::pair<const Box *, uint32_t>> boxes;
  auto add = [&](const Move &move, const Box &box, bool local) {
    boxes.push_back({&box, shapeOf(move, local)});
    for (unsigned d = 0; d < numLeading; ++d)
      leading[d] = std::max(leading[d], box[d].hi);
  };
  for (uint32_t i : movesOf[storage])
    add(input.moves[i], input.moves[i].box, /*local=*/false);
  for (uint32_t i : localsOf[storage]) {
    const LocalMove &local = input.locals[i];
    add({local.flow, 0, local.device, local.device, local.box}, local.box,
        /*local=*/true);
  }
  std::vector<std::pair<int64_t, uint32_t>> pieces; // member, shape
  for (auto [box, shape] : boxes) {
    std::vector<int64_t> members = {0};
    for (unsigned d = 0; d < numLeading; ++d) {
      std::vector<int64_t> next;
      for (int64_t member : members)
        for (int64_t i = (*box)[d].lo; i < (*box)[d].hi; ++i)
          next.push_back(member * leading[d] + i);
      members = std::move(next);
    }
    for (int64_t member : members)
      pieces.push_back({member, shape});
  }
  addCohorts(leading, pieces);
}

void Orderer::addCohorts(const std::vector<int64_t> &leading,
                         std::vector<std::pair<int64_t, uint32_t>> &pieces) {
  std::sort(pieces.begin(), pieces.end());
  std::map<std::vector<uint32_t>, uint32_t> byShapes;
  for (size_t first = 0, last = 0; first < pieces.size(); first = last) {
    std::vector<uint32_t> own;
    for (; last < pieces.size() && pieces[last].first == pieces[first].first;
         ++last)
      own.push_back(pieces[last].second);
    auto [it, isNew] = byShapes.try_emplace(own, cohorts.size());
    if (isNew)
      cohorts.push_back({own, {}, leading, {}});
    cohorts[it->second].members.push_back(pieces[first].first);
  }
}

/// The box of the cohort's first tensor.
Box Orderer::whole(const Cohort &cohort, const Box &inner) const {
  std::vector<int64_t> index = cohort.indexOf(cohort.members.front());
  Box box(index.size() + inner.rank());
  for (size_t d = 0; d < index.size(); ++d)
    box[d] = {index[d], index[d] + 1};
  for (unsigned d = 0; d < inner.rank(); ++d)
    box[index.size() + d] = inner[d];
  return box;
}

const Shard &Orderer::shardOf(const Shape &shape, bool destination) const {
  return destination
             ? *input.destination.shardsOf(shape.to)[shape.destinationShard]
                    .shard
             : *input.source.shardsOf(shape.from)[shape.sourceShard].shard;
}

int64_t bytesOf(const std::vector<FlatStates> &states) {
  int64_t bytes = 0;
  for (const FlatStates &group : states)
    bytes += group.width * group.count;
  return bytes;
}

/// Most bytes that one index of an inner dim has on any device.
int64_t Orderer::rowBytes(const Cohort &cohort, unsigned dim) const {
  int64_t most = 0;
  for (uint32_t number : cohort.shapes) {
    const Shape &shape = shapes[number];
    const FlatFlow &flow = input.flows[shape.flow];
    for (bool destination : {false, true}) {
      if ((destination ? shape.destinationShard : shape.sourceShard) < 0)
        continue;
      std::vector<int64_t> extents = shardOf(shape, destination).localShape();
      int64_t bytes = bytesOf(destination ? flow.destination
                                          : input.flows[flow.readsFrom].source);
      for (size_t d = flow.numLeading + dim + 1; d < extents.size(); ++d)
        bytes *= extents[d];
      most = std::max(most, bytes);
    }
  }
  return most;
}

/// Cuts the outermost dim, and further ones where its rows are too large.
void Orderer::block(Cohort &cohort) {
  std::vector<DimSteps> &dims = cohort.blocking.dims;
  unsigned rank = shapes[cohort.shapes.front()].inner.rank();
  while (dims.size() < rank) {
    auto d = unsigned(dims.size());
    std::vector<int64_t> &cuts = dims.emplace_back().cuts;
    for (uint32_t number : cohort.shapes) {
      cuts.push_back(shapes[number].inner[d].lo);
      cuts.push_back(shapes[number].inner[d].hi);
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    if (d + 1 == rank || rowBytes(cohort, d) <= jobBytes)
      break;
    dims.back().parts = dims.back().largestCell();
  }
  if (dims.empty())
    return;
  int64_t most = 0;
  for (const JobEffects &effects : effectsOf(cohort))
    for (const JobEffect &effect : effects)
      most = std::max({most, effect.created, effect.freed});
  dims.back().parts = std::clamp<int64_t>((most + jobBytes - 1) / jobBytes, 1,
                                          dims.back().largestCell());
}

/// What each block of one tensor creates and frees, by devices.
std::vector<JobEffects> Orderer::effectsOf(const Cohort &cohort) const {
  int64_t blocks = cohort.blocking.blocks();
  std::map<Buffer, std::vector<Touch>> touches;
  for (uint32_t number : cohort.shapes) {
    const Shape &shape = shapes[number];
    uint32_t readsFrom = input.flows[shape.flow].readsFrom;
    for (bool destination : {false, true}) {
      int64_t shard = destination ? shape.destinationShard : shape.sourceShard;
      if (shard < 0)
        continue;
      auto &own = touches[{destination ? shape.to : shape.from, destination,
                           shard, destination ? shape.flow : readsFrom}];
      for (int64_t block = 0; block < blocks; ++block)
        forEachPart(cohort.blocking, shape.inner, block, [&](const Box &part) {
          auto view =
              localView(shardOf(shape, destination), whole(cohort, part));
          int64_t last = view->offset;
          for (size_t d = 0; d < view->sizes.size(); ++d)
            last += (view->sizes[d] - 1) * view->strides[d];
          own.push_back({block, {view->offset, last + 1}});
        });
    }
  }
  std::vector<std::map<int64_t, JobEffect>> byDevice(blocks);
  for (auto &[buffer, list] : touches) {
    auto [device, destination, shard, flow] = buffer;
    std::stable_sort(
        list.begin(), list.end(),
        [](const Touch &a, const Touch &b) { return a.block < b.block; });
    if (!destination)
      std::reverse(list.begin(), list.end());
    const ShardIndex &index = destination ? input.destination : input.source;
    int64_t end = index.shardsOf(device)[shard].shard->elementsPerMember();
    const FlatFlow &widths = input.flows[flow];
    for (const FlatStates &states :
         destination ? widths.destination : widths.source) {
      Painted painted;
      int64_t page = std::max<int64_t>(1, input.pageBytes / states.width);
      for (const Touch &touch : list) {
        JobEffect &effect = byDevice[touch.block][device];
        painted.add(wholePages(touch.elements, page, end), [&](Interval part) {
          (destination ? effect.created : effect.freed) +=
              part.size() * states.width * states.count;
        });
      }
    }
  }
  std::vector<JobEffects> out(blocks);
  for (int64_t block = 0; block < blocks; ++block)
    for (auto &[device, effect] : byDevice[block]) {
      effect.device = device;
      out[block].push_back(effect);
    }
  return out;
}

/// Small tensors share a job, large ones have several.
void Orderer::addJobs(uint32_t number) {
  Cohort &cohort = cohorts[number];
  block(cohort);
  CohortJobs &own = jobs.emplace_back();
  own.effects = effectsOf(cohort);
  own.members = cohort.members.size();
  if (cohort.blocking.blocks() > 1)
    return;
  int64_t most = 1;
  for (const JobEffect &effect : own.effects.front())
    most = std::max({most, effect.created, effect.freed});
  own.together = std::clamp<int64_t>(jobBytes / most, 1, own.members);
}

/// Writes the pieces of a job; tensors whose last index counts up share one.
void Orderer::emit(const FlatJob &job, uint32_t number, FlatOrder &out) const {
  const Cohort &cohort = cohorts[job.cohort];
  for (uint32_t id : cohort.shapes) {
    const Shape &shape = shapes[id];
    for (int64_t first = job.firstMember, last = first;
         first < job.firstMember + job.numMembers; first = last) {
      std::vector<int64_t> index = cohort.indexOf(cohort.members[first]);
      for (last = first + 1; last < job.firstMember + job.numMembers; ++last)
        if (index.empty() ||
            cohort.members[last] != cohort.members[last - 1] + 1 ||
            index.back() + last - first >= cohort.leading.back())
          break;
      forEachPart(cohort.blocking, shape.inner, job.block, [&](const Box &in) {
        Box box = whole(cohort, in);
        for (size_t d = 0; d < index.size(); ++d)
          box[d] = {index[d], index[d] + 1};
        if (!index.empty())
          box[index.size() - 1].hi += last - first - 1;
        if (shape.local) {
          out.locals.push_back({shape.flow, shape.from, box});
          out.localJobs.push_back(number);
          return;
        }
        out.moves.push_back({shape.flow, shape.hop, shape.from, shape.to, box});
        out.moveJobs.push_back(number);
      });
    }
  }
}

FlatOrder Orderer::run() {
  movesOf.resize(input.flows.size());
  localsOf.resize(input.flows.size());
  for (uint32_t i = 0; i < input.moves.size(); ++i)
    movesOf[input.flows[input.moves[i].flow].readsFrom].push_back(i);
  for (uint32_t i = 0; i < input.locals.size(); ++i)
    localsOf[input.flows[input.locals[i].flow].readsFrom].push_back(i);
  for (uint32_t flow = 0; flow < input.flows.size(); ++flow)
    if (!movesOf[flow].empty() || !localsOf[flow].empty())
      addPieces(flow);
  for (uint32_t cohort = 0; cohort < cohorts.size(); ++cohort)
    addJobs(cohort);
  FlatOrder out;
  for (const ShardIndex *index : {&input.source, &input.destination})
    for (int64_t device : index->devices())
      for (const ShardIndex::Entry &entry : index->shardsOf(device)) {
        const FlatFlow &flow = input.flows[entry.flow];
        bool isSource = index == &input.source;
        FlatOrder::Device &held = out.devices[device];
        (isSource ? held.source : held.destination) +=
            entry.shard->numMembers() * entry.shard->elementsPerMember() *
            bytesOf(isSource ? flow.source : flow.destination);
      }
  std::vector<FlatJob> sequence = sequenceJobs(jobs);
  for (uint32_t number = 0; number < sequence.size(); ++number) {
    const FlatJob &job = sequence[number];
    emit(job, number, out);
    for (const JobEffect &effect : jobs[job.cohort].effects[job.block])
      out.devices[effect.device].effects.push_back(
          {number, effect.created * job.numMembers,
           effect.freed * job.numMembers});
  }
  // Shapes stand by hop inside a job only when they were met in that order.
  std::vector<uint32_t> byHop(out.moves.size());
  for (uint32_t i = 0; i < byHop.size(); ++i)
    byHop[i] = i;
  std::stable_sort(byHop.begin(), byHop.end(), [&](uint32_t a, uint32_t b) {
    return std::tie(out.moveJobs[a], out.moves[a].hop) <
           std::tie(out.moveJobs[b], out.moves[b].hop);
  });
  std::vector<Move> moves;
  for (uint32_t i : byHop)
    moves.push_back(out.moves[i]);
  out.moves = std::move(moves);
  return out;
}

} // namespace

FlatOrder dt::orderForFlat(const FlatInput &input, int64_t jobBytes) {
  return Orderer(input, std::max<int64_t>(1, jobBytes)).run();
}

int64_t FlatOrder::neededBytes() const {
  int64_t needed = 0;
  for (const auto &[number, device] : devices) {
    int64_t live = 0; // of what is read at all
    for (const Effect &effect : device.effects)
      live += effect.freed;
    int64_t limit = std::max(device.source, device.destination);
    for (const Effect &effect : device.effects) {
      live += effect.created;
      needed = std::max(needed, live - limit);
      live -= effect.freed;
    }
  }
  return needed;
}

std::optional<FlatOrder> dt::orderWithin(const FlatInput &input,
                                         int64_t roomBytes) {
  std::optional<FlatOrder> best;
  int64_t bestNeeded = roomBytes + 1;
  // Devices wait for each other where large jobs fill the room.
  constexpr int64_t kLargestJob = 16 << 20;
  for (int64_t parts = std::max<int64_t>(4, roomBytes / kLargestJob);
       parts <= 256; parts *= 2) {
    FlatOrder order = orderForFlat(input, roomBytes / parts);
    int64_t needed = order.neededBytes();
    if (needed < bestNeeded) {
      bestNeeded = needed;
      best = std::move(order);
    }
    if (bestNeeded <= roomBytes / 2 || roomBytes / parts < input.pageBytes)
      break;
  }
  return best;
}
