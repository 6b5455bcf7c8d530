//===- GroupFamilies.cpp - Families of numbered tensors -------------------===//
//
// Users have flat lists: Qwen3-235B has 24,725 tensors. The compiler wants the
// 13 families behind them, with layers and experts as leading dims. Tensors
// join when everything about them is equal but the numbers in their names and
// the mesh coordinates they are restricted to; those coordinates must follow
// one number each (stage follows layer, expert rank follows expert), and turn
// into cuts of that number's dim:
//
//   layers.0.w at {"pp" = [0]}              layers.{}.w [3, ...]
//   layers.1.w at {"pp" = [0]}      ->        [{"pp" cuts [0, 2, 3]}, ...]
//   layers.2.w at {"pp" = [1]}
//
// The numbers may be any: layers of one kind among others are one family, and
// so is what layers of several kinds have at different places of theirs.
//
//===----------------------------------------------------------------------===//

#include "Families.h"
#include "FamilyTensors.h"
#include "dt/Dialect/Ops.h"
#include "dt/Passes/Passes.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <map>

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_GROUPFAMILIES
#include "dt/Passes/Passes.h.inc"

namespace {

/// A flat param with its places in all layouts of the space.
struct Tensor {
  ParamOp param;
  std::string name;
  NumberedName numbered;
  int64_t position = 0; // in the space
  SmallVector<PlaceOp> places;
};

/// What a group of tensors has in common: equal keys may form a family.
struct Key {
  std::string pattern;
  SmallVector<const void *> identity;
  bool operator<(const Key &other) const {
    return std::tie(pattern, identity) <
           std::tie(other.pattern, other.identity);
  }
};

/// A set of tensors whose numbers fill `grid`.
struct Candidate {
  Grid grid;
  std::vector<const Tensor *> members; // row-major
};

/// The coordinates a place restricts `axis` to; empty when it does not.
ArrayRef<int64_t> coordinatesOf(PlaceOp place, StringRef axis) {
  for (RestrictionAttr at : cast<PlacementAttr>(place.getHow()).getAt())
    if (at.getAxis().getValue() == axis)
      return at.getCoordinates();
  return {};
}

/// The dim of the grid that a restricted coordinate follows.
struct Follow {
  std::string axis;
  bool constant = false; // the same for all members: stays a restriction
  unsigned dim = 0;
  std::vector<int64_t> coordinates; // per index of `dim`
};

class Family {
public:
  Family(const Candidate &candidate) : grid(candidate.grid), all(candidate) {}

  /// Whether all facts about the members are functions of single numbers.
  bool analyze();
  /// Number of leading dims: numbers that vary.
  SmallVector<unsigned> varying() const;
  /// Their counts.
  std::vector<int64_t> counts() const;
  PlacementAttr placement(unsigned place) const;
  /// The side's tensor that the place is of; null: it is the param.
  TensorAttr tensor(unsigned place) const { return tensors[place]; }
  int64_t orderBase() const { return all.members.front()->position; }
  ArrayRef<Sequence> orderOffsets() const { return offsets; }

private:
  bool analyzeOrder();
  bool analyzeAxis(unsigned place, StringRef axis);
  bool analyzeTensors();
  size_t strideOf(unsigned dim) const {
    size_t stride = 1;
    for (unsigned d = dim + 1; d < grid.size(); ++d)
      stride *= grid[d].size();
    return stride;
  }

  const Grid &grid;
  const Candidate &all;
  std::vector<Sequence> offsets;            // in registration order
  SmallVector<std::vector<Follow>> follows; // per place
  SmallVector<TensorAttr> tensors;          // per place
};

SmallVector<unsigned> Family::varying() const {
  SmallVector<unsigned> out;
  for (unsigned d = 0; d < grid.size(); ++d)
    if (grid[d].size() > 1)
      out.push_back(d);
  return out;
}

std::vector<int64_t> Family::counts() const {
  std::vector<int64_t> out;
  for (unsigned d : varying())
    out.push_back(int64_t(grid[d].size()));
  return out;
}

/// Registration order must be a sum of what each index adds: where a layer
/// begins, and where an expert stands in it.
bool Family::analyzeOrder() {
  auto found = offsetsAlongDims(
      counts(), [&](size_t i) { return all.members[i]->position; });
  if (!found)
    return false;
  for (std::vector<int64_t> &along : *found)
    offsets.push_back(Sequence::of(std::move(along)));
  return true;
}

bool Family::analyzeAxis(unsigned place, StringRef axis) {
  auto coordinates = [&](size_t i) {
    return coordinatesOf(all.members[i]->places[place], axis);
  };
  auto follows = [&](auto indexOf) {
    for (size_t i = 0; i < all.members.size(); ++i)
      if (coordinates(i) != coordinates(indexOf(i)))
        return false;
    return true;
  };
  Follow follow;
  follow.axis = axis.str();
  follow.constant = follows([](size_t) { return size_t(0); });
  if (follow.constant) {
    this->follows[place].push_back(follow);
    return true;
  }
  for (unsigned d : varying()) {
    auto alongDim = [&](size_t i) {
      return i / strideOf(d) % grid[d].size() * strideOf(d);
    };
    if (!follows(alongDim))
      continue;
    follow.dim = d;
    for (size_t i = 0; i < grid[d].size(); ++i) {
      ArrayRef<int64_t> own = coordinates(i * strideOf(d));
      if (own.size() != 1)
        return false;
      follow.coordinates.push_back(own.front());
    }
    this->follows[place].push_back(follow);
    return true;
  }
  return false;
}

bool Family::analyzeTensors() {
  for (unsigned p = 0; p < all.members.front()->places.size(); ++p) {
    SmallVector<TensorAttr> own;
    for (const Tensor *member : all.members)
      own.push_back(PlaceOp(member->places[p]).getTensorAttr());
    tensors.push_back(own.front() ? familyTensor(own, counts()) : TensorAttr());
    if (own.front() && !tensors.back())
      return false;
  }
  return true;
}

bool Family::analyze() {
  if (!analyzeOrder() || !analyzeTensors())
    return false;
  const Tensor &first = *all.members.front();
  follows.resize(first.places.size());
  for (unsigned p = 0; p < first.places.size(); ++p)
    for (RestrictionAttr at :
         cast<PlacementAttr>(PlaceOp(first.places[p]).getHow()).getAt())
      if (!analyzeAxis(p, at.getAxis().getValue()))
        return false;
  return true;
}

/// Runs of equal coordinates become cuts, with owners unless run i is simply
/// coordinate i's.
Split splitAlong(const Follow &follow, int64_t axisSize) {
  Split split;
  split.axis = follow.axis;
  split.cuts = {0};
  for (size_t i = 0; i < follow.coordinates.size(); ++i) {
    if (i + 1 < follow.coordinates.size() &&
        follow.coordinates[i + 1] == follow.coordinates[i])
      continue;
    split.cuts.push_back(i + 1);
    split.owners.push_back(follow.coordinates[i]);
  }
  if (int64_t(split.owners.size()) == axisSize &&
      MeshAttr::isIota(split.owners))
    split.owners.clear();
  return split;
}

PlacementAttr Family::placement(unsigned place) const {
  PlaceOp first = all.members.front()->places[place];
  Placement old = cast<PlacementAttr>(first.getHow()).toGeometry();
  SymbolTableCollection tables;
  MeshAttr mesh = first.lookupMesh(tables).getMesh();
  Placement out;
  for (unsigned d : varying()) {
    DimPlacement dim;
    for (const Follow &follow : follows[place])
      if (!follow.constant && follow.dim == d)
        dim.splits.push_back(splitAlong(follow, mesh.axisSize(follow.axis)));
    out.dims.push_back(dim);
  }
  out.dims.insert(out.dims.end(), old.dims.begin(), old.dims.end());
  for (const AxisRestriction &at : old.at)
    for (const Follow &follow : follows[place])
      if (follow.constant && follow.axis == at.axis)
        out.at.push_back(at);
  out.flatAxes = old.flatAxes;
  return PlacementAttr::get(first.getContext(), out);
}

/// Rewrites one space and the layouts of it.
class Grouper {
public:
  Grouper(SpaceOp space, ArrayRef<LayoutOp> layouts)
      : space(space), layouts(layouts) {}
  void run();
  unsigned numTensors = 0, numFamilies = 0;

private:
  void collect();
  std::optional<Key> keyOf(const Tensor &tensor);
  void formFamilies(const std::vector<const Tensor *> &tensors);
  void form(const Candidate &candidate);
  void replace(const Candidate &candidate, const Family &family);
  StringAttr symbolFor(StringRef pattern);
  std::string pattern(const Candidate &candidate);

  SpaceOp space;
  ArrayRef<LayoutOp> layouts;
  std::vector<Tensor> tensors;
  llvm::StringSet<> symbols;
};

void Grouper::collect() {
  llvm::DenseMap<Attribute, size_t> index;
  for (auto param : space.getOps<ParamOp>()) {
    index[param.getSymNameAttr()] = tensors.size();
    symbols.insert(param.getSymName());
    Tensor tensor;
    tensor.param = param;
    tensor.name = param.nameTemplate().str();
    tensor.numbered = splitNumbers(tensor.name);
    tensor.position = tensors.size();
    tensors.push_back(std::move(tensor));
  }
  for (LayoutOp layout : layouts)
    for (auto place : layout.getOps<PlaceOp>())
      tensors[index.lookup(place.getParamAttr().getAttr())].places.push_back(
          place);
}

/// Nullopt: this tensor is not to be grouped.
std::optional<Key> Grouper::keyOf(const Tensor &tensor) {
  ParamOp param = tensor.param;
  if (param.numLeading() > 0 || param.getOrder() >= 0 || param.getPartial() ||
      tensor.name.find('{') != std::string::npos ||
      tensor.name.find('}') != std::string::npos)
    return std::nullopt;
  Key key;
  key.pattern = tensor.numbered.pattern();
  for (int64_t size : param.getShape())
    key.pattern += " " + std::to_string(size);
  key.identity.push_back(param.getStates().getAsOpaquePointer());
  key.identity.push_back(param.getStorageAttr().getAsOpaquePointer());
  for (PlaceOp place : tensor.places) {
    auto placement = dyn_cast<PlacementAttr>(place.getHow());
    if (!placement)
      return std::nullopt;
    key.identity.push_back(place->getParentOp());
    key.identity.push_back(place.getMeshAttr().getAsOpaquePointer());
    key.identity.push_back(place.getStatesAttr().getAsOpaquePointer());
    key.pattern += place.getBucketed() ? " bucketed" : "";
    key.pattern += place.getAlone() ? " alone" : "";
    if (TensorAttr own = place.getTensorAttr()) {
      key.pattern += " as " + splitNumbers(own.getName().str()).pattern();
      for (int64_t bound : own.getBounds())
        key.pattern += " " + std::to_string(bound);
      for (int64_t dim : own.getPermutation())
        key.pattern += " permute " + std::to_string(dim);
      for (int64_t count : own.getParts())
        key.pattern += " parts " + std::to_string(count);
      for (uint64_t bits : own.getFill())
        key.pattern += " fill " + std::to_string(bits);
    }
    for (DimAttr dim : placement.getDims())
      key.identity.push_back(dim.getAsOpaquePointer());
    for (StringAttr axis : placement.getFlat())
      key.identity.push_back(axis.getAsOpaquePointer());
    for (RestrictionAttr at : placement.getAt())
      key.identity.push_back(at.getAxis().getAsOpaquePointer());
  }
  return key;
}

void Grouper::formFamilies(const std::vector<const Tensor *> &group) {
  std::map<std::vector<int64_t>, const Tensor *> byNumbers;
  std::vector<std::vector<int64_t>> tuples;
  for (const Tensor *tensor : group) {
    byNumbers[tensor->numbered.numbers] = tensor;
    tuples.push_back(tensor->numbered.numbers);
  }
  for (const Grid &grid : coverWithGrids(std::move(tuples))) {
    Candidate candidate;
    candidate.grid = grid;
    forEachMember(grid, [&](const std::vector<int64_t> &numbers) {
      candidate.members.push_back(byNumbers[numbers]);
    });
    form(candidate);
  }
}

/// The members whose number of dim `dim` has an index that is in one of the
/// turns of the stretch from `first` on; all dims before it have one value.
Candidate slice(const Candidate &candidate, size_t dim, int64_t first,
                Stretch stretch, int64_t turn) {
  const std::vector<int64_t> &all = candidate.grid[dim];
  size_t each = candidate.members.size() / all.size();
  Candidate out;
  out.grid = candidate.grid;
  out.grid[dim].clear();
  for (int64_t i = turn; i < stretch.length; i += stretch.period) {
    out.grid[dim].push_back(all[size_t(first + i)]);
    auto begin = candidate.members.begin() + (first + i) * each;
    out.members.insert(out.members.end(), begin, begin + each);
  }
  return out;
}

/// The best stretch of values of dim `dim` from index `first` on of which each
/// progression may form a family. Whatever holds of a family holds of its
/// prefixes.
Stretch bestStretch(const Candidate &candidate, size_t dim, int64_t first) {
  return longestStretch(
      int64_t(candidate.grid[dim].size()) - first, [&](Stretch stretch) {
        return llvm::all_of(llvm::seq(stretch.period), [&](int64_t turn) {
          Candidate part = slice(candidate, dim, first, stretch, turn);
          return Family(part).analyze();
        });
      });
}

/// Forms a family, or else several of as many values of the outermost number
/// as each may have: of values in a row, or of every second, third, ...
void Grouper::form(const Candidate &candidate) {
  if (candidate.members.size() == 1) {
    ++numFamilies; // stays
    return;
  }
  if (Family family(candidate); family.analyze()) {
    replace(candidate, family);
    return;
  }
  size_t outer =
      llvm::find_if(candidate.grid,
                    [](const auto &values) { return values.size() > 1; }) -
      candidate.grid.begin();
  for (int64_t first = 0; first < int64_t(candidate.grid[outer].size());) {
    Stretch stretch = bestStretch(candidate, outer, first);
    for (int64_t turn = 0; turn < stretch.period; ++turn)
      form(slice(candidate, outer, first, stretch, turn));
    first += stretch.length;
  }
}

std::string Grouper::pattern(const Candidate &candidate) {
  const NumberedName &name = candidate.members.front()->numbered;
  std::string out = name.text.front();
  for (size_t i = 0; i < name.numbers.size(); ++i)
    out += (candidate.grid[i].size() > 1 ? std::string("{}")
                                         : std::to_string(name.numbers[i])) +
           name.text[i + 1];
  return out;
}

/// What follows the outermost number reads well: "mlp.linear_fc2.weight". A
/// number that stood between dots leaves one of them: "experts.{}.w" is
/// "experts.w".
StringAttr Grouper::symbolFor(StringRef pattern) {
  auto [before, after] = pattern.split("{}");
  std::string name;
  for (StringRef rest = after.ltrim("._"); !rest.empty();) {
    auto [text, next] = rest.split("{}");
    name += StringRef(name).ends_with(".") ? text.ltrim('.') : text;
    rest = next;
  }
  if (name.empty())
    name = before.rtrim("._").str();
  std::string unique = name;
  for (int i = 1; !symbols.insert(unique).second; ++i)
    unique = name + "_" + std::to_string(i);
  return StringAttr::get(space.getContext(), unique);
}

void Grouper::replace(const Candidate &candidate, const Family &family) {
  ++numFamilies;
  ParamOp first = candidate.members.front()->param;
  std::string tensorName = pattern(candidate);
  StringAttr symbol = symbolFor(tensorName);
  SmallVector<int64_t> shape;
  std::vector<Sequence> numbers;
  for (unsigned d : family.varying()) {
    shape.push_back(int64_t(candidate.grid[d].size()));
    numbers.push_back(Sequence::of(candidate.grid[d]));
  }
  shape.append(first.getShape().begin(), first.getShape().end());

  OpBuilder builder(first);
  SmallVector<Location> locations;
  for (const Tensor *tensor : candidate.members)
    locations.push_back(ParamOp(tensor->param).getLoc());
  auto param = ParamOp::create(builder, builder.getFusedLoc(locations),
                               symbol.getValue(), shape, first.getStates());
  param.setTensorAttr(builder.getStringAttr(tensorName));
  param.setNumbers(numbers);
  param.setOrder(family.orderBase());
  param.setOrderOffsets(family.orderOffsets());
  param.setStorageAttr(first.getStorageAttr());

  auto reference = FlatSymbolRefAttr::get(symbol);
  SmallVector<PlaceOp> kept = candidate.members.front()->places;
  for (auto [p, place] : llvm::enumerate(kept)) {
    place.setHowAttr(family.placement(p));
    place.setTensorAttr(family.tensor(p));
    place.setParamAttr(reference);
    locations.clear();
    for (const Tensor *tensor : candidate.members)
      locations.push_back(PlaceOp(tensor->places[p]).getLoc());
    place->setLoc(builder.getFusedLoc(locations));
  }
  for (const Tensor *tensor : candidate.members) {
    SmallVector<PlaceOp> places = tensor->places;
    if (tensor != candidate.members.front())
      for (PlaceOp place : places)
        place.erase();
    ParamOp(tensor->param).erase();
  }
}

void Grouper::run() {
  collect();
  numTensors = tensors.size();
  std::map<Key, std::vector<const Tensor *>> groups;
  std::vector<const Key *> inOrder; // of first tensor
  for (Tensor &tensor : tensors) {
    auto key = keyOf(tensor);
    if (!key) {
      ++numFamilies;
      continue;
    }
    auto [it, isNew] = groups.try_emplace(std::move(*key));
    if (isNew)
      inOrder.push_back(&it->first);
    it->second.push_back(&tensor);
  }
  // Whatever stays a single tensor keeps its place in registration order.
  for (Tensor &tensor : tensors)
    if (tensor.param.getOrder() < 0 && tensor.param.numLeading() == 0)
      tensor.param.setOrder(tensor.position);
  for (const Key *key : inOrder)
    formFamilies(groups[*key]);
}

struct GroupFamiliesPass : impl::GroupFamiliesBase<GroupFamiliesPass> {
  void runOnOperation() override {
    for (auto space : getOperation().getOps<SpaceOp>()) {
      SmallVector<LayoutOp> layouts;
      for (auto layout : getOperation().getOps<LayoutOp>())
        if (layout.getSpace() == space.getSymName())
          layouts.push_back(layout);
      Grouper grouper(space, layouts);
      grouper.run();
      numTensors += grouper.numTensors;
      numFamilies += grouper.numFamilies;
    }
  }
};

} // namespace
} // namespace dt
