//===- GroupCalls.h - Messages of a c10d group in one call ------*- C++ -*-===//

#ifndef DTRT_TORCH_GROUPCALLS_H
#define DTRT_TORCH_GROUPCALLS_H

#include <torch/csrc/utils/pybind.h>

namespace dtrt {

/// Calls of a ProcessGroup for a thread beside training: each waits for
/// Python's lock once. With a call for each message, and one to wait for each,
/// it would take turns with the trainer for every one of them.
///
/// `swap(group, out, into, target, source)`: sends `out` to the rank `target`
/// and fills `into` from the rank `source`, in their order; those without
/// elements are left out, on both sides. Returns when all has gone and come.
///
/// `least(group, numbers) -> list`: of each, of one or more, the smallest that
/// any rank has.
///
/// Both raise what the group does.
void bindGroupCalls(pybind11::module_ &module);

} // namespace dtrt

#endif // DTRT_TORCH_GROUPCALLS_H
