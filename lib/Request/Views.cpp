//===- Views.cpp - A side's own tensors -----------------------------------===//

#include "Views.h"

#include "Fill.h"
#include "Names.h"

#include "dt/Geometry/Covers.h"
#include "dt/Geometry/Limits.h"
#include "dt/Geometry/Names.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace dt::request {

namespace {

/// `count` intervals [from, from + size) at a distance of `step`; of padding
/// when there is no `from`.
struct Take {
  std::optional<int64_t> from;
  int64_t size = 0, step = 0, count = 1;
};

/// One entry of `views`.
struct Entry {
  std::string path;
  std::string of;     // a glob on the model's tensors
  std::string tensor; // `*` is what the same of `of` matched, `{}` the index
  std::optional<int64_t> dim;
  std::vector<Take> takes; // of `dim`, in the tensor's order; empty: all
  std::optional<int64_t> each;
  /// Dims of the model's tensor, but for `each`, in the tensor's order; empty:
  /// as they are.
  std::vector<int64_t> permute;
  /// Its dims, but for `each`, are those that `unflatten` makes.
  bool isParted = false;
  /// First and last of dims, in the tensor's order, that it has as one.
  std::vector<Interval> flatten;
  std::optional<Fill> fill; // of padding; none: zeros
  JsonKey key;
  bool matches = false;
};

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

Take readTake(const Json &json, const std::string &path) {
  Take take;
  if (json.isArray()) {
    std::vector<int64_t> ends = asIntegers(json, path, 0);
    if (ends.size() != 2 || ends[0] >= ends[1])
      fail(path + " must be [begin, end] with elements between them");
    take.from = ends[0];
    take.size = ends[1] - ends[0];
    return take;
  }
  for (const char *key : {"zeros", "padding"})
    if (const Json *size = asObject(json, path).find(key)) {
      checkKeys(json, path, {key});
      take.size = asInteger(*size, pathOf(path, key), 1, kMaxBytes);
      return take;
    }
  checkKeys(json, path, {"from", "size", "step", "count"});
  auto number = [&](const char *key, int64_t least) {
    return asInteger(require(json, path, key), pathOf(path, key), least,
                     kMaxBytes);
  };
  take.from = number("from", 0);
  take.size = number("size", 1);
  take.step = number("step", 1);
  take.count = number("count", 1);
  if (take.count > kMaxViewIntervals)
    fail(path + ".count is more than the limit of " +
         std::to_string(kMaxViewIntervals) + " intervals");
  return take;
}

/// What other tools call views and a plan cannot carry is refused by name.
void refuseUnsupported(const Json &json, const std::string &path) {
  for (auto [key, what] :
       {std::make_pair("transpose",
                       "two dims in each other's place: say \"permute\" with "
                       "all dims in its order"),
        {"reshape", "another shape at once: say \"unflatten\", \"permute\" and "
                    "\"flatten\""},
        {"copy_of", "two tensors with the same elements: list both in the "
                    "model, and give one tensor under both names"}})
    if (json.find(key))
      fail(pathOf(path, key) + " is not supported: a view cannot have " + what);
}

/// Lists of [first, last], inclusive, as torch.flatten has them.
std::vector<Interval> readFlatten(const Json &json, const std::string &path) {
  std::vector<Interval> out;
  const std::vector<Json> &items = asArray(json, path).items;
  for (size_t i = 0; i < items.size(); ++i) {
    std::string where = path + "[" + std::to_string(i) + "]";
    std::vector<int64_t> ends = asIntegers(items[i], where, 0);
    if (ends.size() != 2 || ends[0] >= ends[1] || ends[1] >= int64_t(kMaxRank))
      fail(where + " must be [first, last], the numbers of two dims or more");
    if (!out.empty() && ends[0] < out.back().hi)
      fail(where + " begins at dim " + std::to_string(ends[0]) +
           ", expected one behind those before");
    out.push_back({ends[0], ends[1] + 1});
  }
  if (out.empty())
    fail(path + " is empty");
  return out;
}

Entry readEntry(const Json &json, const std::string &path) {
  refuseUnsupported(asObject(json, path), path);
  checkKeys(json, path,
            {"tensor", "of", "dim", "take", "each", "permute", "unflatten",
             "flatten", "fill"});
  Entry entry;
  entry.path = path;
  entry.key = keyOf(json, path);
  entry.of = asString(require(json, path, "of"), path + ".of");
  entry.tensor = asString(require(json, path, "tensor"), path + ".tensor");
  if (const Json *dim = json.find("dim"))
    entry.dim = asInteger(*dim, path + ".dim", 0, kMaxRank);
  if (const Json *each = json.find("each"))
    entry.each = asInteger(*each, path + ".each", 0, kMaxRank);
  if (const Json *permute = json.find("permute")) {
    entry.permute = asIntegers(*permute, path + ".permute", 0);
    if (entry.permute.empty())
      fail(path + ".permute is empty");
  }
  entry.isParted = json.find("unflatten") != nullptr;
  if (const Json *flatten = json.find("flatten"))
    entry.flatten = readFlatten(*flatten, path + ".flatten");
  if (const Json *fill = json.find("fill"))
    entry.fill.emplace(*fill, path + ".fill");
  const Json *takes = json.find("take");
  if (!takes && entry.dim)
    fail(path + " has \"dim\" but no \"take\" along it");
  if (!takes)
    return entry;
  if (!entry.dim)
    entry.dim = 0;
  if (entry.each == entry.dim)
    fail(path + " has both \"take\" and \"each\" of dim " +
         std::to_string(*entry.dim));
  const std::vector<Json> &items = asArray(*takes, path + ".take").items;
  for (size_t i = 0; i < items.size(); ++i) {
    std::string where = path + ".take[" + std::to_string(i) + "]";
    entry.takes.push_back(readTake(items[i], where));
    if (entry.fill && items[i].find("zeros"))
      fail(where + " has zeros beside a \"fill\": say \"padding\"");
  }
  if (entry.takes.empty())
    fail(path + ".take is empty");
  return entry;
}

//===----------------------------------------------------------------------===//
// One tensor of the model
//===----------------------------------------------------------------------===//

/// Makes the views of one listed tensor, which are of the model's, with its
/// dims parted.
class Viewer {
public:
  Viewer(const ModelTensor &tensor, uint32_t index, const Parting &parting = {})
      : listed(tensor), parted(parting.apply(tensor)), parting(parting),
        index(index), padding(parted.shape) {}

  void add(const Entry &entry, const std::vector<std::string> &matched);
  void addWhole();
  /// All views together are the tensor.
  void check(const std::string &path) const;
  /// Where each dim of the parted tensor ends, with the padding behind it.
  const std::vector<int64_t> &ends() const { return padding; }

  std::vector<ViewDecl> views;
  std::vector<ModelTensor> tensors;

private:
  /// The tensor whose dims the entry counts.
  const ModelTensor &tensorOf(const Entry &entry) const {
    return entry.isParted ? parted : listed;
  }
  ViewDim dimOf(const Entry &entry);
  void appendPadding(const Entry &entry, int64_t count, ViewDim &out);
  Permutation orderOf(const Entry &entry) const;
  void checkDim(const Entry &entry, const char *key, int64_t dim) const;
  void append(ViewDecl view, const ModelTensor &tensor, int64_t each);
  std::string holderOf(const Box &box, const std::string &but) const;

  const ModelTensor &listed;
  ModelTensor parted;
  Parting parting;
  uint32_t index;
  std::vector<int64_t> padding; // where the next one of each dim stands
};

void Viewer::checkDim(const Entry &entry, const char *key, int64_t dim) const {
  const ModelTensor &tensor = tensorOf(entry);
  if (dim >= int64_t(tensor.shape.size()))
    fail(pathOf(entry.path, key) + " is " + std::to_string(dim) +
         ", but tensor " + inQuotes(tensor.name) + " has " +
         std::to_string(tensor.shape.size()) + " dims");
}

void appendInterval(const Entry &entry, Interval interval, ViewDim &out) {
  if (!out.intervals.empty() && out.intervals.back().hi == interval.lo)
    out.intervals.back().hi = interval.hi;
  else
    out.intervals.push_back(interval);
  if (out.intervals.size() > size_t(kMaxViewIntervals))
    fail(entry.path + ".take has more than the limit of " +
         std::to_string(kMaxViewIntervals) + " intervals");
}

/// Padding that no other view has.
void Viewer::appendPadding(const Entry &entry, int64_t count, ViewDim &out) {
  if (!entry.isParted && parting.isParted(*entry.dim))
    fail(entry.path + ".take has padding along dim " +
         std::to_string(*entry.dim) + " of tensor " + inQuotes(listed.name) +
         ", which an \"unflatten\" parts: say it here too, and padding of a "
         "part");
  int64_t dim = entry.isParted ? *entry.dim : parting.firstPart(*entry.dim);
  int64_t &next = padding[dim];
  appendInterval(entry, {next, next + count}, out);
  next += count;
  if (next > kMaxBytes)
    fail(entry.path + ".take has more padding than the limit of " +
         std::to_string(kMaxBytes));
}

/// What the entry takes of its dim.
ViewDim Viewer::dimOf(const Entry &entry) {
  ViewDim out;
  const ModelTensor &tensor = tensorOf(entry);
  int64_t size = tensor.shape[*entry.dim];
  for (const Take &take : entry.takes) {
    if (!take.from) {
      appendPadding(entry, take.size, out);
      continue;
    }
    for (int64_t i = 0; i < take.count; ++i) {
      int64_t lo = *take.from;
      if (i > (size - std::min(lo, size)) / std::max<int64_t>(take.step, 1))
        lo = size; // out of bounds whatever it is
      else
        lo += i * take.step;
      if (take.size > size || lo > size - take.size)
        fail(entry.path + ".take has " +
             (lo == size ? "element " + std::to_string(size)
                         : toString(Box::fromOffsetSize({lo}, {take.size}))) +
             " of dim " + std::to_string(*entry.dim) + ", but tensor " +
             inQuotes(tensor.name) + " has " + std::to_string(size) +
             " elements there");
      appendInterval(entry, {lo, lo + take.size}, out);
    }
  }
  return out;
}

/// The order that the entry puts the dims in; the one of `each` stays.
Permutation Viewer::orderOf(const Entry &entry) const {
  const ModelTensor &tensor = tensorOf(entry);
  std::vector<int64_t> dims;
  auto next = entry.permute.begin();
  for (int64_t d = 0; d < int64_t(tensor.shape.size()); ++d)
    if (d == entry.each)
      dims.push_back(d);
    else if (next != entry.permute.end())
      dims.push_back(*next++);
  auto order = Permutation::of(dims);
  if (next == entry.permute.end() && dims.size() == tensor.shape.size() &&
      order)
    return *order;
  std::string expected;
  for (int64_t d = 0; d < int64_t(tensor.shape.size()); ++d)
    if (d != entry.each)
      expected += (expected.empty() ? "" : ", ") + std::to_string(d);
  fail(entry.path + ".permute must be the dims " + expected + " of tensor " +
       inQuotes(tensor.name) + ", each once, in the order of " +
       inQuotes(entry.tensor));
}

/// Puts several dims of the view's tensor into one.
void flatten(const Entry &entry, TensorView &view) {
  size_t rank = view.ownDims().size(), next = 0;
  for (size_t i = 0; i < entry.flatten.size(); ++i) {
    Interval dims = entry.flatten[i];
    if (dims.hi > int64_t(rank))
      fail(entry.path + ".flatten[" + std::to_string(i) + "] ends at dim " +
           std::to_string(dims.hi - 1) + ", but tensor " +
           inQuotes(entry.tensor) + " has " + std::to_string(rank) + " dims");
    view.parts.resize(view.parts.size() + size_t(dims.lo) - next, 1);
    view.parts.push_back(uint8_t(dims.size()));
    next = size_t(dims.hi);
  }
  if (!entry.flatten.empty())
    view.parts.resize(view.parts.size() + rank - next, 1);
}

/// Whether the view has all of a dim, in its order; padding may follow.
bool isWhole(const TensorView &view, int64_t dim, int64_t size) {
  const ViewDim &own = view.dims[dim];
  return !own.isIndex && own.size() >= size &&
         own.intervals == std::vector<Interval>{{0, own.size()}};
}

/// The dim of the view's own that a dim of the tensor is, alone.
std::optional<int64_t> placeOf(const TensorView &view, int64_t dim) {
  std::vector<std::vector<unsigned>> own = view.ownDims();
  auto place =
      std::find(own.begin(), own.end(), std::vector<unsigned>{unsigned(dim)});
  if (place == own.end())
    return std::nullopt;
  return place - own.begin();
}

/// Whether what is known of how the tensor is cut says all of a view of it. Of
/// a part of what is cut, only a rule can say in which blocks, and of a dim
/// that is one with others.
bool keepsCut(const ModelTensor &tensor, const TensorView &view) {
  const std::optional<int64_t> &tp = tensor.cut.tpDim;
  const std::optional<int64_t> &experts = tensor.cut.expertDim;
  return tensor.hasCut &&
         (!tp ||
          (isWhole(view, *tp, tensor.shape[*tp]) && placeOf(view, *tp))) &&
         (!experts || view.dims[*experts].isIndex || placeOf(view, *experts));
}

/// What is known of how the tensor is cut, for a view of it.
Cut cutOf(const ModelTensor &tensor, const TensorView &view) {
  Cut cut = tensor.cut;
  // Padding of the side's own takes the place of any other. Rows are padded.
  cut.vocab = cut.vocab && isWhole(view, 0, tensor.shape[0]) &&
              placeOf(view, 0) == 0 && view.order[0] == 0 &&
              view.dims[0].size() == tensor.shape[0];
  for (std::optional<int64_t> *dim : {&cut.tpDim, &cut.expertDim})
    if (*dim)
      *dim = placeOf(view, **dim);
  // FSDP cuts the first dim that there is.
  if (view.ownDims().empty())
    cut.fsdpDim.reset();
  else if (cut.fsdpDim)
    cut.fsdpDim = 0;
  return cut;
}

/// Takes a view of `tensor`, the listed or the parted one.
void Viewer::append(ViewDecl view, const ModelTensor &tensor, int64_t each) {
  std::string problem = problemOfName(view.name);
  if (!problem.empty())
    fail(view.key.path + " names a tensor " + inQuotes(view.name) +
         ", a name that " + problem);
  problem = problemOf(view.view, tensor.shape);
  if (!problem.empty())
    fail(view.key.path + ": tensor " + inQuotes(view.name) + " " + problem +
         " of tensor " + inQuotes(tensor.name));
  ModelTensor own = tensor;
  own.name = view.name;
  own.shape = view.view.shape();
  own.cut = cutOf(tensor, view.view);
  own.hasCut = keepsCut(tensor, view.view);
  if (each >= 0 && tensor.cut.expertDim && !own.cut.expertDim)
    own.expert = each;
  tensors.push_back(std::move(own));
  if (&tensor == &listed) {
    std::string error;
    view.view = parting.carry(view.view, error);
    if (!error.empty())
      fail(view.key.path + ": tensor " + inQuotes(view.name) + " " + error +
           " of tensor " + inQuotes(listed.name));
  }
  views.push_back(std::move(view));
}

void Viewer::add(const Entry &entry, const std::vector<std::string> &matched) {
  const ModelTensor &tensor = tensorOf(entry);
  ViewDecl view;
  view.tensor = index;
  view.key = entry.key;
  for (int64_t size : tensor.shape)
    view.view.dims.push_back({{{0, size}}, false});
  if (entry.dim) {
    checkDim(entry, "dim", *entry.dim);
    view.view.dims[*entry.dim] = dimOf(entry);
  }
  if (!entry.permute.empty())
    view.view.order = orderOf(entry);
  std::string where = entry.path + ".tensor";
  std::string name = fillIn(entry.tensor, "*", matched, where);
  if (!entry.each) {
    view.name = fillIn(name, "{}", {}, where);
    flatten(entry, view.view);
    return append(std::move(view), tensor, -1);
  }
  checkDim(entry, "each", *entry.each);
  int64_t count = tensor.shape[*entry.each];
  if (count > kMaxTensors)
    fail(entry.path + ".each makes " + std::to_string(count) +
         " tensors, more than the limit of " + std::to_string(kMaxTensors));
  for (int64_t i = 0; i < count; ++i) {
    ViewDecl one = view;
    one.view.dims[*entry.each] = {{{i, i + 1}}, true};
    one.name = fillIn(name, "{}", {std::to_string(i)}, where);
    flatten(entry, one.view);
    append(std::move(one), tensor, i);
  }
}

void Viewer::addWhole() {
  ViewDecl view;
  view.tensor = index;
  view.name = listed.name;
  view.key = listed.key;
  for (int64_t size : listed.shape)
    view.view.dims.push_back({{{0, size}}, false});
  std::string error;
  view.view = parting.carry(view.view, error);
  tensors.push_back(listed);
  views.push_back(std::move(view));
}

/// The first of the views, `but` that one, that has some of the box.
std::string Viewer::holderOf(const Box &box, const std::string &but) const {
  for (const ViewDecl &view : views)
    for (const Box &own : regions(view.view, parted.shape))
      if (view.name != but && overlaps(own, box))
        return view.name;
  return "";
}

void Viewer::check(const std::string &path) const {
  std::vector<Box> boxes;
  for (const ViewDecl &view : views)
    for (const Box &box : regions(view.view, parted.shape))
      boxes.push_back(box);
  if (auto twice = firstTwice(boxes)) {
    std::string first = holderOf(*twice, "");
    fail(path + ": tensors " + inQuotes(first) + " and " +
         inQuotes(holderOf(*twice, first)) + " both have " + toString(*twice) +
         " of tensor " + inQuotes(parted.name));
  }
  if (auto hole = firstUncovered({Box::whole(parted.shape)}, boxes))
    fail(path + ": no tensor has " + toString(*hole) + " of tensor " +
         inQuotes(parted.name));
}

/// Shares of what all views of a side may have.
void take(const std::vector<ViewDecl> &views, const std::string &path,
          WorkLimit &tensors, WorkLimit &intervals) {
  tensors.take(int64_t(views.size()));
  for (const ViewDecl &view : views)
    for (const ViewDim &dim : view.view.dims)
      intervals.take(int64_t(dim.intervals.size()));
  if (tensors.isExceeded())
    fail(path + " make more tensors than the limit of " +
         std::to_string(kMaxTensors));
  if (intervals.isExceeded())
    fail(path + " have more intervals than the limit of " +
         std::to_string(kMaxRegions));
}

//===----------------------------------------------------------------------===//
// All tensors of a side
//===----------------------------------------------------------------------===//

class SideReader {
public:
  SideReader(const Json &json, const std::string &path,
             const JoinedModel &joined, const std::vector<TensorDecl> &tensors,
             Side side);
  OwnTensors read();

private:
  void addGroup(size_t group);
  void addViews(uint32_t listed);
  void addEntry(const Entry &entry, const std::vector<std::string> &matched,
                Viewer &viewer, uint32_t tensor) const;
  void refuseConcatenated(uint32_t listed);
  void carryToJoined(uint32_t listed, std::vector<int64_t> padded,
                     std::vector<ViewDecl> &views);
  void add(Viewer &viewer, std::vector<ViewDecl> views);

  const std::string &path;
  const JoinedModel &joined;
  const std::vector<TensorDecl> &declared; // those of the joined model
  Side side;
  std::vector<Entry> entries;
  std::vector<std::pair<Group, JsonKey>> groups;
  std::unordered_map<uint32_t, size_t> groupOf; // of listed tensors
  std::unordered_map<uint32_t, int64_t> zeros;  // behind joined tensors
  WorkLimit tensors{kMaxTensors}, intervals{kMaxRegions};
  std::unordered_set<std::string> names;
  OwnTensors own;
};

SideReader::SideReader(const Json &json, const std::string &path,
                       const JoinedModel &joined,
                       const std::vector<TensorDecl> &tensors, Side side)
    : path(path), joined(joined), declared(tensors), side(side) {
  checkCount(asArray(json, path).items.size(), kMaxRules, path, "views");
  TensorsByName listed(joined.listed);
  for (size_t i = 0; i < json.items.size(); ++i) {
    std::string where = path + "[" + std::to_string(i) + "]";
    auto concat = readConcat(json.items[i], where);
    if (!concat) {
      entries.push_back(readEntry(json.items[i], where));
      continue;
    }
    for (Group &group : groupsOf(*concat, listed)) {
      for (uint32_t tensor : group.tensors)
        groupOf[tensor] = groups.size();
      groups.emplace_back(std::move(group), concat->key);
    }
  }
}

/// The entries that match are of a tensor that is in another of this side.
void SideReader::refuseConcatenated(uint32_t listed) {
  const std::string &name = joined.listed.tensors[listed].name;
  for (const Entry &entry : entries)
    if (matchGlob(entry.of, name))
      fail(entry.path + ".of matches tensor " + inQuotes(name) +
           ", which is in a \"concat\" of this side");
}

void SideReader::addGroup(size_t number) {
  const auto &[group, key] = groups[number];
  uint32_t index = joined.parts[group.tensors.front()].tensor;
  const JoinedTensor &one = joined.ones.at(index);
  ModelTensor tensor = one.tensor;
  tensor.name = group.name;
  tensor.key = key;
  Viewer viewer(tensor, index, one.parting);
  viewer.addWhole();
  add(viewer, std::move(viewer.views));
}

/// Views of a part as views of the joined tensor. Zeros, which stand behind the
/// part, stand behind all of it.
void SideReader::carryToJoined(uint32_t listed, std::vector<int64_t> padded,
                               std::vector<ViewDecl> &views) {
  const PartOf &part = joined.parts[listed];
  int64_t size = joined.partings[listed]
                     .apply(joined.listed.tensors[listed])
                     .shape[part.dim];
  int64_t all = joined.model.tensors[part.tensor].shape[part.dim];
  if (all == size)
    return; // it is all of it
  int64_t &behind = zeros[part.tensor];
  for (ViewDecl &view : views) {
    std::vector<Interval> out;
    auto append = [&](Interval interval) {
      if (!out.empty() && out.back().hi == interval.lo)
        out.back().hi = interval.hi;
      else if (!interval.empty())
        out.push_back(interval);
    };
    int64_t shift = all + behind - size;
    for (Interval own : view.view.dims[part.dim].intervals) {
      Interval real = intersect(own, {0, size});
      append({real.lo + part.offset, real.hi + part.offset});
      Interval zero = {std::max(own.lo, size), own.hi};
      append({zero.lo + shift, zero.hi + shift});
    }
    view.view.dims[part.dim].intervals = std::move(out);
  }
  behind += padded[part.dim] - size;
}

void SideReader::addEntry(const Entry &entry,
                          const std::vector<std::string> &matched,
                          Viewer &viewer, uint32_t tensor) const {
  size_t first = viewer.views.size();
  viewer.add(entry, matched);
  if (!entry.fill)
    return;
  std::vector<uint64_t> bits = entry.fill->bitsOf(declared[tensor], side);
  for (size_t i = first; i < viewer.views.size(); ++i)
    viewer.views[i].view.fill = bits;
}

void SideReader::addViews(uint32_t listed) {
  const ModelTensor &tensor = joined.listed.tensors[listed];
  Viewer viewer(tensor, joined.parts[listed].tensor, joined.partings[listed]);
  for (Entry &entry : entries)
    if (auto matched = matchGlob(entry.of, tensor.name)) {
      entry.matches = true;
      addEntry(entry, *matched, viewer, joined.parts[listed].tensor);
    }
  if (viewer.views.empty())
    viewer.addWhole();
  viewer.check(path);
  std::vector<ViewDecl> views = std::move(viewer.views);
  if (!tensor.shape.empty())
    carryToJoined(listed, viewer.ends(), views);
  add(viewer, std::move(views));
}

void SideReader::add(Viewer &viewer, std::vector<ViewDecl> views) {
  take(views, path, tensors, intervals);
  for (ViewDecl &view : views) {
    if (!names.insert(view.name).second)
      fail(path + " name tensor " + inQuotes(view.name) + " a second time");
    own.views.push_back(std::move(view));
  }
  for (ModelTensor &tensor : viewer.tensors)
    own.model.tensors.push_back(std::move(tensor));
}

OwnTensors SideReader::read() {
  own.model.layers = joined.model.layers;
  own.model.experts = joined.model.experts;
  std::vector<bool> isDone(groups.size());
  for (uint32_t t = 0; t < joined.listed.tensors.size(); ++t) {
    auto group = groupOf.find(t);
    if (group == groupOf.end()) {
      addViews(t);
      continue;
    }
    refuseConcatenated(t);
    if (!isDone[group->second])
      addGroup(group->second);
    isDone[group->second] = true;
  }
  for (const Entry &entry : entries)
    if (!entry.matches)
      fail(entry.path + ".of is " + inQuotes(entry.of) +
           ", which no tensor of the model matches");
  return std::move(own);
}

} // namespace

OwnTensors readViews(const Json &json, const std::string &path,
                     const JoinedModel &joined,
                     const std::vector<TensorDecl> &tensors, Side side) {
  SideReader reader(json, path, joined, tensors, side);
  return reader.read();
}

void sortByName(const std::vector<std::string> &names, OwnTensors &own) {
  std::unordered_map<std::string, size_t> from;
  for (size_t i = 0; i < own.views.size(); ++i)
    from.emplace(own.views[i].name, i);
  OwnTensors sorted;
  sorted.model = own.model;
  sorted.model.tensors.clear();
  for (const std::string &name : names) {
    size_t i = from.at(name);
    sorted.views.push_back(std::move(own.views[i]));
    sorted.model.tensors.push_back(std::move(own.model.tensors[i]));
  }
  own = std::move(sorted);
}

std::vector<TensorDecl> declareOwn(const OwnTensors &own,
                                   const std::vector<TensorDecl> &tensors) {
  std::vector<TensorDecl> out;
  for (const ViewDecl &view : own.views) {
    TensorDecl decl = tensors[view.tensor];
    decl.name = view.name;
    decl.shape = view.view.shape();
    out.push_back(std::move(decl));
  }
  return out;
}

void carryToModel(OwnTensors own, LayoutDecl &layout) {
  for (PlaceDecl &place : layout.places) {
    place.view = place.tensor;
    place.tensor = own.views[*place.view].tensor;
    if (place.key.path.empty())
      place.key = own.views[*place.view].key;
  }
  layout.views = std::move(own.views);
}

} // namespace dt::request
