//===- GroupCalls.cpp - Messages of a c10d group in one call --------------===//

#include "GroupCalls.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace py = pybind11;

namespace dtrt {

namespace {

using Tensors = std::vector<at::Tensor>;
using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

void swap(const GroupPtr &group, const Tensors &out, const Tensors &into,
          int target, int source) {
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  for (size_t tag = 0; tag < into.size(); ++tag)
    if (Tensors one{into[tag]}; one[0].numel() > 0)
      works.push_back(group->recv(one, source, int(tag)));
  for (size_t tag = 0; tag < out.size(); ++tag)
    if (Tensors one{out[tag]}; one[0].numel() > 0)
      works.push_back(group->send(one, target, int(tag)));
  for (const auto &work : works)
    work->wait();
}

std::vector<int64_t> least(const GroupPtr &group,
                           const std::vector<int64_t> &numbers) {
  Tensors told{at::tensor(numbers, at::kLong)};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MIN;
  group->allreduce(told, options)->wait();
  const auto *found = told[0].const_data_ptr<int64_t>();
  return {found, found + numbers.size()};
}

} // namespace

void bindGroupCalls(py::module_ &module) {
  py::call_guard<py::gil_scoped_release> release;
  module.def("swap", &swap, release);
  module.def("least", &least, release);
}

} // namespace dtrt
