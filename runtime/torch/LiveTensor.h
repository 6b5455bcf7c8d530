//===- LiveTensor.h - A trainer's tensor in a switch ------------*- C++ -*-===//

#ifndef DTRT_TORCH_LIVETENSOR_H
#define DTRT_TORCH_LIVETENSOR_H

#include "TorchMemory.h"

#include "dtrt/core/TensorBinding.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dtrt {

using WeakTensor =
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

/// A tensor of the trainer, which stays its owner.
struct LiveTensor {
  TensorBinding binding;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  /// What the trainer handed in. It may be a view that is gone at once, while
  /// the storage stays.
  WeakTensor handle;
  const void *start;      // of the storage
  size_t bytes;           // of the storage
  std::optional<int> gpu; // where it lies; none: the host
};

/// `data` as the `ordinal`-th shard of a tensor's state on this device.
LiveTensor makeTensor(const std::string &tensor, const std::string &state,
                      bool source, uint32_t ordinal, const at::Tensor &data);

/// A destination may be given without memory, for the switch to make.
bool isHollow(const at::Tensor &tensor);

/// Where a tensor lies; none: on the host.
std::optional<int> gpuOf(const at::Tensor &tensor);
/// The GPU that holds all tensors, or none.
std::optional<int> gpuOf(const std::vector<LiveTensor> &tensors);

std::vector<TensorBinding> bindingsOf(const std::vector<LiveTensor> &tensors);

using Owned = std::vector<c10::intrusive_ptr<c10::StorageImpl>>;

/// Shares ownership of all tensors, unless one is no longer what it was.
Result<Owned> hold(const std::vector<LiveTensor> &tensors);

/// After bytes have moved, when nobody but the trainer owns the tensors: fails
/// when they are not where they were read and written.
Status checkMoved(const std::vector<LiveTensor> &tensors);

/// Before commit: the new state has to be there. An old one that is gone by now
/// is no reason to lose the new one too.
Status checkArrived(const std::vector<LiveTensor> &tensors);

/// A storage on the host or a GPU.
Result<std::unique_ptr<TorchMemory>>
memoryOf(c10::weak_intrusive_ptr<c10::StorageImpl> storage,
         std::optional<int> gpu);

} // namespace dtrt

#endif // DTRT_TORCH_LIVETENSOR_H
