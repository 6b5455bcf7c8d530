//===- Model.h - The tensors of a model and how each may be cut -*- C++ -*-===//
//
// A model file becomes a list of tensors in registration order. Tensors of
// known model types bring Megatron-Core's cuts with them; those of flat lists
// wait for the request's rules (Rules.h).
//
//===----------------------------------------------------------------------===//

#ifndef DT_MEGATRON_MODEL_H
#define DT_MEGATRON_MODEL_H

#include "dt/Geometry/DType.h"
#include "dt/Geometry/StateDecl.h"
#include "dt/Json/JsonKey.h"

#include <optional>
#include <string>
#include <vector>

namespace dt::megatron {

/// Which pipeline stages hold a tensor.
enum class Stage {
  Layer,        // the stage of its layer
  First,        // embeddings
  Last,         // final norm, output layer, MTP
  FirstAndLast, // tied embeddings: both hold a copy
  Every,
};

/// How the parallel sizes cut one tensor.
struct Cut {
  std::optional<int64_t> tpDim;
  std::optional<int64_t> fsdpDim;
  /// Sizes, along `tpDim`, of packed parts that are cut one by one.
  std::vector<int64_t> blocks;
  /// Per block, how many ranks that follow each other hold a piece; empty: one.
  std::vector<int64_t> replicas = {};
  bool expert = false; // lives on the expert grid
  /// The dim that counts experts, of a tensor that has all of them.
  std::optional<int64_t> expertDim = {};
  /// Dim 0 is a vocabulary: padded to a multiple of vocab_multiple x tp.
  bool vocab = false;
};

struct ModelTensor {
  std::string name;
  std::vector<int64_t> shape;
  DType dtype = DType::BF16;
  /// Its own, in place of the request's; empty: none given.
  std::vector<StateDecl> states;
  /// The storage that it shares with others; empty: none.
  std::string storage;
  /// Buffers are state without an optimizer: never sharded, only `param`.
  bool buffer = false;
  bool hasCut = false; // else a rule must match
  Cut cut;
  Stage stage = Stage::Layer;
  int64_t layer = -1;  // -1: of no layer
  int64_t expert = -1; // -1: of no expert
  JsonKey key = {};
};

/// Of linear attention (a gated delta net): heads, and rows of a head.
struct LinearHeads {
  int64_t keys = 0, keyDim = 0; // queries are as many
  int64_t values = 0, valueDim = 0;
};

struct Model {
  std::vector<ModelTensor> tensors;
  int64_t layers = 0;
  int64_t experts = 0;
  /// Of a config.json: its model type, query heads, groups of key and value
  /// heads, and rows of a head; of latent attention the rank of queries. Empty:
  /// a list of tensors.
  std::string type = {};
  int64_t heads = 0, groups = 0, headDim = 0, queryRank = 0;
  bool outputGate = false; // a group has a gate for each of its queries
  LinearHeads linear = {};
};

} // namespace dt::megatron

#endif // DT_MEGATRON_MODEL_H
