//===- FrameworkTensors.h - The tensors of frameworks -----------*- C++ -*-===//
//
// Which tensors a framework's model of a known type has, by the tensor of
// Megatron-Core's that each is a part of.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_REQUEST_FRAMEWORKTENSORS_H
#define DT_LIB_REQUEST_FRAMEWORKTENSORS_H

#include <string>
#include <vector>

namespace dt::request {

enum class Framework { Megatron, HuggingFace, Vllm, Torchtitan };

/// As a request says it.
const char *nameOf(Framework framework);
constexpr Framework kFrameworks[] = {Framework::Megatron,
                                     Framework::HuggingFace, Framework::Vllm,
                                     Framework::Torchtitan};

/// What a framework's tensor has of Megatron-Core's.
enum class Part {
  All,
  Whole, // all, which tensor parallelism does not cut
  Rows,  // all, which it cuts by rows
  Query, // and its gate, where there is one
  Key,
  Value,
  QueryPairs, // a head's rows r and r + half of it beside each other
  KeyPairs,
  QueryKeyValue,       // of all groups, then the next
  QueryKeyHalvesValue, // of a head of the first two each second row, then the
                       // others
  KeyHeads, // of linear attention: by key head its query, key, values and gates
  KeyHeadScalars, // by key head beta and alpha of its values
  Gate,
  Up,
  ExpertGate, // of all experts of a layer
  ExpertUp,
  QueryDown, // of latent attention's joined projections down
  KeyValueDown,
  Vocabulary,  // padded
  OfFirstRank, // others of the experts' tensor parallelism have zeros
};

/// How the dims of a framework's tensor stand.
enum class Form {
  AsIs,
  Transposed, // the last two in each other's place
  // Of all experts of a layer: one of gate before each of up,
  RowsInTurns,
  ColumnsInTurns, // and the other dims in reverse
};
/// The plan then has gate and up as a dim of their own.
constexpr bool isInTurns(Form form) {
  return form == Form::RowsInTurns || form == Form::ColumnsInTurns;
}

struct FrameworkTensor {
  const char *of;     // a glob on Megatron-Core's
  const char *tensor; // `*` is what that of `of` matched; {}: the expert
  Part part = Part::All;
  Form form = Form::AsIs;
};

/// The model types that a framework is known for.
const std::vector<std::string> &typesOf(Framework framework);

/// Of a model type that the framework is known for. Some may match no tensor of
/// a model.
std::vector<FrameworkTensor> tensorsOf(Framework framework,
                                       const std::string &type);

} // namespace dt::request

#endif // DT_LIB_REQUEST_FRAMEWORKTENSORS_H
