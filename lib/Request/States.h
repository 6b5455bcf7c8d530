//===- States.h - Which states exist on which side --------------*- C++ -*-===//

#ifndef DT_LIB_REQUEST_STATES_H
#define DT_LIB_REQUEST_STATES_H

#include "dt/Json/Json.h"

#include "dt/Request/Request.h"

namespace dt::request {

using namespace json;

/// The layouts of a transition, as they are written.
struct Sides {
  const Json &source;
  const Json &destination;

  const Json &of(Side side) const {
    return side == Side::Source ? source : destination;
  }
};

/// States of the request: `state` at the top and inside the sides, `derive`
/// and `drop`. Those of the source come first, in its order. Empty: none
/// given, which means `param` in each tensor's own dtype. With `tensorsHaveOwn`
/// none need be given for `derive` and `drop` to have a meaning.
std::vector<StateDecl> readStates(const Json &request, const Sides &sides,
                                  bool tensorsHaveOwn);

/// A tensor's own states, with what the request's `derive` and `drop` say of
/// them.
std::vector<StateDecl> completeOwnStates(const Json &request,
                                         const std::string &tensor,
                                         std::vector<StateDecl> states);

/// Fails when a tensor, named by `path`, has more bytes on a side, all states
/// together, than the limit.
void checkBytes(const TensorDecl &tensor, const std::string &path);

/// The tensors with only the states that exist on a side.
std::vector<TensorDecl> tensorsOn(Side side,
                                  const std::vector<TensorDecl> &tensors);

/// Takes the states of the tensors that the destination is `without`, by globs
/// on their names, from it.
void leaveOut(const Sides &sides, std::vector<TensorDecl> &tensors);

/// In a layout made for `existing`, a place without state names means all that
/// exist there: spells them out where the tensor has more.
void nameStates(const std::vector<TensorDecl> &all,
                const std::vector<TensorDecl> &existing, LayoutDecl &layout);

} // namespace dt::request

#endif // DT_LIB_REQUEST_STATES_H
