//===- Threads.h - Loops on the threads of a context ------------*- C++ -*-===//

#ifndef DT_PASSES_THREADS_H
#define DT_PASSES_THREADS_H

#include "dt/Geometry/Parallel.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace dt {

/// Calls body(i) for all i < n, on this thread and those of the context's pool,
/// all together as many as the pool has: what this thread has freed is used
/// again, and one thread fewer has memory of its own. What bodies diagnose is
/// in the order of i.
void forEachOnThreads(mlir::MLIRContext *context, size_t n,
                      llvm::function_ref<void(size_t)> body);

/// The same, as code without a context has it.
ParallelFor threadsOf(mlir::MLIRContext *context);

} // namespace dt

#endif // DT_PASSES_THREADS_H
