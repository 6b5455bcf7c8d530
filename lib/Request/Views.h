//===- Views.h - A side's own tensors ---------------------------*- C++ -*-===//
//
// A side that names or cuts the model's tensors in another way says how, in
// "views": each of its own tensors is what it takes of one tensor of the model.
// Its layout is then made of its own tensors.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_REQUEST_VIEWS_H
#define DT_LIB_REQUEST_VIEWS_H

#include "JoinedTensors.h"
#include "ModelFile.h"

#include "dt/Request/Request.h"

namespace dt::request {

/// The tensors of a side: in the order of the listed tensors, and those of one
/// in the order in which `views` has them; one of several stands where the
/// first of these does.
struct OwnTensors {
  std::vector<ViewDecl> views;
  /// The same tensors; what model types know of theirs goes over to their
  /// views.
  Model model;
};

/// Reads `views` of a side, at `path`, of the listed tensors, as views of the
/// joined model's. What no entry names stays what it is. Fails where the views
/// of a tensor have an element twice, or lack one. `tensors` are those of the
/// joined model, with their states.
OwnTensors readViews(const Json &views, const std::string &path,
                     const JoinedModel &joined,
                     const std::vector<TensorDecl> &tensors, Side side);

/// Puts the tensors in the order of these names, which are all of theirs.
void sortByName(const std::vector<std::string> &names, OwnTensors &own);

/// The views with the states that their tensors have in `tensors`.
std::vector<TensorDecl> declareOwn(const OwnTensors &own,
                                   const std::vector<TensorDecl> &tensors);

/// A layout made of own tensors as one of the request's.
void carryToModel(OwnTensors own, LayoutDecl &layout);

} // namespace dt::request

#endif // DT_LIB_REQUEST_VIEWS_H
