//===- AbortableBackend.h - A c10d backend that can be aborted --*- C++ -*-===//
//
// Gloo cannot end what waits in it. A collective that misses a process ends
// where a connection of this very process breaks; one that waits for processes
// which wait themselves does not; and a send whose connection breaks while its
// bytes are being written ends with its timeout only (Gloo's transport/tcp,
// Pair::signalException, tells no unbound buffer of what is left to write).
//
// This backend hands all operations to another one, and waits itself: `abort`
// ends every wait at once. What the other backend still does goes on by itself;
// it keeps the tensors until then, and nobody waits for it.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TORCH_ABORTABLEBACKEND_H
#define DTRT_TORCH_ABORTABLEBACKEND_H

#include <pybind11/pybind11.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace dtrt {

/// Operations of `inner`, which must be used by nobody else. `abort`, from any
/// thread, lets all that is under way and all that is to come fail, with
/// `why` as a c10::DistBackendError.
c10::intrusive_ptr<c10d::Backend>
makeAbortable(c10::intrusive_ptr<c10d::Backend> inner, const std::string &why);

/// Adds `abortable` to the extension module.
void bindAbortable(pybind11::module_ &module);

} // namespace dtrt

#endif // DTRT_TORCH_ABORTABLEBACKEND_H
