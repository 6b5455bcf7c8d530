//===- ModelShape.h - What a model costs, layer by layer --------*- C++ -*-===//
//
// The tensors of a model with how the parallel sizes cut them (as the request
// reader says), and per layer the arithmetic and the activations of a token.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ADVISE_MODELSHAPE_H
#define DT_ADVISE_MODELSHAPE_H

#include "dt/Megatron/Model.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dt::advise {

/// Tensors that are cut alike have one class.
struct TensorClass {
  std::vector<int64_t> shape;
  int tpDim = -1;              // -1: not cut
  int fsdpDim = -1;            // -1: not cut
  std::vector<int64_t> blocks; // packed parts along tpDim
  bool isExpert = false;
  bool isVocab = false;
  /// Bytes per element of states that the layout's other sizes cut (param,
  /// grad), and of those that ZeRO cuts.
  int64_t wholeBytes = 0, cutBytes = 0;
};

/// One tensor, in registration order.
struct ShapeTensor {
  int32_t kind = 0; // index into ModelShape::classes
  megatron::Stage stage = megatron::Stage::Layer;
  int32_t layer = -1;
  int32_t expert = -1;
};

/// How many tensors of a class lie somewhere, all experts counted.
struct ClassCount {
  int32_t kind = 0;
  int64_t count = 0;
};

/// Floating-point operations of one token's forward and elements that its
/// backward needs.
struct LayerCost {
  double tpFlops = 0;         // matrices that tensor parallelism cuts
  double replicatedFlops = 0; // that it does not
  double mlpFlops = 0;        // of tpFlops, in the feed-forward part
  double expertFlops = 0;     // of the experts that one token goes through
  double coreFlops = 0;       // attention, per token it looks at
  double attentionSaved = 0;  // elements kept for backward, of attention
  double mlpSaved = 0;        // of the feed-forward part's insides
  double expertSaved = 0;     // the same of experts
  double ioSaved = 0;         // input of both parts, always kept
  double keyValue = 0;        // elements of keys and values
};

struct ModelShape {
  std::vector<TensorClass> classes;
  std::vector<ShapeTensor> tensors;
  int64_t layers = 0;
  int64_t experts = 0;
  int64_t topk = 0; // experts per token
  int64_t heads = 0;
  int64_t groups = 0; // of keys and values
  int64_t hidden = 0;
  int64_t vocab = 0;
  bool isTied = false;
  std::vector<LayerCost> costs; // per layer
  /// The tensors above, counted: per layer, and on the first and last stage.
  std::vector<std::vector<ClassCount>> inLayer;
  std::vector<ClassCount> inFirst, inLast, inFirstAndLast;
  LayerCost last;     // prediction layers, on the last stage
  int64_t logits = 1; // times the output layer runs per token
};

/// Elements of one rank's local tensor along each dim, for tensor-parallel size
/// `tp` (the experts' where the tensor is one), coordinate 0 of `fsdp` ways.
/// Padding of the vocabulary included. Returns 0 when `tp` does not divide.
int64_t localElements(const TensorClass &kind, int64_t tp, int64_t denseTp,
                      int64_t fsdp, int64_t vocabMultiple);

} // namespace dt::advise

#endif // DT_ADVISE_MODELSHAPE_H
