//===- Passes.h - The passes of dt-opt --------------------------*- C++ -*-===//

#ifndef DT_PASSES_PASSES_H
#define DT_PASSES_PASSES_H

#include "dt/Proof/Solver.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace dt {

#define GEN_PASS_DECL
#include "dt/Passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "dt/Passes/Passes.h.inc"

} // namespace dt

#endif // DT_PASSES_PASSES_H
