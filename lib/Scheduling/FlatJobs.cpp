//===- FlatJobs.cpp - Blocks of tensors and what they do to memory --------===//

#include "FlatJobs.h"

#include "dt/Geometry/Painted.h"

#include <algorithm>
#include <numeric>

using namespace dt;

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

int64_t Blocking::Dim::largestCell() const {
  int64_t largest = 1;
  for (size_t i = 1; i < cuts.size(); ++i)
    largest = std::max(largest, cuts[i] - cuts[i - 1]);
  return largest;
}

int64_t Blocking::blocks() const {
  int64_t count = 1;
  for (const Dim &dim : dims)
    count *= dim.parts;
  return count;
}

void Blocking::split(int64_t first, int64_t last,
                     std::vector<std::vector<Interval>> &out) const {
  int64_t row = rowBlocks();
  for (int64_t next = first; first < last; first = next) {
    next = std::min(last, (first / row + 1) * row);
    std::vector<Interval> &steps = out.emplace_back(dims.size());
    int64_t outer = first / row;
    for (size_t d = dims.size(); d-- > 0;) {
      if (d + 1 == dims.size()) {
        steps[d] = {first - outer * row, next - outer * row};
        continue;
      }
      steps[d] = {outer % dims[d].parts, outer % dims[d].parts + 1};
      outer /= dims[d].parts;
    }
  }
}

void Blocking::Dim::meet(const Interval &inner, const Interval &steps,
                         std::vector<Interval> &out) const {
  auto cell = std::upper_bound(cuts.begin() + 1, cuts.end(), inner.lo);
  for (; cell != cuts.end() && *std::prev(cell) < inner.hi; ++cell) {
    int64_t lo = *std::prev(cell), size = *cell - lo;
    Interval part = intersect(
        inner, {lo + size * steps.lo / parts, lo + size * steps.hi / parts});
    if (part.empty())
      continue;
    if (!out.empty() && out.back().hi == part.lo)
      out.back().hi = part.hi;
    else
      out.push_back(part);
  }
}

const std::vector<Box> &BlockParts::of(const Box &inner,
                                       const std::vector<Interval> &steps) {
  boxes.assign(1, inner);
  for (size_t d = blocking.dims.size(); d-- > 0;) {
    const Blocking::Dim &dim = blocking.dims[d];
    if (steps[d].lo == 0 && steps[d].hi == dim.parts)
      continue;
    own.clear();
    dim.meet(inner[d], steps[d], own);
    // Mostly one, which needs no other boxes.
    if (own.size() == 1) {
      for (Box &box : boxes)
        box[d] = own.front();
      continue;
    }
    next.clear();
    for (Interval part : own)
      for (const Box &box : boxes) {
        next.push_back(box);
        next.back()[d] = part;
      }
    boxes.swap(next);
  }
  return boxes;
}

//===----------------------------------------------------------------------===//
// Tensors that move alike
//===----------------------------------------------------------------------===//

std::vector<int64_t> FlatJobs::Cohort::indexOf(int64_t member) const {
  std::vector<int64_t> index(leading.size());
  for (size_t d = leading.size(); d-- > 0;) {
    index[d] = member % leading[d];
    member /= leading[d];
  }
  return index;
}

uint32_t FlatJobs::shapeOf(const Move &move, bool local) {
  const FlatFlow &flow = input.flows[move.flow];
  auto source = input.source.findNumber(flow.readsFrom, move.source, move.box);
  auto destination =
      input.destination.findNumber(move.flow, move.destination, move.box);
  FlatShape shape = {move.flow,
                     move.hop,
                     move.source,
                     move.destination,
                     local,
                     source ? int64_t(*source) : -1,
                     destination ? int64_t(*destination) : -1,
                     Box(move.box.rank() - flow.numLeading)};
  for (unsigned d = 0; d < shape.inner.rank(); ++d)
    shape.inner[d] = move.box[flow.numLeading + d];
  auto [it, isNew] = known.try_emplace(shape, shapes.size());
  if (isNew)
    shapes.push_back(shape);
  return it->second;
}

namespace {

/// Members, and the shapes that each has so far: a tree in which those that
/// have the same are at one node.
class ShapeTree {
public:
  struct Node {
    uint32_t parent = 0, shape = 0;
    uint32_t child = 0, childShape = UINT32_MAX; // the last that was made
  };
  static constexpr uint32_t kRoot = 0;

  explicit ShapeTree(size_t numMembers) : nodes(1), at(numMembers, kRoot) {}

  /// Shapes ascend.
  void add(size_t member, uint32_t shape) {
    Node &node = nodes[at[member]];
    if (node.childShape != shape) {
      node.child = uint32_t(nodes.size());
      node.childShape = shape;
      nodes.push_back({at[member], shape});
    }
    at[member] = nodes[at[member]].child;
  }
  uint32_t nodeOf(size_t member) const { return at[member]; }
  size_t numNodes() const { return nodes.size(); }
  std::vector<uint32_t> shapesOf(uint32_t node) const {
    std::vector<uint32_t> shapes;
    for (; node != kRoot; node = nodes[node].parent)
      shapes.push_back(nodes[node].shape);
    std::reverse(shapes.begin(), shapes.end());
    return shapes;
  }

private:
  std::vector<Node> nodes;
  std::vector<uint32_t> at; // by member
};

} // namespace

/// Calls fn(number) for the members that the leading dims of a box name.
template <typename Fn>
static void forEachMember(const Box &box, const std::vector<int64_t> &leading,
                          Fn fn, size_t dim = 0, int64_t before = 0) {
  if (dim == leading.size())
    return fn(before);
  for (int64_t i = box[dim].lo; i < box[dim].hi; ++i)
    forEachMember(box, leading, fn, dim + 1, before * leading[dim] + i);
}

/// All pieces that read the storage of one flow, tensor by tensor.
void FlatJobs::addPieces(uint32_t storage, const std::vector<uint32_t> &moves,
                         const std::vector<uint32_t> &locals) {
  unsigned numLeading = input.flows[storage].numLeading;
  std::vector<int64_t> leading(numLeading, 1);
  Pieces pieces;
  auto add = [&](const Move &move, const Box &box, bool local) {
    pieces.push_back({shapeOf(move, local), &box});
    for (unsigned d = 0; d < numLeading; ++d)
      leading[d] = std::max(leading[d], box[d].hi);
  };
  for (uint32_t i : moves)
    add(input.moves[i], input.moves[i].box, /*local=*/false);
  for (uint32_t i : locals) {
    const LocalMove &local = input.locals[i];
    add({local.flow, 0, local.device, local.device, local.box}, local.box,
        /*local=*/true);
  }
  int64_t numOfTensors = 0;
  for (auto [shape, box] : pieces) {
    int64_t members = 1;
    for (unsigned d = 0; d < numLeading; ++d)
      members *= (*box)[d].size();
    if (!effects.take(members))
      return;
    numOfTensors += members;
  }
  std::stable_sort(
      pieces.begin(), pieces.end(),
      [](const auto &a, const auto &b) { return a.first < b.first; });
  addCohorts(leading, pieces, numOfTensors);
}

/// Members that any piece names, ascending; none where those of all pieces
/// together, `numOfTensors`, are no fewer than all that there are.
std::vector<int64_t>
FlatJobs::sparseMembers(const std::vector<int64_t> &leading,
                        const Pieces &pieces, int64_t numOfTensors) {
  int64_t all = 1;
  for (int64_t extent : leading)
    if (__builtin_mul_overflow(all, extent, &all))
      all = INT64_MAX;
  std::vector<int64_t> members;
  if (all <= numOfTensors)
    return members;
  members.reserve(size_t(numOfTensors));
  for (auto [shape, box] : pieces)
    forEachMember(*box, leading,
                  [&](int64_t member) { members.push_back(member); });
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  return members;
}

void FlatJobs::addCohorts(const std::vector<int64_t> &leading,
                          const Pieces &pieces, int64_t numOfTensors) {
  const std::vector<int64_t> sparse =
      sparseMembers(leading, pieces, numOfTensors);
  auto placeOf = [&](int64_t member) {
    return sparse.empty()
               ? size_t(member)
               : size_t(std::lower_bound(sparse.begin(), sparse.end(), member) -
                        sparse.begin());
  };
  size_t numPlaces = sparse.size();
  if (sparse.empty())
    numPlaces = std::accumulate(leading.begin(), leading.end(), size_t(1),
                                std::multiplies<size_t>());
  ShapeTree tree(numPlaces);
  for (auto [shape, box] : pieces)
    forEachMember(*box, leading, [&, shape = shape](int64_t member) {
      tree.add(placeOf(member), shape);
    });
  std::vector<std::optional<uint32_t>> cohortOf(tree.numNodes());
  for (size_t place = 0; place < numPlaces; ++place) {
    const uint32_t node = tree.nodeOf(place);
    if (node == ShapeTree::kRoot)
      continue;
    if (!cohortOf[node]) {
      cohortOf[node] = uint32_t(cohorts.size());
      cohorts.push_back({tree.shapesOf(node), {}, leading, {}});
    }
    int64_t member = sparse.empty() ? int64_t(place) : sparse[place];
    cohorts[*cohortOf[node]].members.push_back(member);
  }
}

/// The box of the cohort's first tensor.
Box FlatJobs::whole(const Cohort &cohort, const Box &inner) const {
  std::vector<int64_t> index = cohort.indexOf(cohort.members.front());
  Box box(index.size() + inner.rank());
  for (size_t d = 0; d < index.size(); ++d)
    box[d] = {index[d], index[d] + 1};
  for (unsigned d = 0; d < inner.rank(); ++d)
    box[index.size() + d] = inner[d];
  return box;
}

const Shard &FlatJobs::shardOf(const FlatShape &shape, bool destination) const {
  return destination
             ? *input.destination.shardsOf(shape.to)[shape.destinationShard]
                    .shard
             : *input.source.shardsOf(shape.from)[shape.sourceShard].shard;
}

int64_t dt::bytesOf(const std::vector<FlatStates> &states) {
  int64_t bytes = 0;
  for (const FlatStates &group : states)
    bytes += group.width * group.count;
  return bytes;
}

/// Most bytes that one index of an inner dim has on any device.
int64_t FlatJobs::rowBytes(const Cohort &cohort, unsigned dim) const {
  int64_t most = 0;
  for (uint32_t number : cohort.shapes) {
    const FlatShape &shape = shapes[number];
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

/// Whether the blocks of a cohort, counted for each of its pieces, keep to the
/// limit.
bool FlatJobs::countBlocks(const Cohort &cohort) {
  int64_t count = int64_t(cohort.shapes.size());
  for (const Blocking::Dim &dim : cohort.blocking.dims)
    if (__builtin_mul_overflow(count, dim.parts, &count))
      return effects.take(INT64_MAX);
  return effects.take(count);
}

/// Cuts the outermost dim, and further ones where its rows are too large; what
/// comes and goes whole is not cut. False when there are too many blocks.
/// `known`: what the blocks do, where that had to be known; else empty.
bool FlatJobs::block(Cohort &cohort, std::vector<JobEffects> &known) {
  if (input.pageBytes >= kWholeBuffers)
    return countBlocks(cohort);
  std::vector<Blocking::Dim> &dims = cohort.blocking.dims;
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
  if (!countBlocks(cohort))
    return false;
  if (dims.empty())
    return true;
  int64_t most = 0;
  known = effectsOf(cohort);
  for (const JobEffects &block : known)
    for (const JobEffect &effect : block)
      most = std::max({most, effect.created, effect.freed});
  int64_t before = dims.back().parts;
  dims.back().parts = std::clamp<int64_t>((most + jobBytes - 1) / jobBytes, 1,
                                          dims.back().largestCell());
  if (dims.back().parts != before)
    known.clear();
  return countBlocks(cohort);
}

/// What each block touches of each buffer. What lies in a buffer between two
/// blocks of a piece goes with the first of them: boxes of several blocks span
/// it too.
std::map<FlatJobs::Buffer, std::vector<FlatJobs::Touch>>
FlatJobs::touchesOf(const Cohort &cohort) const {
  std::vector<std::vector<Interval>> steps;
  for (int64_t block = 0; block < cohort.blocking.blocks(); ++block)
    cohort.blocking.split(block, block + 1, steps);
  std::map<Buffer, std::vector<Touch>> touches;
  std::vector<Touch> list;
  BlockParts parts(cohort.blocking);
  for (uint32_t number : cohort.shapes) {
    const FlatShape &shape = shapes[number];
    uint32_t readsFrom = input.flows[shape.flow].readsFrom;
    for (bool destination : {false, true}) {
      int64_t shard = destination ? shape.destinationShard : shape.sourceShard;
      int64_t device = destination ? shape.to : shape.from;
      uint32_t flow = destination ? shape.flow : readsFrom;
      if (shard < 0 || input.flows[flow].stays(device))
        continue;
      list.clear();
      const Shard &held = shardOf(shape, destination);
      Box box = whole(cohort, shape.inner);
      unsigned outer = box.rank() - shape.inner.rank();
      for (size_t block = 0; block < steps.size(); ++block)
        for (const Box &part : parts.of(shape.inner, steps[block])) {
          for (unsigned d = 0; d < part.rank(); ++d)
            box[outer + d] = part[d];
          list.push_back({int64_t(block), *localSpan(held, box)});
        }
      std::stable_sort(list.begin(), list.end(),
                       [](const Touch &a, const Touch &b) {
                         return a.elements.lo < b.elements.lo;
                       });
      int64_t row = cohort.blocking.rowBlocks();
      for (size_t i = 1; i < list.size(); ++i)
        if (list[i - 1].block / row == list[i].block / row)
          list[i - 1].elements.hi =
              std::max(list[i - 1].elements.hi, list[i].elements.lo);
      auto &own = touches[{device, destination, shard, flow}];
      own.insert(own.end(), list.begin(), list.end());
    }
  }
  return touches;
}

/// What the blocks of a tensor do to each device that any of them has to do
/// with.
class FlatJobs::EffectTable {
public:
  /// Devices ascending, each once.
  EffectTable(int64_t blocks, std::vector<int64_t> devices)
      : devices(std::move(devices)), rows(size_t(blocks)) {
    for (std::vector<Cell> &row : rows)
      row.resize(this->devices.size());
  }
  size_t blocks() const { return rows.size(); }
  size_t placeOf(int64_t device) const {
    return size_t(std::lower_bound(devices.begin(), devices.end(), device) -
                  devices.begin());
  }
  JobEffect &of(size_t block, size_t place) {
    Cell &cell = rows[block][place];
    cell.isThere = true;
    return cell.effect;
  }
  std::vector<JobEffects> effects() const {
    std::vector<JobEffects> out(rows.size());
    for (size_t block = 0; block < rows.size(); ++block)
      for (size_t place = 0; place < devices.size(); ++place)
        if (const Cell &cell = rows[block][place]; cell.isThere) {
          out[block].push_back(cell.effect);
          out[block].back().device = devices[place];
        }
    return out;
  }

private:
  struct Cell {
    JobEffect effect;
    bool isThere = false;
  };
  std::vector<int64_t> devices;
  std::vector<std::vector<Cell>> rows; // by block, then device
};

/// Those that send or get any of a cohort, ascending.
std::vector<int64_t> FlatJobs::devicesOf(const Cohort &cohort) const {
  std::vector<int64_t> devices;
  for (uint32_t number : cohort.shapes)
    devices.insert(devices.end(), {shapes[number].from, shapes[number].to});
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

/// What each block copies, sends, and brings from elsewhere.
void FlatJobs::addTraffic(const Cohort &cohort, EffectTable &table) const {
  std::vector<std::vector<Interval>> steps;
  for (size_t block = 0; block < table.blocks(); ++block)
    cohort.blocking.split(int64_t(block), int64_t(block) + 1, steps);
  BlockParts parts(cohort.blocking);
  for (uint32_t number : cohort.shapes) {
    const FlatShape &shape = shapes[number];
    bool inter = !input.cluster.sameNode(shape.from, shape.to);
    int64_t width = bytesOf(input.flows[shape.flow].destination);
    size_t from = table.placeOf(shape.from), to = table.placeOf(shape.to);
    for (size_t block = 0; block < table.blocks(); ++block) {
      int64_t bytes = 0;
      for (const Box &part : parts.of(shape.inner, steps[block]))
        bytes += part.volume() * width;
      if (bytes == 0)
        continue;
      JobEffect &sender = table.of(block, from);
      if (shape.local) {
        sender.copied += bytes;
        continue;
      }
      sender.ports[2 * inter] += bytes;
      table.of(block, to).ports[2 * inter + 1] += bytes;
    }
  }
}

/// What each block of one tensor does to each device.
std::vector<JobEffects> FlatJobs::effectsOf(const Cohort &cohort) const {
  EffectTable table(cohort.blocking.blocks(), devicesOf(cohort));
  for (auto &[buffer, list] : touchesOf(cohort)) {
    auto [device, destination, shard, flow] = buffer;
    std::stable_sort(
        list.begin(), list.end(),
        [](const Touch &a, const Touch &b) { return a.block < b.block; });
    if (!destination)
      std::reverse(list.begin(), list.end());
    const ShardIndex &index = destination ? input.destination : input.source;
    int64_t end = index.shardsOf(device)[shard].shard->elementsPerMember();
    const FlatFlow &of = input.flows[flow];
    const std::vector<FlatStates> &states =
        destination ? of.destination : of.source;
    int64_t width = 0; // shared storages: FlatStorages
    for (const FlatStates &group : states)
      width += group.storage < 0 ? group.width * group.count : 0;
    if (width == 0)
      continue;
    int64_t page = pageElements(states, input.pageBytes);
    size_t place = table.placeOf(device);
    Painted painted;
    for (const Touch &touch : list) {
      JobEffect &effect = table.of(size_t(touch.block), place);
      int64_t &bytes = destination ? effect.created : effect.freed;
      painted.add(wholePages(touch.elements, page, end),
                  [&](Interval part) { bytes += part.size() * width; });
    }
  }
  addTraffic(cohort, table);
  return table.effects();
}

/// Small tensors share a job, large ones have several.
void FlatJobs::addJobs(Cohort &cohort) {
  std::vector<JobEffects> known;
  if (!block(cohort, known))
    return;
  CohortJobs &own = jobs.emplace_back();
  own.effects = known.empty() ? effectsOf(cohort) : std::move(known);
  own.members = cohort.members.size();
  if (own.effects.size() == 1) {
    int64_t most = 1;
    for (const JobEffect &effect : own.effects.front())
      most = std::max({most, effect.created, effect.freed});
    own.together = std::clamp<int64_t>(jobBytes / most, 1, own.members);
  }
  int64_t ofTensor = 0;
  for (const JobEffects &block : own.effects)
    ofTensor += int64_t(block.size());
  effects.take(ofTensor * own.count() / int64_t(own.effects.size()));
}

/// Joins boxes from `begin` on, row-major, where they follow one another in a
/// leading dim and differ in no other: tensors of several layers are one box.
static void joinLeading(std::vector<Box> &boxes, size_t begin, unsigned dim) {
  auto isNext = [dim](const Box &box, const Box &next) {
    for (unsigned d = 0; d < box.rank(); ++d)
      if (d == dim ? box[d].hi != next[d].lo : box[d] != next[d])
        return false;
    return true;
  };
  size_t kept = begin;
  for (size_t i = begin; i < boxes.size(); ++i)
    if (kept > begin && isNext(boxes[kept - 1], boxes[i]))
      boxes[kept - 1][dim].hi = boxes[i][dim].hi;
    else
      boxes[kept++] = boxes[i];
  boxes.resize(kept);
}

/// Tensors [first, last) of a cohort; those whose indices count up share a box.
void FlatJobs::addMembers(const Cohort &cohort, int64_t first, int64_t last,
                          const Box &inner, std::vector<Box> &out) const {
  const size_t begin = out.size();
  for (int64_t end = first; first < last; first = end) {
    std::vector<int64_t> index = cohort.indexOf(cohort.members[first]);
    for (end = first + 1; end < last; ++end)
      if (index.empty() || cohort.members[end] != cohort.members[end - 1] + 1 ||
          index.back() + end - first >= cohort.leading.back())
        break;
    Box box(index.size() + inner.rank());
    for (size_t d = 0; d < index.size(); ++d)
      box[d] = {index[d], index[d] + 1};
    if (!index.empty())
      box[index.size() - 1].hi += end - first - 1;
    for (unsigned d = 0; d < inner.rank(); ++d)
      box[index.size() + d] = inner[d];
    out.push_back(box);
  }
  for (size_t dim = cohort.leading.size(); dim-- > 1;)
    joinLeading(out, begin, unsigned(dim - 1));
}

void FlatJobs::boxesOf(uint32_t number, uint32_t shape, int64_t first,
                       int64_t last, std::vector<Box> &out) const {
  const Cohort &cohort = cohorts[number];
  const Box &inner = shapes[shape].inner;
  int64_t blocks = cohort.blocking.blocks(), together = jobs[number].together;
  BlockParts parts(cohort.blocking);
  auto add = [&](int64_t firstGroup, int64_t lastGroup, int64_t firstBlock,
                 int64_t lastBlock) {
    std::vector<std::vector<Interval>> steps;
    cohort.blocking.split(firstBlock, lastBlock, steps);
    int64_t end =
        std::min<int64_t>(lastGroup * together, cohort.members.size());
    for (const std::vector<Interval> &step : steps)
      for (const Box &part : parts.of(inner, step))
        addMembers(cohort, firstGroup * together, end, part, out);
  };
  // What is left of the first tensor, whole tensors, the beginning of the last.
  int64_t lo = first / blocks, hi = last / blocks;
  if (lo == hi)
    return add(lo, lo + 1, first % blocks, last % blocks);
  if (first % blocks)
    add(lo, lo + 1, first % blocks, blocks);
  lo += first % blocks != 0;
  if (lo < hi)
    add(lo, hi, 0, blocks);
  if (last % blocks)
    add(hi, hi + 1, 0, last % blocks);
}

FlatJobs::FlatJobs(const FlatInput &input, int64_t jobBytes)
    : input(input), jobBytes(std::max<int64_t>(1, jobBytes)),
      effects(input.mostEffects) {
  std::vector<std::vector<uint32_t>> movesOf(input.flows.size()),
      localsOf(input.flows.size()); // by storage
  for (uint32_t i = 0; i < input.moves.size(); ++i)
    movesOf[input.flows[input.moves[i].flow].readsFrom].push_back(i);
  for (uint32_t i = 0; i < input.locals.size(); ++i)
    localsOf[input.flows[input.locals[i].flow].readsFrom].push_back(i);
  for (uint32_t flow = 0; flow < input.flows.size(); ++flow)
    if (!isTooMany() && (!movesOf[flow].empty() || !localsOf[flow].empty()))
      addPieces(flow, movesOf[flow], localsOf[flow]);
  for (Cohort &cohort : cohorts)
    if (!isTooMany())
      addJobs(cohort);
}
