//===- CompileRequest.h - What dt-opt makes of a request --------*- C++ -*-===//

#ifndef DT_ADVISE_COMPILEREQUEST_H
#define DT_ADVISE_COMPILEREQUEST_H

#include <cstdint>
#include <optional>
#include <string>

namespace dt::advise {

/// Of a compiled plan, as dt-plan reads it.
struct CompiledPlan {
  int64_t wireBytes = 0;
  double seconds = 0;
  int64_t devicePeak = 0;
  int64_t destinationMost = 0; // state of the fullest device afterwards
};

/// Runs dt-opt and dt-plan, found in folder `tools`, on a request; `plan` is
/// the file that is made. An error has the tool's own words.
std::optional<CompiledPlan> compileRequest(const std::string &tools,
                                           const std::string &request,
                                           const std::string &plan,
                                           std::string &error);

} // namespace dt::advise

#endif // DT_ADVISE_COMPILEREQUEST_H
