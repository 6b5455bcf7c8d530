//===- TensorLooks.cpp - Many tensors, looked at in one call --------------===//

#include "TensorLooks.h"

#include <ATen/ATen.h>

namespace py = pybind11;

namespace dtrt {

namespace {

void add(std::string &to, int64_t number) {
  to.append(reinterpret_cast<const char *>(&number), sizeof number);
}

py::bytes looksOf(const std::vector<at::Tensor> &tensors) {
  std::string looks;
  for (const at::Tensor &tensor : tensors) {
    add(looks, int64_t(tensor.scalar_type()));
    add(looks, tensor.dim());
    for (int64_t size : tensor.sizes())
      add(looks, size);
  }
  return py::bytes(looks);
}

at::Tensor elementsOf(const at::Tensor &tensor, int64_t begin, int64_t end) {
  TORCH_CHECK(tensor.is_contiguous(),
              "elements_of: expected a contiguous tensor");
  TORCH_CHECK(0 <= begin && begin <= end && end <= tensor.numel(),
              "elements_of: [", begin, ":", end, ") of ", tensor.numel(),
              " elements");
  at::NoGradGuard plain;
  return tensor.detach().view({-1}).slice(0, begin, end);
}

} // namespace

void bindTensorLooks(py::module_ &module) {
  module.def("looks", &looksOf);
  module.def("elements_of", &elementsOf);
}

} // namespace dtrt
