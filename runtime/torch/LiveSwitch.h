//===- LiveSwitch.h - A switch of a trainer's tensors -----------*- C++ -*-===//
//
// What `dynatrain.Switch` is in C++: a Switch whose shards are tensors of
// torch, over the transport that their memory and the trainer's groups ask for.
// The GIL is released while bytes move or other ranks are waited for.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TORCH_LIVESWITCH_H
#define DTRT_TORCH_LIVESWITCH_H

#include "Interruptible.h"
#include "LiveTensor.h"
#include "TorchMemory.h"

#include "dtrt/transport/CompressedTransport.h"
#include "dtrt/world/Switch.h"
#ifdef DT_HAS_CUDA
#include "dtrt/cuda/GpuExecutor.h"
#endif

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/utils/pybind.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace dtrt {

class LiveSwitch {
public:
  /// On the trainer's thread; what prepares may have another, whose GPU says
  /// nothing.
  LiveSwitch(std::shared_ptr<PlanReader> plan, World world);
  ~LiveSwitch();

  std::string compare(std::vector<LiveTensor> given, const std::string &note);
  /// `split`: a Python function that makes a backend of some ranks.
  void connect(c10::intrusive_ptr<c10d::Backend> backend,
               pybind11::function split, bool sharesMemory, bool digests);
  void connectNccl(bool digests, bool oneSided);
  void cannotConnect(const std::string &why);
  /// Where the tensors lie; none: on the host.
  std::optional<int> gpu() const { return gpuOf(tensors); }
  void warmUp();
  void makeSure();
  /// `stream`: the trainer's on its GPU, as a number; its work so far comes
  /// before the transfer.
  void transfer(const std::string &note, std::optional<uintptr_t> stream);
  std::string commit();
  /// How the switch has ended then.
  const char *abort(const std::string &why);
  const char *outcome() const;
  c10::intrusive_ptr<c10d::Store> store() const;
  std::shared_ptr<Rendezvous> ranks() const { return inner->ranks(); }
  void timeSteps() { inner->timeSteps(); }
  /// (what, wave, bytes, from, to) of each instruction; seconds of the steady
  /// clock, which is Python's time.monotonic.
  using TimedStep = std::tuple<std::string, int32_t, uint64_t, double, double>;
  std::vector<TimedStep> steps() const;
  double patience() const { return inner->patience().count(); }
  pybind11::dict stats() const;

private:
  std::unique_ptr<Transport> compressing(std::unique_ptr<Transport> wire,
                                         CodecMemory memory);
  pybind11::dict compressedStates() const;
  void interruptibly(const std::function<void()> &work);
  void failOn(const char *phase, const Status &fault);
  bool takesOver(const LiveMemory &memory) const;
  Status findMemories();
  Status findMemory(LiveTensor &tensor);
  void makeAsShared();
  void noteStorages();
  Status connectGpu(std::unique_ptr<Transport> transport, bool compresses);
  Status connectNcclOf(bool digests, bool oneSided);
  Status startAfter(uintptr_t stream);

  std::shared_ptr<PlanReader> plan;
  World world;
  std::vector<LiveTensor> tensors;
  /// Of tensors on the host or in a pool of pages, by storage.
  std::map<c10::StorageImpl *, std::unique_ptr<TorchMemory>> memories;
  CompressionReport compressed;
  std::unique_ptr<Switch> inner;
  Interruptible calls;
#ifdef DT_HAS_CUDA
  Result<int> trainerGpu = makeError("no GPU");
  GpuExecutor *gpuRunner = nullptr; // of the switch
#endif
};

} // namespace dtrt

#endif // DTRT_TORCH_LIVESWITCH_H
