//===- PartedTensors.h - Dims of tensors that a side unflattens -*- C++ -*-===//
//
// A view has, per dim, intervals of one tensor. Where a side has the rows of
// two halves of a dim in turns, say, the plan is about a tensor with the halves
// as a dim of their own. What is said of the listed tensor is said of that one
// with some of its dims flattened.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_REQUEST_PARTEDTENSORS_H
#define DT_LIB_REQUEST_PARTEDTENSORS_H

#include "ModelFile.h"

#include "dt/Geometry/TensorView.h"

#include <map>

namespace dt::request {

/// `unflatten` of an entry of `views`: sizes by dim, of which one may be -1.
struct Unflatten {
  std::string path; // of the entry
  std::map<int64_t, std::vector<int64_t>> sizes;
};

/// Nothing for an entry without.
std::optional<Unflatten> readUnflatten(const Json &entry,
                                       const std::string &path);

/// How the dims of one tensor are parted.
class Parting {
public:
  Parting() = default;
  /// Fails where the sizes are not those of the tensor.
  Parting(const Unflatten &unflatten, const ModelTensor &tensor);

  /// It has the dims that the list has.
  bool empty() const { return sizes.empty(); }
  /// The tensor with the parts as dims. Where a part is of a dim that the sizes
  /// of a layout cut, only a rule can say how.
  ModelTensor apply(const ModelTensor &tensor) const;
  /// The first of the dims that a listed dim is parted into.
  int64_t firstPart(int64_t dim) const;
  bool isParted(int64_t dim) const { return !empty() && sizes[dim].size() > 1; }
  /// A view of the listed tensor as one of the parted. What of a dim is no
  /// product of intervals of its parts is an error, of half a sentence.
  TensorView carry(const TensorView &view, std::string &error) const;

  friend bool operator==(const Parting &a, const Parting &b) {
    return a.sizes == b.sizes;
  }

private:
  friend class Partings;
  std::optional<int64_t> place(std::optional<int64_t> dim) const;

  std::vector<std::vector<int64_t>> sizes; // per listed dim, one or more
};

/// How tensors are parted that are one along a dim, and how that one is.
struct JoinedParting {
  std::vector<Parting> parts;
  Parting whole;
};

/// The partings of a model's tensors that the entries of a side, or both, say.
class Partings {
public:
  explicit Partings(const Model &listed)
      : listed(listed), partings(listed.tensors.size()),
        paths(listed.tensors.size()) {}

  void add(const Unflatten &unflatten, const std::string &of);
  bool empty() const { return !any; }
  const Parting &of(uint32_t tensor) const { return partings[tensor]; }
  /// Of tensors that are one along `dim`. What is said of some holds of all,
  /// but for how many of the slowest part of `dim` each has. Fails where they
  /// differ otherwise.
  JoinedParting joined(const std::vector<uint32_t> &tensors, int64_t dim) const;

private:
  Parting alike(uint32_t first, uint32_t tensor, int64_t dim) const;

  const Model &listed;
  std::vector<Parting> partings;
  std::vector<std::string> paths;
  bool any = false;
};

} // namespace dt::request

#endif // DT_LIB_REQUEST_PARTEDTENSORS_H
