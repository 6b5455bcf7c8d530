//===- GroupCalls.cpp - Messages of a c10d group in one call --------------===//

#include "GroupCalls.h"

namespace py = pybind11;

namespace dtrt {

namespace {

using Tensors = std::vector<at::Tensor>;

/// Of the messages of `least`; those of `swap` count from 0.
constexpr int kLeastTag = 1 << 20;

} // namespace

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
                           std::vector<int64_t> numbers) {
  const int rank = group->getRank(), size = group->getSize();
  const auto count = int64_t(numbers.size());
  Tensors came{at::empty({count}, at::kLong)};
  Tensors own{at::from_blob(numbers.data(), {count}, at::kLong)};
  for (int far = 1; far < size; far *= 2) {
    auto come = group->recv(came, (rank + size - far) % size, kLeastTag);
    auto gone = group->send(own, (rank + far) % size, kLeastTag);
    come->wait();
    gone->wait();
    const auto *other = came[0].const_data_ptr<int64_t>();
    for (int64_t &number : numbers)
      number = std::min(number, *other++);
  }
  return numbers;
}

void bindGroupCalls(py::module_ &module) {
  py::call_guard<py::gil_scoped_release> release;
  module.def("swap", &swap, release);
  module.def("least", &least, release);
}

} // namespace dtrt
