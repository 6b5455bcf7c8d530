//===- CompileModule.h - What fuzz targets ask of the compiler --*- C++ -*-===//

#ifndef DT_TEST_FUZZ_COMPILEMODULE_H
#define DT_TEST_FUZZ_COMPILEMODULE_H

#include "mlir/IR/BuiltinOps.h"

namespace dt::fuzz {

/// The context of this process, with the dialect and one thread. Says nothing
/// of what is wrong with inputs.
mlir::MLIRContext &context();

/// Whether a module is so small that thousands of its like can be compiled.
bool isSmall(mlir::ModuleOp module);

/// Lowers the module's transition as far as it is not yet, proves it and writes
/// the plan to nowhere. What fails is refused, and no finding.
void compile(mlir::ModuleOp module);

} // namespace dt::fuzz

#endif // DT_TEST_FUZZ_COMPILEMODULE_H
