//===- Pipelines.h - The order of passes ------------------------*- C++ -*-===//

#ifndef DT_PASSES_PIPELINES_H
#define DT_PASSES_PIPELINES_H

#include "mlir/Pass/PassManager.h"

#include <memory>
#include <string>

namespace dt {

struct Replan;

/// From the layout level to staged waves: what `--dt-compile` runs before it
/// emits. Each level is closed by its verify pass; the transport level, on the
/// way to a plan, by the proof.
void buildLoweringPipeline(mlir::OpPassManager &passes);

/// The whole compiler; the plan goes to `output` ("-" is stdout), and what is
/// proved to `emitSmtlib`, if that is not empty.
void buildCompilePipeline(mlir::OpPassManager &passes,
                          const std::string &output,
                          const std::string &emitSmtlib = "");

/// The whole compiler, which keeps of an old plan what is right still; `from`
/// says afterwards what that was. With `hasFamilies` they are formed already.
void buildReplanPipeline(mlir::OpPassManager &passes,
                         std::shared_ptr<Replan> from,
                         const std::string &output, bool hasFamilies = false);

/// Registers `--dt-lower` and `--dt-compile=output=FILE`.
void registerPipelines();

} // namespace dt

#endif // DT_PASSES_PIPELINES_H
