//===- JoinedTensors.h - Tensors that a side concatenates -------*- C++ -*-===//
//
// A view is a part of one tensor. Where a side has one tensor of what the
// request lists as several, the plan is about the joined one: all that is said
// of the listed ones is said of parts of it.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_REQUEST_JOINEDTENSORS_H
#define DT_LIB_REQUEST_JOINEDTENSORS_H

#include "PartedTensors.h"

#include <map>
#include <unordered_map>

namespace dt::request {

/// An entry of `views` with "concat".
struct Concat {
  std::string path;
  std::vector<std::string> of; // globs, with the same in place of each `*`
  std::string tensor;
  int64_t dim = 0;
  JsonKey key;
};

/// Nothing for an entry of another kind.
std::optional<Concat> readConcat(const Json &entry, const std::string &path);

/// Tensors of a list that are one on a side, in the order in which it has them.
struct Group {
  std::string name; // on the side
  std::vector<uint32_t> tensors;
  int64_t dim = 0;
};

/// A model's tensors by name, looked up by all entries of a side.
class TensorsByName {
public:
  explicit TensorsByName(const Model &model) : model(model) {}
  const std::vector<ModelTensor> &tensors() const { return model.tensors; }
  std::optional<uint32_t> find(const std::string &name);

private:
  const Model &model;
  std::unordered_map<std::string, uint32_t> numbers; // from the first look on
};

/// The groups that an entry makes, one at least. Fails where a tensor is not
/// there, or they cannot be one.
std::vector<Group> groupsOf(const Concat &concat, TensorsByName &listed);

/// What of a joined model a listed tensor is: from `offset` on along `dim`,
/// both of its dims as they are parted.
struct PartOf {
  uint32_t tensor = 0;
  int64_t dim = 0, offset = 0;
};

/// A tensor that several are, with the dims that they have in the list, and how
/// these are parted.
struct JoinedTensor {
  ModelTensor tensor;
  Parting parting;
};

struct JoinedModel {
  Model model;
  Model listed;
  std::vector<PartOf> parts;             // of `listed`
  std::vector<Parting> partings;         // likewise
  std::map<uint32_t, JoinedTensor> ones; // by number in `model`
};

/// A model that nobody joins or parts.
JoinedModel unjoined(const Model &model);

/// Joins what `views` of the source or of the destination concatenate, and
/// parts the dims that they unflatten; either may be null. Nothing where there
/// is none of both.
std::optional<JoinedModel>
joinTensors(const Json *source, const Json *destination, const Model &listed);

} // namespace dt::request

#endif // DT_LIB_REQUEST_JOINEDTENSORS_H
