//===- LiveTensor.cpp - A trainer's tensor in a switch --------------------===//

#include "LiveTensor.h"
#ifdef DT_HAS_CUDA
#include "TorchGpuMemory.h"

#include "dtrt/cuda/GpuPoolEntries.h"
#endif

namespace dtrt {

bool isHollow(const at::Tensor &tensor) {
  return tensor.numel() > 0 && tensor.storage().nbytes() == 0;
}

std::optional<int> gpuOf(const at::Tensor &tensor) {
  return tensor.is_cuda() ? std::optional<int>(tensor.get_device())
                          : std::nullopt;
}

LiveTensor makeTensor(const std::string &tensor, const std::string &state,
                      bool source, uint32_t ordinal, const at::Tensor &data) {
  auto storage = data.storage().getWeakStorageImpl();
  return {{tensor, state, source ? Side::Source : Side::Destination, ordinal,
           isHollow(data) ? nullptr : data.data_ptr(), data.nbytes(), nullptr,
           uint64_t(data.storage_offset()) * data.element_size()},
          std::move(storage),
          WeakTensor(data.getIntrusivePtr()),
          data.storage().data(),
          data.storage().nbytes(),
          gpuOf(data)};
}

std::vector<TensorBinding> bindingsOf(const std::vector<LiveTensor> &tensors) {
  std::vector<TensorBinding> bindings;
  for (const LiveTensor &tensor : tensors)
    bindings.push_back(tensor.binding);
  return bindings;
}

std::optional<int> gpuOf(const std::vector<LiveTensor> &tensors) {
  return tensors.empty() ? std::nullopt : tensors.front().gpu;
}

namespace {

/// What became of a tensor since it was handed in; null: nothing.
const char *changeOf(const LiveTensor &tensor) {
  auto storage = tensor.storage.lock();
  if (!storage)
    return "freed";
  if (storage->data() != tensor.start || storage->nbytes() != tensor.bytes)
    return "resized or moved";
  auto handle = tensor.handle.lock();
  if (!handle)
    return nullptr;
  at::Tensor now(std::move(handle));
  const void *data = isHollow(now) ? nullptr : now.const_data_ptr();
  bool same =
      data == tensor.binding.data && now.nbytes() == tensor.binding.bytes;
  return same ? nullptr : "resized or moved";
}

Status changed(const LiveTensor &tensor, const char *change, const char *when) {
  bool source = tensor.binding.side == Side::Source;
  return makeError(source ? "source" : "destination", " tensor '",
                   tensor.binding.tensor, "' state '", tensor.binding.state,
                   "' was ", change, " ", when);
}

} // namespace

Result<Owned> hold(const std::vector<LiveTensor> &tensors) {
  Owned owned;
  for (const LiveTensor &tensor : tensors) {
    owned.push_back(tensor.storage.lock());
    if (const char *change = changeOf(tensor))
      return changed(tensor, change, "after prepare");
  }
  return owned;
}

Status checkMoved(const std::vector<LiveTensor> &tensors) {
  for (const LiveTensor &tensor : tensors)
    if (const char *change = changeOf(tensor))
      return changed(tensor, change, "during transfer");
  return {};
}

Status checkArrived(const std::vector<LiveTensor> &tensors) {
  for (const LiveTensor &tensor : tensors)
    if (tensor.binding.side == Side::Destination)
      if (const char *change = changeOf(tensor))
        return changed(tensor, change, "after transfer");
  return {};
}

Result<std::unique_ptr<TorchMemory>>
memoryOf(c10::weak_intrusive_ptr<c10::StorageImpl> storage,
         std::optional<int> gpu) {
  if (!gpu)
    return std::make_unique<TorchMemory>(std::move(storage));
#ifdef DT_HAS_CUDA
  auto pool = processPages(*gpu);
  DTRT_RETURN_IF_ERROR(pool);
  return std::unique_ptr<TorchMemory>(
      std::make_unique<TorchGpuMemory>(std::move(storage), *pool));
#else
  return makeError("built without CUDA");
#endif
}

} // namespace dtrt
