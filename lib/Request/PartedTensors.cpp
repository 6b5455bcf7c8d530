//===- PartedTensors.cpp - Dims of tensors that a side unflattens ---------===//

#include "PartedTensors.h"

#include "Names.h"

#include "dt/Geometry/Box.h"
#include "dt/Geometry/Limits.h"

#include <algorithm>

namespace dt::request {

namespace {

int64_t readDim(const std::string &key, const std::string &path) {
  bool isNumber = key.size() == 1 && key.front() >= '0' && key.front() <= '9';
  if (!isNumber)
    fail(path + " has the key " + inQuotes(key) +
         ", expected the number of a dim");
  return key.front() - '0';
}

std::vector<int64_t> readSizes(const Json &json, const std::string &path) {
  std::vector<int64_t> sizes = asIntegers(json, path, -1);
  if (sizes.size() < 2)
    fail(path + " must have two sizes or more");
  if (sizes.size() > kMaxRank)
    fail(path + " has " + std::to_string(sizes.size()) +
         " sizes, more than the limit of " + std::to_string(kMaxRank));
  if (std::count(sizes.begin(), sizes.end(), 0) != 0)
    fail(path + " has a size of 0");
  if (std::count(sizes.begin(), sizes.end(), -1) > 1)
    fail(path + " leaves more than one size, -1, to be found");
  return sizes;
}

std::string textOf(const std::vector<int64_t> &sizes) {
  std::string text;
  for (int64_t size : sizes)
    text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

/// The sizes with the one that is -1; nothing where they are not of `all`.
std::optional<std::vector<int64_t>> complete(std::vector<int64_t> sizes,
                                             int64_t all) {
  int64_t rest = all;
  for (int64_t size : sizes) {
    if (size == -1)
      continue;
    if (rest % size != 0)
      return std::nullopt;
    rest /= size;
  }
  auto open = std::find(sizes.begin(), sizes.end(), -1);
  if (open != sizes.end())
    *open = std::exchange(rest, 1);
  if (rest != 1)
    return std::nullopt;
  return sizes;
}

/// The order of a view that has these dims, one after the other, and others as
/// an index alone, which stay at their places.
Permutation orderOf(const std::vector<int64_t> &own,
                    const std::vector<ViewDim> &dims) {
  std::vector<int64_t> places;
  auto next = own.begin();
  for (size_t d = 0; d < dims.size(); ++d)
    places.push_back(dims[d].isIndex ? int64_t(d) : *next++);
  return *Permutation::of(places);
}

} // namespace

std::optional<Unflatten> readUnflatten(const Json &entry,
                                       const std::string &path) {
  const Json *json = entry.isObject() ? entry.find("unflatten") : nullptr;
  if (!json)
    return std::nullopt;
  Unflatten out;
  out.path = path;
  std::string where = path + ".unflatten";
  for (const Json::Member &member : asObject(*json, where).members)
    out.sizes[readDim(member.first, where)] =
        readSizes(member.second, pathOf(where, member.first));
  if (out.sizes.empty())
    fail(where + " is empty");
  return out;
}

Parting::Parting(const Unflatten &unflatten, const ModelTensor &tensor) {
  constexpr size_t limit = kMaxRank - 2; // families add layer and expert
  for (int64_t size : tensor.shape)
    sizes.push_back({size});
  size_t rank = tensor.shape.size();
  for (const auto &[dim, wanted] : unflatten.sizes) {
    std::string path =
        pathOf(unflatten.path + ".unflatten", std::to_string(dim));
    if (dim >= int64_t(tensor.shape.size()))
      fail(path + " is of a dim that tensor " + inQuotes(tensor.name) +
           ", of " + std::to_string(tensor.shape.size()) +
           " dims, does not have");
    auto found = complete(wanted, tensor.shape[dim]);
    if (!found)
      fail(path + " has " + textOf(wanted) + " elements, but dim " +
           std::to_string(dim) + " of tensor " + inQuotes(tensor.name) +
           " has " + std::to_string(tensor.shape[dim]));
    rank += found->size() - 1;
    sizes[dim] = std::move(*found);
  }
  if (rank > limit)
    fail(unflatten.path + ".unflatten makes tensor " + inQuotes(tensor.name) +
         " one of " + std::to_string(rank) + " dims, more than the limit of " +
         std::to_string(limit));
}

int64_t Parting::firstPart(int64_t dim) const {
  int64_t first = dim;
  for (int64_t d = 0; d < dim && !empty(); ++d)
    first += int64_t(sizes[d].size()) - 1;
  return first;
}

/// Where a dim that is not parted stands.
std::optional<int64_t> Parting::place(std::optional<int64_t> dim) const {
  if (!dim || isParted(*dim))
    return std::nullopt;
  return firstPart(*dim);
}

ModelTensor Parting::apply(const ModelTensor &tensor) const {
  if (empty())
    return tensor;
  ModelTensor out = tensor;
  out.shape.clear();
  for (const std::vector<int64_t> &parts : sizes)
    out.shape.insert(out.shape.end(), parts.begin(), parts.end());
  const megatron::Cut &cut = tensor.cut;
  out.cut.tpDim = place(cut.tpDim);
  out.cut.expertDim = place(cut.expertDim);
  if (cut.fsdpDim)
    out.cut.fsdpDim = firstPart(*cut.fsdpDim);
  out.cut.vocab &= !isParted(0);
  out.hasCut &= cut.tpDim.has_value() == out.cut.tpDim.has_value() &&
                cut.expertDim.has_value() == out.cut.expertDim.has_value();
  return out;
}

TensorView Parting::carry(const TensorView &view, std::string &error) const {
  if (empty())
    return view;
  TensorView out;
  for (size_t d = 0; d < sizes.size(); ++d) {
    auto parts = unflattened(view.dims[d].intervals, sizes[d]);
    if (!parts) {
      error = "takes of dim " + std::to_string(d) +
              " what is not the same part of each row of its " +
              textOf(sizes[d]) + " elements";
      return view;
    }
    bool isWhole = sizes[d].size() == 1; // its intervals stay as they are
    for (std::vector<Interval> &part : *parts)
      out.dims.push_back({isWhole ? view.dims[d].intervals : std::move(part),
                          view.dims[d].isIndex});
  }
  std::vector<int64_t> own;
  for (const std::vector<unsigned> &dims : view.ownDims()) {
    size_t before = own.size();
    for (unsigned dim : dims)
      for (size_t part = 0; part < sizes[dim].size(); ++part)
        own.push_back(firstPart(dim) + int64_t(part));
    out.parts.push_back(uint8_t(own.size() - before));
  }
  if (out.parts.size() == own.size())
    out.parts.clear();
  out.order = orderOf(own, out.dims);
  return out;
}

/// How a tensor is parted, as the first of those that are one along `dim` is.
Parting Partings::alike(uint32_t first, uint32_t tensor, int64_t dim) const {
  auto textOfNames = [&] {
    return inQuotes(listed.tensors[tensor].name) + " and " +
           inQuotes(listed.tensors[first].name) +
           ", which are in one \"concat\"";
  };
  Parting out = partings[first];
  std::vector<int64_t> &along = out.sizes[dim];
  int64_t size = listed.tensors[tensor].shape[dim], row = 1;
  for (size_t part = 1; part < along.size(); ++part)
    row *= along[part];
  if (size % row != 0)
    fail(paths[first] + ".unflatten parts dim " + std::to_string(dim) +
         " of tensors " + textOfNames() + ", in rows of " +
         std::to_string(row) + " elements, but the one has " +
         std::to_string(size));
  along.front() = size / row;
  if (!partings[tensor].empty() && !(partings[tensor] == out))
    fail(paths[tensor] + ".unflatten parts tensors " + textOfNames() +
         ", in two ways");
  return out;
}

JoinedParting Partings::joined(const std::vector<uint32_t> &tensors,
                               int64_t dim) const {
  JoinedParting out;
  auto first = std::find_if(tensors.begin(), tensors.end(),
                            [&](uint32_t t) { return !partings[t].empty(); });
  if (first == tensors.end()) {
    out.parts.resize(tensors.size());
    return out;
  }
  int64_t slowest = 0;
  for (uint32_t tensor : tensors) {
    out.parts.push_back(alike(*first, tensor, dim));
    slowest += out.parts.back().sizes[dim].front();
  }
  out.whole = out.parts.front();
  out.whole.sizes[dim].front() = slowest;
  return out;
}

void Partings::add(const Unflatten &unflatten, const std::string &of) {
  for (size_t t = 0; t < listed.tensors.size(); ++t) {
    if (!matchGlob(of, listed.tensors[t].name))
      continue;
    Parting parting(unflatten, listed.tensors[t]);
    if (partings[t].empty()) {
      partings[t] = std::move(parting);
      paths[t] = unflatten.path;
      any = true;
    } else if (!(partings[t] == parting)) {
      fail(unflatten.path + ".unflatten parts tensor " +
           inQuotes(listed.tensors[t].name) + " in another way than " +
           paths[t]);
    }
  }
}

} // namespace dt::request
