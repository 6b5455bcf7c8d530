//===- Pipelines.h - The order of passes ------------------------*- C++ -*-===//

#ifndef DT_PASSES_PIPELINES_H
#define DT_PASSES_PIPELINES_H

#include "mlir/Pass/PassManager.h"

#include <string>

namespace dt {

/// From the layout level to staged waves: what `--dt-compile` runs before it
/// emits. Each level is closed by its verify pass; the transport level, on the
/// way to a plan, by the proof.
void buildLoweringPipeline(mlir::OpPassManager &passes);

/// The whole compiler; the plan goes to `output` ("-" is stdout), and what is
/// proved to `emitSmtlib`, if that is not empty.
void buildCompilePipeline(mlir::OpPassManager &passes,
                          const std::string &output,
                          const std::string &emitSmtlib = "");

/// Registers `--dt-lower` and `--dt-compile=output=FILE`.
void registerPipelines();

} // namespace dt

#endif // DT_PASSES_PIPELINES_H
