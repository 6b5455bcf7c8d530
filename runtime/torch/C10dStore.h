//===- C10dStore.h - The trainer's store, both ways -------------*- C++ -*-===//
//
// The runtime speaks to a store of c10d as to any other; and what c10d makes
// for a switch, such as Gloo's connections, finds its keys through the ranks'
// rendezvous. So these keys belong to the switch, and waits for them end with
// it.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TORCH_C10DSTORE_H
#define DTRT_TORCH_C10DSTORE_H

#include "dtrt/store/Rendezvous.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace dtrt {

/// A value as c10d has it.
using Bytes = std::vector<uint8_t>;
inline Bytes bytesOf(const std::string &text) {
  return {text.begin(), text.end()};
}
inline std::string textOf(const Bytes &bytes) {
  return {bytes.begin(), bytes.end()};
}

/// The trainer's store. Where it has one connection, which a waiting thread of
/// the trainer would hold, this has one of its own.
std::shared_ptr<Store> makeC10dStore(c10::intrusive_ptr<c10d::Store> store);

/// A store for c10d, of the attempt that these ranks are at.
c10::intrusive_ptr<c10d::Store>
makeAttemptStore(std::shared_ptr<Rendezvous> ranks);

/// The first line of what c10d or Gloo threw, without the place in its source.
std::string reasonOf(const std::exception &error);

} // namespace dtrt

#endif // DTRT_TORCH_C10DSTORE_H
