//===- Frameworks.h - How frameworks cut known models -----------*- C++ -*-===//
//
// The model is what Megatron-Core registers, experts of a layer as one tensor.
// What a framework has of it is told as views and rules: the same that a
// request may say of any other tensors.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_REQUEST_FRAMEWORKS_H
#define DT_LIB_REQUEST_FRAMEWORKS_H

#include "FrameworkTensors.h"
#include "ModelFile.h"

namespace dt::request {

/// `framework` of a side; Megatron without one. Fails where the model is of no
/// type that it is known for.
Framework readFramework(const Json &layout, const std::string &path,
                        const Model &model);

/// The model with all experts of a layer in one tensor, experts first.
Model withStackedExperts(Model model);

/// The model with latent attention's projections down of queries and of keys
/// and values in one tensor, as vLLM has them.
Model withJoinedProjections(Model model);

/// `tp` and `etp` of a side. Fails where the framework cannot cut the model so.
struct Ways {
  int64_t tp = 1, etp = 1;
};
Ways readWays(Framework framework, const Model &model, const Json &layout,
              const std::string &path);

/// What a framework's side says of a model that these made.
struct FrameworkWords {
  Json views, rules;
};
FrameworkWords wordsOf(Framework framework, const Model &model, Ways ways,
                       const std::string &path);

/// The entries of a framework's `views` that unflatten dims of the model's
/// tensors: both sides are then views of the parts.
Json unflattensOf(Framework framework, const Model &model,
                  const std::string &path);

/// Embeddings are padded to a multiple of this times `tp`, unless the side says
/// another. `standard` is the request's.
int64_t vocabMultipleOf(Framework framework, int64_t standard);

} // namespace dt::request

#endif // DT_LIB_REQUEST_FRAMEWORKS_H
