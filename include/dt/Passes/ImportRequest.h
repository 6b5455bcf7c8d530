//===- ImportRequest.h - A request as layout-level IR -----------*- C++ -*-===//

#ifndef DT_PASSES_IMPORTREQUEST_H
#define DT_PASSES_IMPORTREQUEST_H

#include "dt/Request/Request.h"
#include "mlir/IR/BuiltinOps.h"

namespace dt {

/// Builds the layout level of a request, one `dt.param` per tensor in
/// registration order: `@model`, layouts `@source` and `@destination`, and
/// `dt.transition @transition`. Every op has the location of its key:
///   loc("source.shards[3]"("stay.json":7:5))
/// `file` is that of the request. Loads the dialect into the context.
mlir::OwningOpRef<mlir::ModuleOp> importRequest(const Request &request,
                                                mlir::StringRef file,
                                                mlir::MLIRContext *context);

} // namespace dt

#endif // DT_PASSES_IMPORTREQUEST_H
