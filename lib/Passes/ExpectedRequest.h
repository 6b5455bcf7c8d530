//===- ExpectedRequest.h - What requests to come are like -------*- C++ -*-===//
//
// Where devices take the places of others, most of a request is as it was, and
// so are its tensors, families and layouts by rank. These are made before such
// a request comes.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_PASSES_EXPECTEDREQUEST_H
#define DT_LIB_PASSES_EXPECTEDREQUEST_H

#include "TransitionAnalysis.h"
#include "dt/Request/RequestSet.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>
#include <string>

namespace dt {

class ExpectedRequest {
public:
  /// Of requests like this one. Nothing where more depends on their devices
  /// than where ranks are, or where anything is to be said of it.
  static std::optional<ExpectedRequest>
  of(const RequestSet &request, mlir::MLIRContext::Threading threading);

  /// What those to come are like.
  const RequestSet &request() const { return byRank; }
  /// What its layouts say of ranks; null: it is not known.
  const std::shared_ptr<const LayoutsByRank> &layouts() const { return held; }
  /// The layout level of a request with its families formed, but for where in
  /// the request all that comes from; null where it is not like the expected.
  mlir::OwningOpRef<mlir::ModuleOp> moduleOf(const RequestSet &request,
                                             mlir::MLIRContext *context) const;

private:
  ExpectedRequest(RequestSet byRank, std::string families,
                  std::shared_ptr<const LayoutsByRank> held)
      : byRank(std::move(byRank)), families(std::move(families)),
        held(std::move(held)) {}

  RequestSet byRank;    // without lists of devices
  std::string families; // its module, as text
  std::shared_ptr<const LayoutsByRank> held;
};

} // namespace dt

#endif // DT_LIB_PASSES_EXPECTEDREQUEST_H
