//===- DiagnosticText.h - Diagnostics in short text -------------*- C++ -*-===//

#ifndef DT_PASSES_DIAGNOSTICTEXT_H
#define DT_PASSES_DIAGNOSTICTEXT_H

#include "mlir/IR/Diagnostics.h"

#include <string>

namespace dt {

/// What it says, at no great length: names come from inputs.
std::string shortText(const mlir::Diagnostic &diagnostic);

/// A diagnostic of a request in one line, without its end, its notes included,
/// each after the key at fault where that is another one:
///   error: destination (grow.json:4:18): 'dt.layout' op ...; NOTE
/// `subject`, if any, stands before the key.
std::string lineOf(mlir::Diagnostic &diagnostic,
                   const std::string &subject = "");

} // namespace dt

#endif // DT_PASSES_DIAGNOSTICTEXT_H
