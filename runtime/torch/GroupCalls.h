//===- GroupCalls.h - Messages of a c10d group in one call ------*- C++ -*-===//

#ifndef DTRT_TORCH_GROUPCALLS_H
#define DTRT_TORCH_GROUPCALLS_H

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/utils/pybind.h>

namespace dtrt {

using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

/// Calls of a ProcessGroup for a thread beside training: each waits for
/// Python's lock once. With a call for each message, and one to wait for each,
/// it would take turns with the trainer for every one of them. Both raise what
/// the group does.

/// Sends `out` to the rank `target` and fills `into` from the rank `source`, in
/// their order; those without elements are left out, on both sides. Returns
/// when all has gone and come.
void swap(const GroupPtr &group, const std::vector<at::Tensor> &out,
          const std::vector<at::Tensor> &into, int target, int source);

/// Of each number the smallest that any rank has. All ranks call it, with as
/// many numbers. In ceil(log2 ranks) rounds of one message: the dissemination
/// barrier of Hensgen, Finkel and Manber (1988) with the numbers in it. Each
/// has some of them twice where ranks are no power of two, as a least may.
std::vector<int64_t> least(const GroupPtr &group, std::vector<int64_t> numbers);

/// `swap(group, out, into, target, source)`, `least(group, numbers) -> list`.
void bindGroupCalls(pybind11::module_ &module);

} // namespace dtrt

#endif // DTRT_TORCH_GROUPCALLS_H
