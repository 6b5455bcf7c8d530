//===- CopyInto.cpp - Tensors, copied into one piece of memory ------------===//

#include "CopyInto.h"

#include "dtrt/core/Packing.h"

#include <ATen/ATen.h>

namespace py = pybind11;

namespace dtrt {

namespace {

void copyTensor(std::byte *to, const at::Tensor &tensor) {
  if (tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_conj() &&
      !tensor.is_neg()) {
    makeStridedCopy({int64_t(tensor.nbytes())}, {1}, {1}, DType::U8, DType::U8)(
        to, static_cast<const std::byte *>(tensor.const_data_ptr()));
    return;
  }
  at::from_blob(to, tensor.sizes(), tensor.options().device(at::kCPU))
      .copy_(tensor);
}

void copyInto(const at::Tensor &memory, const std::vector<int64_t> &offsets,
              const std::vector<at::Tensor> &tensors) {
  TORCH_CHECK(memory.is_cpu() && memory.is_contiguous() &&
                  memory.scalar_type() == at::kByte,
              "copy_into: expected contiguous bytes of the host");
  TORCH_CHECK(offsets.size() == tensors.size(), "copy_into: ", offsets.size(),
              " offsets for ", tensors.size(), " tensors");
  at::NoGradGuard plain;
  auto *data = static_cast<std::byte *>(memory.mutable_data_ptr());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t bytes = int64_t(tensors[i].nbytes());
    TORCH_CHECK(offsets[i] >= 0 && offsets[i] <= memory.numel() - bytes,
                "copy_into: ", bytes, " bytes at ", offsets[i], " of ",
                memory.numel());
    if (bytes > 0)
      copyTensor(data + offsets[i], tensors[i]);
  }
}

} // namespace

void bindCopyInto(py::module_ &module) {
  module.def("copy_into", &copyInto, py::call_guard<py::gil_scoped_release>());
}

} // namespace dtrt
