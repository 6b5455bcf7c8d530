//===- BlockScales.cpp - Tensors that come in block-scaled FP8 ------------===//
//
//   [300, 256] in blocks of 128 x 128      scales [3, 2], the last row of 44
//   rows [128:300) of it on a rank         rows [1:3) of the scales
//   k, rows [256:384) of [q; k; v]         row [2:3) of the scales of [q; k; v]
//
//===----------------------------------------------------------------------===//

#include "BlockScales.h"

#include "Names.h"

#include "dt/Geometry/Limits.h"
#include "dt/Geometry/Names.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace dt::request {

namespace {

constexpr DType kQuantized = DType::F8E4M3;

/// An entry of `quantize`.
struct Entry {
  std::string path;
  std::string of;    // a glob on the destination's own tensors
  std::string scale; // name of the scales; `{}` is the tensor's
  std::vector<int64_t> block = {128, 128};
  DType scaleDType = DType::F32;
  JsonKey key = {};
  bool matches = false;
};

/// Elements of a block along each dim of a tensor: 1 where it is not cut.
using Blocks = std::vector<int64_t>;

int64_t ceilDiv(int64_t value, int64_t by) { return (value + by - 1) / by; }

Interval coarse(Interval fine, int64_t block) {
  return {fine.lo / block, ceilDiv(fine.hi, block)};
}

std::vector<int64_t> coarse(std::vector<int64_t> sizes, int64_t block) {
  for (int64_t &size : sizes)
    size = ceilDiv(size, block);
  return sizes;
}

std::vector<int64_t> coarseShape(std::vector<int64_t> shape,
                                 const Blocks &blocks) {
  for (size_t d = 0; d < shape.size(); ++d)
    shape[d] = ceilDiv(shape[d], blocks[d]);
  return shape;
}

/// Whether an interval of a dim of `size` has whole blocks: only at the end of
/// the dim may one be shorter, with no padding in it.
bool hasWholeBlocks(Interval interval, int64_t size, int64_t block) {
  bool isPadded = interval.lo < size && size < interval.hi && size % block != 0;
  return !isPadded && interval.lo % block == 0 &&
         (interval.hi % block == 0 || interval.hi == size);
}

std::string text(Interval interval, size_t dim) {
  return "[" + std::to_string(interval.lo) + ":" + std::to_string(interval.hi) +
         ") of dim " + std::to_string(dim);
}

Entry readEntry(const Json &json, const std::string &path) {
  checkKeys(asObject(json, path), path,
            {"of", "dtype", "block", "scale", "scale_dtype"});
  Entry entry;
  entry.path = path;
  entry.key = keyOf(json, path);
  entry.of = asString(require(json, path, "of"), path + ".of");
  entry.scale = "{}_scale_inv";
  if (const Json *scale = json.find("scale"))
    entry.scale = asString(*scale, path + ".scale");
  if (const Json *dtype = json.find("dtype"))
    if (parseDType(asString(*dtype, path + ".dtype")) != kQuantized)
      fail(path + ".dtype is " + inQuotes(dtype->string) +
           ", expected \"f8_e4m3\"");
  if (const Json *dtype = json.find("scale_dtype")) {
    auto found = parseDType(asString(*dtype, path + ".scale_dtype"));
    if (found != DType::F32 && found != DType::F8E8M0)
      fail(path + ".scale_dtype is " + inQuotes(dtype->string) +
           ", expected \"f32\" or \"f8_e8m0\"");
    entry.scaleDType = *found;
  }
  if (const Json *block = json.find("block")) {
    entry.block = asIntegers(*block, path + ".block", 1);
    if (entry.block.size() != 2)
      fail(path + ".block has " + std::to_string(entry.block.size()) +
           " sizes, expected rows and columns");
  }
  return entry;
}

//===----------------------------------------------------------------------===//
// Where scales lie
//===----------------------------------------------------------------------===//

/// The places of one side's tensors as places of their scales.
class Coarsener {
public:
  explicit Coarsener(const LayoutDecl &layout) : layout(layout) {}

  /// Of a place of a tensor of `shape`, which `what` names in errors.
  PlaceDecl coarsen(const PlaceDecl &place, const std::vector<int64_t> &shape,
                    const Blocks &blocks, const std::string &what);

private:
  /// Mesh, shape and blocks of tensors.
  using Kind = std::tuple<uint32_t, std::vector<int64_t>, Blocks>;
  /// A placement whose shards have whole blocks, and that of scales.
  struct Known {
    Placement fine, coarse;
  };

  const Placement &coarsen(uint32_t mesh, const Placement &fine,
                           const std::vector<int64_t> &shape,
                           const Blocks &blocks, const std::string &what);

  const LayoutDecl &layout;
  std::map<Kind, std::vector<Known>> known;
  WorkLimit placed{kMaxPlacedRanks};
};

Placement scaled(Placement placement, const Blocks &blocks) {
  for (size_t d = 0; d < placement.dims.size(); ++d) {
    DimPlacement &dim = placement.dims[d];
    dim.extent = ceilDiv(dim.extent, blocks[d]);
    for (Split &split : dim.splits) {
      split.cuts = coarse(split.cuts, blocks[d]);
      split.blocks = coarse(split.blocks, blocks[d]);
    }
  }
  return placement;
}

/// The shards of scales, of those of their tensor. Fails where one has a part
/// of a block.
std::vector<Holding> scaled(std::vector<Holding> holdings,
                            const std::vector<int64_t> &shape,
                            const Blocks &blocks, const std::string &what) {
  for (Holding &holding : holdings)
    for (size_t d = 0; d < shape.size(); ++d)
      for (Interval &interval : holding.shard.dims[d]) {
        if (!hasWholeBlocks(interval, shape[d], blocks[d]))
          fail(what + ": device " + std::to_string(holding.devices.front()) +
               " has " + text(interval, d) + ", which cuts a block of " +
               std::to_string(blocks[d]));
        interval = coarse(interval, blocks[d]);
      }
  return holdings;
}

bool areAlike(const std::vector<Holding> &a, const std::vector<Holding> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Holding &x, const Holding &y) {
                      return x.shard == y.shard && x.devices == y.devices;
                    });
}

/// Sizes are divided; what that gives is compared with the tensor's shards. No
/// layout of sizes cuts `param` in ranges of elements.
const Placement &Coarsener::coarsen(uint32_t mesh, const Placement &fine,
                                    const std::vector<int64_t> &shape,
                                    const Blocks &blocks,
                                    const std::string &what) {
  std::vector<Known> &alike = known[{mesh, shape, blocks}];
  for (const Known &one : alike)
    if (one.fine == fine)
      return one.coarse;
  if (!placed.take(layout.world))
    fail(what +
         ": there are more ranks, once for each way in which a tensor "
         "lies, than the limit of " +
         std::to_string(kMaxPlacedRanks));
  const Mesh &own = layout.meshes[mesh].mesh;
  std::string error;
  auto holdings = evaluate(fine, own, shape, /*numLeading=*/0, error);
  if (!holdings)
    fail(what + ": " + error);
  Placement placement = scaled(fine, blocks);
  auto ofScales = evaluate(placement, own, coarseShape(shape, blocks),
                           /*numLeading=*/0, error);
  if (!areAlike(scaled(std::move(*holdings), shape, blocks, what),
                ofScales.value_or(std::vector<Holding>())))
    fail(what + " is not cut between blocks");
  alike.push_back({fine, std::move(placement)});
  return alike.back().coarse;
}

PlaceDecl Coarsener::coarsen(const PlaceDecl &place,
                             const std::vector<int64_t> &shape,
                             const Blocks &blocks, const std::string &what) {
  PlaceDecl out = place;
  out.states.clear();
  if (place.rows.empty()) {
    out.placement = coarsen(place.mesh, place.placement, shape, blocks, what);
    return out;
  }
  for (RankBox &row : out.rows) {
    if (row.range)
      fail(what + " is a range of elements on rank " +
           std::to_string(row.rank) + ", which cuts blocks");
    for (unsigned d = 0; d < row.box.rank(); ++d) {
      if (!hasWholeBlocks(row.box[d], shape[d], blocks[d]))
        fail(what + ": rank " + std::to_string(row.rank) + " has " +
             text(row.box[d], d) + ", which cuts a block of " +
             std::to_string(blocks[d]));
      row.box[d] = coarse(row.box[d], blocks[d]);
    }
  }
  return out;
}

//===----------------------------------------------------------------------===//
// One tensor of the request
//===----------------------------------------------------------------------===//

/// A tensor that one side has of a tensor of the request.
struct OwnTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<std::vector<unsigned>> dims; // those that each is made of
  std::optional<uint32_t> view;            // in LayoutDecl::views
};

class Quantizer {
public:
  Quantizer(std::vector<Entry> entries, Request &request)
      : entries(std::move(entries)), request(request),
        coarseners{Coarsener(request.source), Coarsener(request.destination)} {}

  void run();

private:
  LayoutDecl &layoutOf(Side side) {
    return side == Side::Source ? request.source : request.destination;
  }
  void index(Side side);
  Entry *entryOf(const std::string &name);
  void quantize(uint32_t tensor, const Entry &entry);
  void checkStates(const TensorDecl &tensor, const Entry &entry) const;
  Blocks blocksOf(const OwnTensor &own, const TensorDecl &tensor,
                  const Entry &entry) const;
  void addSide(Side side, uint32_t tensor, const Blocks &blocks,
               const Entry &entry);
  void addView(Side side, const OwnTensor &own, const Blocks &blocks,
               const Entry &entry);
  void addPlaces(Side side, uint32_t tensor, const OwnTensor &own,
                 const Blocks &blocks, const Entry &entry);
  std::string addName(std::set<std::string> &known, const std::string &tensor,
                      const Entry &entry);

  std::vector<Entry> entries;
  Request &request;
  Coarsener coarseners[2];
  // By side: of the tensors of the request their own ones, which places each of
  // these has, and all names.
  std::map<uint32_t, std::vector<OwnTensor>> own[2];
  std::map<std::pair<uint32_t, std::optional<uint32_t>>, std::vector<uint32_t>>
      places[2];
  std::set<std::string> names[2], namesOfRequest;
};

void Quantizer::index(Side side) {
  const LayoutDecl &layout = layoutOf(side);
  size_t at = side == Side::Destination;
  for (uint32_t v = 0; v < layout.views.size(); ++v) {
    const ViewDecl &view = layout.views[v];
    own[at][view.tensor].push_back(
        {view.name, view.view.shape(), view.view.ownDims(), v});
  }
  for (uint32_t t = 0; t < request.tensors.size(); ++t) {
    const TensorDecl &tensor = request.tensors[t];
    namesOfRequest.insert(tensor.name);
    std::vector<OwnTensor> &all = own[at][t];
    if (all.empty()) {
      all.push_back({tensor.name, tensor.shape, {}, std::nullopt});
      for (unsigned d = 0; d < tensor.shape.size(); ++d)
        all.back().dims.push_back({d});
    }
    for (const OwnTensor &one : all)
      names[at].insert(one.name);
  }
  for (uint32_t p = 0; p < layout.places.size(); ++p)
    places[at][{layout.places[p].tensor, layout.places[p].view}].push_back(p);
}

/// Whether the destination has its parameter.
bool isWanted(const TensorDecl &tensor) {
  return std::any_of(tensor.states.begin(), tensor.states.end(),
                     [](const StateDecl &state) {
                       return state.name == "param" && state.destination;
                     });
}

Entry *Quantizer::entryOf(const std::string &name) {
  for (Entry &entry : entries)
    if (matchesGlob(entry.of, name))
      return &entry;
  return nullptr;
}

/// What the sender quantises is all that the tensor has of `param`.
void Quantizer::checkStates(const TensorDecl &tensor,
                            const Entry &entry) const {
  std::string what = entry.path + ": tensor " + inQuotes(tensor.name);
  bool isThere = false;
  for (const StateDecl &state : tensor.states) {
    if (state.from == "param" || (state.name == "param" && !state.from.empty()))
      fail(what + " has state " + inQuotes(state.name) + " made from " +
           inQuotes(state.from) + " (\"derive\"), which has other values");
    if (state.name != "param" || !state.source || !state.destination)
      continue;
    isThere = true;
    if (*state.source != DType::F32 && *state.source != DType::BF16 &&
        *state.source != DType::F16)
      fail(what + " is of " + std::string(dtypeName(*state.source)) +
           ", expected f32, f16 or bf16");
  }
  if (!isThere)
    fail(what + " has no state \"param\" on both sides");
}

/// Of the request's tensor, so that its own one has blocks of its last dims.
Blocks Quantizer::blocksOf(const OwnTensor &own, const TensorDecl &tensor,
                           const Entry &entry) const {
  std::string what = "tensor " + inQuotes(own.name);
  if (own.dims.size() < 2)
    fail(entry.path + ": " + what + " has " + std::to_string(own.dims.size()) +
         " dims, expected rows and columns");
  Blocks blocks(tensor.shape.size(), 1);
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<unsigned> &dims = own.dims[own.dims.size() - 2 + i];
    if (dims.size() != 1)
      fail(entry.path + ": " + what +
           " has rows or columns that are several dims of tensor " +
           inQuotes(tensor.name));
    blocks[dims.front()] = entry.block[i];
  }
  return blocks;
}

std::string Quantizer::addName(std::set<std::string> &known,
                               const std::string &tensor, const Entry &entry) {
  std::string name = fillIn(entry.scale, "{}", {tensor}, entry.path + ".scale");
  std::string problem = problemOfName(name);
  if (!problem.empty())
    fail(entry.path + ".scale makes a tensor " + inQuotes(name) +
         ", a name that " + problem);
  if (!known.insert(name).second)
    fail(entry.path + ".scale makes a tensor " + inQuotes(name) +
         ", which there is already");
  return name;
}

/// The scales of what a view has. Its blocks are those of the request's tensor.
void Quantizer::addView(Side side, const OwnTensor &own, const Blocks &blocks,
                        const Entry &entry) {
  LayoutDecl &layout = layoutOf(side);
  ViewDecl view = layout.views[*own.view];
  const TensorDecl &tensor = request.tensors[view.tensor];
  std::string what = entry.path + ": " + sideName(side) + " tensor " +
                     inQuotes(own.name) + " has ";
  for (size_t d = 0; d < blocks.size(); ++d) {
    ViewDim &dim = view.view.dims[d];
    for (size_t i = 0; i < dim.intervals.size(); ++i) {
      Interval &interval = dim.intervals[i];
      bool isLast = i + 1 == dim.intervals.size();
      if (!hasWholeBlocks(interval, tensor.shape[d], blocks[d]) ||
          (!isLast && interval.size() % blocks[d] != 0))
        fail(what + text(interval, d) + " of tensor " + inQuotes(tensor.name) +
             ", which cuts a block of " + std::to_string(blocks[d]));
      interval = coarse(interval, blocks[d]);
    }
  }
  view.name = addName(names[side == Side::Destination], own.name, entry);
  view.tensor = uint32_t(request.tensors.size());
  view.view.fill.clear();
  view.key = entry.key;
  layout.views.push_back(std::move(view));
}

void Quantizer::addPlaces(Side side, uint32_t tensor, const OwnTensor &own,
                          const Blocks &blocks, const Entry &entry) {
  LayoutDecl &layout = layoutOf(side);
  size_t at = side == Side::Destination;
  std::string what =
      entry.path + ": " + sideName(side) + " tensor " + inQuotes(own.name);
  Blocks ofOwn;
  for (const std::vector<unsigned> &dims : own.dims)
    ofOwn.push_back(dims.size() == 1 ? blocks[dims.front()] : 1);
  for (uint32_t p : places[at][{tensor, own.view}]) {
    const std::vector<std::string> &states = layout.places[p].states;
    if (!states.empty() &&
        std::find(states.begin(), states.end(), "param") == states.end())
      continue;
    PlaceDecl place =
        coarseners[at].coarsen(layout.places[p], own.shape, ofOwn, what);
    place.tensor = uint32_t(request.tensors.size());
    place.key = entry.key;
    if (own.view)
      place.view = uint32_t(layout.views.size() - 1);
    layout.places.push_back(std::move(place));
  }
}

void Quantizer::addSide(Side side, uint32_t tensor, const Blocks &blocks,
                        const Entry &entry) {
  LayoutDecl &layout = layoutOf(side);
  for (const OwnTensor &one : own[side == Side::Destination][tensor]) {
    if (blocksOf(one, request.tensors[tensor], entry) != blocks)
      fail(entry.path + ": " + sideName(side) + " tensor " +
           inQuotes(one.name) + " has other rows and columns than tensor " +
           inQuotes(request.tensors[tensor].name) +
           ", of which blocks are made");
    if (one.view)
      addView(side, one, blocks, entry);
    else if (!layout.views.empty()) // all are views, this one of no place
      continue;
    addPlaces(side, tensor, one, blocks, entry);
  }
}

void Quantizer::quantize(uint32_t tensor, const Entry &entry) {
  checkStates(request.tensors[tensor], entry);
  Blocks blocks =
      blocksOf(own[1][tensor].front(), request.tensors[tensor], entry);
  TensorDecl scales;
  scales.name = addName(namesOfRequest, request.tensors[tensor].name, entry);
  scales.shape = coarseShape(request.tensors[tensor].shape, blocks);
  scales.states = {{"param", entry.scaleDType, entry.scaleDType, ""}};
  scales.partial = request.tensors[tensor].partial;
  scales.key = entry.key;
  for (Side side : {Side::Source, Side::Destination})
    addSide(side, tensor, blocks, entry);
  for (StateDecl &state : request.tensors[tensor].states)
    if (state.name == "param")
      state.source = state.destination = kQuantized;
  request.tensors.push_back(std::move(scales));
  checkCount(request.tensors.size(), kMaxTensors, "destination.quantize",
             "tensors, with those of scales");
}

void Quantizer::run() {
  index(Side::Source);
  index(Side::Destination);
  auto count = uint32_t(request.tensors.size());
  for (uint32_t t = 0; t < count; ++t) {
    if (!isWanted(request.tensors[t]))
      continue;
    Entry *first = nullptr;
    const OwnTensor *without = nullptr;
    for (const OwnTensor &one : own[1][t]) {
      Entry *entry = entryOf(one.name);
      if (!entry)
        without = &one;
      else
        entry->matches = true;
      if (entry && first &&
          (entry->block != first->block || entry->scale != first->scale ||
           entry->scaleDType != first->scaleDType))
        fail(entry->path + " and " + first->path +
             " quantise parts of tensor " + inQuotes(request.tensors[t].name) +
             " in two ways");
      first = first ? first : entry;
    }
    if (first && without)
      fail(first->path + " matches a part of tensor " +
           inQuotes(request.tensors[t].name) + ", but not " +
           inQuotes(without->name) + ", which is one too");
    if (first)
      quantize(t, *first);
  }
  for (const Entry &entry : entries)
    if (!entry.matches)
      fail(entry.path + ".of is " + inQuotes(entry.of) +
           ", which no tensor of the destination matches");
}

} // namespace

void addBlockScales(const Sides &sides, Request &request) {
  if (sides.source.find("quantize"))
    fail("source.quantize: the destination says which of its tensors are "
         "quantised");
  const Json *list = sides.destination.find("quantize");
  if (!list)
    return;
  const std::string path = "destination.quantize";
  checkCount(asArray(*list, path).items.size(), kMaxRules, path, "entries");
  std::vector<Entry> entries;
  for (size_t i = 0; i < list->items.size(); ++i)
    entries.push_back(
        readEntry(list->items[i], path + "[" + std::to_string(i) + "]"));
  Quantizer(std::move(entries), request).run();
}

} // namespace dt::request
