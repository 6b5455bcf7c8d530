//===- AbortableBackend.cpp - A c10d backend that can be aborted ----------===//

#include "AbortableBackend.h"

#include <atomic>
#include <set>
#include <thread>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace dtrt {

namespace {

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
using c10::ivalue::Future;

class AbortableCollective;
class AbortableMessage;

//===----------------------------------------------------------------------===//
// What is under way
//===----------------------------------------------------------------------===//

/// The operations of one backend that have not ended. A collective is in it
/// until it is settled, a message as long as anybody has its work.
class Pending {
public:
  explicit Pending(const std::string &why)
      : why(std::make_exception_ptr(
            c10::DistBackendError({__func__, __FILE__, __LINE__}, why))) {}

  /// Throws where it is aborted.
  void check() {
    if (isAborted())
      std::rethrow_exception(why);
  }
  bool isAborted() {
    std::lock_guard<std::mutex> lock(mutex);
    return aborted;
  }
  /// False where it is aborted.
  template <typename Operation> bool add(Operation *operation) {
    std::lock_guard<std::mutex> lock(mutex);
    if (!aborted)
      setOf(operation).insert(operation);
    return !aborted;
  }
  template <typename Operation> void remove(Operation *operation) {
    std::lock_guard<std::mutex> lock(mutex);
    setOf(operation).erase(operation);
  }
  void abort();

  const std::exception_ptr why;

private:
  std::set<AbortableCollective *> &setOf(AbortableCollective *) {
    return collectives;
  }
  std::set<AbortableMessage *> &setOf(AbortableMessage *) { return messages; }

  std::mutex mutex; // of what follows
  bool aborted = false;
  std::set<AbortableCollective *> collectives;
  std::set<AbortableMessage *> messages;
};

using PendingPtr = std::shared_ptr<Pending>;

/// Of works that have one.
c10::intrusive_ptr<Future> futureOf(const WorkPtr &work) {
  try {
    return work->getFuture();
  } catch (const c10::Error &) {
    return nullptr;
  }
}

/// Settled by whichever comes first: the end of the operation, or `abort`.
class AbortableCollective : public c10d::Work {
public:
  AbortableCollective(const WorkPtr &inner, c10::TypePtr type,
                      PendingPtr pending)
      : Work(-1, inner->retrieveOpType()), pending(std::move(pending)),
        future(c10::make_intrusive<Future>(std::move(type))) {}

  static WorkPtr follow(const WorkPtr &inner, const PendingPtr &pending);

  Tensors result() override { return future->value().toTensorVector(); }
  c10::intrusive_ptr<Future> getFuture() override { return future; }

  void settle(const std::exception_ptr &error, c10::IValue value = {}) {
    if (settled.exchange(true))
      return;
    pending->remove(this);
    if (error)
      future->setError(error);
    else
      future->markCompleted(std::move(value));
    finish(error);
  }

private:
  const PendingPtr pending;
  const c10::intrusive_ptr<Future> future;
  std::atomic<bool> settled{false};
};

/// A work without a future has to be waited for, by a thread of its own. It has
/// no result either, but in the tensors that it was given.
void waitFor(const WorkPtr &inner, AbortableCollective &outer) {
  try {
    inner->wait();
    outer.settle(nullptr, Tensors());
  } catch (...) {
    outer.settle(std::current_exception());
  }
}

WorkPtr AbortableCollective::follow(const WorkPtr &inner,
                                    const PendingPtr &pending) {
  auto future = futureOf(inner);
  c10::TypePtr type = c10::ListType::create(c10::TensorType::get());
  auto outer = c10::make_intrusive<AbortableCollective>(
      inner, future ? future->elementType() : type, pending);
  if (!pending->add(outer.get()))
    outer->settle(pending->why);
  // Until it is settled this keeps it.
  if (future)
    future->addCallback([outer](Future &done) {
      if (done.hasError())
        outer->settle(done.exception_ptr());
      else
        outer->settle(nullptr, done.value());
    });
  else
    std::thread([inner, outer] { waitFor(inner, *outer); }).detach();
  return outer;
}

/// A message is ended by its own work.
class AbortableMessage : public c10d::Work {
public:
  AbortableMessage(WorkPtr inner, BackendPtr backend, PendingPtr pending)
      : Work(-1, inner->retrieveOpType()), inner(std::move(inner)),
        backend(std::move(backend)), pending(std::move(pending)) {
    if (!this->pending->add(this))
      this->inner->abort();
  }
  ~AbortableMessage() override { pending->remove(this); }

  bool isCompleted() override { return inner->isCompleted(); }
  bool isSuccess() const override { return inner->isSuccess(); }
  std::exception_ptr exception() const override { return inner->exception(); }
  int sourceRank() const override { return inner->sourceRank(); }
  void abort() override { inner->abort(); }

  /// Without a limit of its own the backend's counts, as for collectives.
  bool wait(std::chrono::milliseconds timeout) override {
    if (timeout == kNoTimeout)
      timeout = backend->getBackendOptions()->timeout;
    try {
      if (inner->wait(timeout))
        return true;
    } catch (const std::exception &) {
      // With an abort connections end too; that is why.
      pending->check();
      throw;
    }
    pending->check();
    return false;
  }

private:
  const WorkPtr inner;
  const BackendPtr backend;
  const PendingPtr pending;
};

void Pending::abort() {
  std::vector<c10::intrusive_ptr<AbortableCollective>> waiting;
  {
    std::lock_guard<std::mutex> lock(mutex);
    aborted = true;
    for (AbortableCollective *one : collectives)
      waiting.push_back(
          c10::intrusive_ptr<AbortableCollective>::reclaim_copy(one));
    for (AbortableMessage *one : messages)
      one->abort();
  }
  for (auto &one : waiting)
    one->settle(why);
}

//===----------------------------------------------------------------------===//
// The backend
//===----------------------------------------------------------------------===//

class AbortableBackend : public c10d::Backend {
public:
  AbortableBackend(BackendPtr inner, const std::string &why)
      : Backend(inner->getRank(), inner->getSize()), inner(std::move(inner)),
        pending(std::make_shared<Pending>(why)) {}
  ~AbortableBackend() override;

  void abort() override { pending->abort(); }
  const std::string getBackendName() const override {
    return inner->getBackendName();
  }
  c10::intrusive_ptr<Options> getBackendOptions() override {
    return inner->getBackendOptions();
  }
  void setTimeout(std::chrono::milliseconds timeout) override {
    inner->setTimeout(timeout);
  }
  void setSequenceNumberForGroup() override {
    inner->setSequenceNumberForGroup();
  }
  uint64_t getSequenceNumberForGroup() override {
    return inner->getSequenceNumberForGroup();
  }

  WorkPtr broadcast(Tensors &tensors,
                    const c10d::BroadcastOptions &options) override {
    return collective([&] { return inner->broadcast(tensors, options); });
  }
  WorkPtr allreduce(Tensors &tensors,
                    const c10d::AllreduceOptions &options) override {
    return collective([&] { return inner->allreduce(tensors, options); });
  }
  WorkPtr allreduce_sparse(Tensors &tensors,
                           const c10d::AllreduceOptions &options) override {
    return collective(
        [&] { return inner->allreduce_sparse(tensors, options); });
  }
  WorkPtr
  allreduce_coalesced(Tensors &tensors,
                      const c10d::AllreduceCoalescedOptions &options) override {
    return collective(
        [&] { return inner->allreduce_coalesced(tensors, options); });
  }
  WorkPtr reduce(Tensors &tensors,
                 const c10d::ReduceOptions &options) override {
    return collective([&] { return inner->reduce(tensors, options); });
  }
  WorkPtr allgather(std::vector<Tensors> &out, Tensors &in,
                    const c10d::AllgatherOptions &options) override {
    return collective([&] { return inner->allgather(out, in, options); });
  }
  WorkPtr _allgather_base(at::Tensor &out, at::Tensor &in,
                          const c10d::AllgatherOptions &options) override {
    return collective([&] { return inner->_allgather_base(out, in, options); });
  }
  WorkPtr allgather_coalesced(std::vector<Tensors> &out, Tensors &in,
                              const c10d::AllgatherOptions &options) override {
    return collective(
        [&] { return inner->allgather_coalesced(out, in, options); });
  }
  WorkPtr allgather_into_tensor_coalesced(
      Tensors &out, Tensors &in,
      const c10d::AllgatherOptions &options) override {
    return collective([&] {
      return inner->allgather_into_tensor_coalesced(out, in, options);
    });
  }
  WorkPtr gather(std::vector<Tensors> &out, Tensors &in,
                 const c10d::GatherOptions &options) override {
    return collective([&] { return inner->gather(out, in, options); });
  }
  WorkPtr scatter(Tensors &out, std::vector<Tensors> &in,
                  const c10d::ScatterOptions &options) override {
    return collective([&] { return inner->scatter(out, in, options); });
  }
  WorkPtr reduce_scatter(Tensors &out, std::vector<Tensors> &in,
                         const c10d::ReduceScatterOptions &options) override {
    return collective([&] { return inner->reduce_scatter(out, in, options); });
  }
  WorkPtr
  _reduce_scatter_base(at::Tensor &out, at::Tensor &in,
                       const c10d::ReduceScatterOptions &options) override {
    return collective(
        [&] { return inner->_reduce_scatter_base(out, in, options); });
  }
  WorkPtr reduce_scatter_tensor_coalesced(
      Tensors &out, Tensors &in,
      const c10d::ReduceScatterOptions &options) override {
    return collective([&] {
      return inner->reduce_scatter_tensor_coalesced(out, in, options);
    });
  }
  WorkPtr alltoall_base(at::Tensor &out, at::Tensor &in,
                        std::vector<int64_t> &outSizes,
                        std::vector<int64_t> &inSizes,
                        const c10d::AllToAllOptions &options) override {
    return collective([&] {
      return inner->alltoall_base(out, in, outSizes, inSizes, options);
    });
  }
  WorkPtr alltoall(Tensors &out, Tensors &in,
                   const c10d::AllToAllOptions &options) override {
    return collective([&] { return inner->alltoall(out, in, options); });
  }
  WorkPtr barrier(const c10d::BarrierOptions &options) override {
    return collective([&] { return inner->barrier(options); });
  }
  WorkPtr send(Tensors &tensors, int to, int tag) override {
    return message([&] { return inner->send(tensors, to, tag); });
  }
  WorkPtr recv(Tensors &tensors, int from, int tag) override {
    return message([&] { return inner->recv(tensors, from, tag); });
  }
  WorkPtr recvAnysource(Tensors &tensors, int tag) override {
    return message([&] { return inner->recvAnysource(tensors, tag); });
  }

private:
  template <typename Post> WorkPtr collective(Post post) {
    pending->check();
    return AbortableCollective::follow(post(), pending);
  }
  template <typename Post> WorkPtr message(Post post) {
    pending->check();
    return c10::make_intrusive<AbortableMessage>(post(), inner, pending);
  }

  BackendPtr inner;
  const PendingPtr pending;
};

/// Threads of the inner backend may need Python to free tensors, and after an
/// abort they may wait for other processes yet.
AbortableBackend::~AbortableBackend() {
  if (pending->isAborted()) {
    std::thread([inner = std::move(inner)]() mutable {
      inner.reset();
    }).detach();
  } else if (PyGILState_Check()) {
    py::gil_scoped_release release;
    inner.reset();
  }
}

} // namespace

BackendPtr makeAbortable(BackendPtr inner, const std::string &why) {
  return c10::make_intrusive<AbortableBackend>(std::move(inner), why);
}

void bindAbortable(py::module_ &module) {
  module.def("abortable", &makeAbortable);
}

} // namespace dtrt
