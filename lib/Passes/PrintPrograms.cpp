//===- PrintPrograms.cpp - Programs as dt-plan prints them ----------------===//

#include "CommonSection.h"
#include "ProgramReading.h"
#include "dt/Passes/Passes.h"
#include "dtrt/report/Dump.h"
#include "dtrt/report/OutputFormat.h"

#include "llvm/Support/raw_ostream.h"

#include <sstream>

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_PRINTPROGRAMS
#include "dt/Passes/Passes.h.inc"

namespace {

struct PrintProgramsPass : impl::PrintProgramsBase<PrintProgramsPass> {
  using PrintProgramsBase::PrintProgramsBase;

  void print(const TransitionInfo &info, llvm::raw_ostream &out) {
    SmallVector<ProgramOp> programs = programsOf(getOperation(), info);
    dtrt::PlanCommon common = commonSection(info);
    common.memberSets = memberSetsOf(programs);
    for (ProgramOp op : programs) {
      std::ostringstream text;
      dtrt::writeProgram(common,
                         ProgramReading(op, info, common.memberSets).program,
                         dtrt::OutputFormat::Text, text);
      out << text.str();
    }
  }

  void runOnOperation() override {
    std::error_code error;
    llvm::raw_fd_ostream out(output, error);
    if (error) {
      getOperation().emitError()
          << "cannot write '" << output << "': " << error.message();
      return signalPassFailure();
    }
    if (failed(getAnalysis<TransitionAnalysis>().forEach(
            [&](const TransitionInfo &info) {
              print(info, out);
              return success();
            })))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace dt
