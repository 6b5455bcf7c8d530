//===- CompileRequest.h - One transition to a plan file ---------*- C++ -*-===//

#ifndef DT_LIB_PASSES_COMPILEREQUEST_H
#define DT_LIB_PASSES_COMPILEREQUEST_H

#include "ExpectedRequest.h"

#include "dt/Passes/Replan.h"
#include "dt/Request/Request.h"

#include "mlir/IR/MLIRContext.h"

#include <memory>
#include <string>
#include <vector>

namespace dt {

struct RequestCall {
  std::string file;             // the request's, for locations
  std::string subject;          // of what is said; empty: none
  std::string output;           // path of the plan
  std::shared_ptr<Replan> from; // null: from zero
  mlir::MLIRContext::Threading threading =
      mlir::MLIRContext::Threading::ENABLED;
};

/// Compiles it in a context of its own, which goes with it: who compiles many
/// needs no more memory than for one. Appends what is said of it to `lines`.
mlir::LogicalResult compileRequest(const Request &request,
                                   const RequestCall &call,
                                   std::vector<std::string> &lines);

/// The same of a request that is like an expected one. Fails where it is not,
/// or where anything is to be said of it: without its places in the request.
mlir::LogicalResult compileExpected(const RequestSet &request,
                                    const ExpectedRequest &expected,
                                    const RequestCall &call);

} // namespace dt

#endif // DT_LIB_PASSES_COMPILEREQUEST_H
