//===- Threads.cpp - Loops on the threads of a context --------------------===//

#include "Threads.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/ThreadPool.h"

#include <atomic>

using namespace mlir;

void dt::forEachOnThreads(MLIRContext *context, size_t n,
                          llvm::function_ref<void(size_t)> body) {
  if (n <= 1 || !context->isMultithreadingEnabled()) {
    for (size_t i = 0; i < n; ++i)
      body(i);
    return;
  }
  // A thread that waits inside a body takes what comes next in the pool's
  // queue. Were that a whole loop over what is left of this one, the others
  // would have nothing to do: so few bodies, which may be long, are a task
  // each.
  constexpr size_t kFew = 16;
  ParallelDiagnosticHandler diagnostics(context);
  std::atomic<size_t> next(0);
  auto one = [&] {
    const size_t i = next++;
    if (i >= n)
      return false;
    diagnostics.setOrderIDForThread(i);
    body(i);
    diagnostics.eraseOrderIDForThread();
    return true;
  };
  auto rest = [&] {
    while (one())
      continue;
  };
  llvm::ThreadPoolTaskGroup tasks(context->getThreadPool());
  const size_t numThreads = context->getThreadPool().getMaxConcurrency();
  const size_t others = (n <= kFew ? n : std::min(n, numThreads)) - 1;
  for (size_t task = 0; task < others; ++task)
    if (n <= kFew)
      tasks.async(one);
    else
      tasks.async(rest);
  rest();
  tasks.wait();
}

dt::ParallelFor dt::threadsOf(MLIRContext *context) {
  return [context](size_t n, const std::function<void(size_t)> &body) {
    forEachOnThreads(context, n, body);
  };
}
