//===- Dump.h - A device's program, readable --------------------*- C++ -*-===//
//
// Reads one program at a time and writes as it goes, so that plans of thousands
// of devices need little memory.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_REPORT_DUMP_H
#define DTRT_REPORT_DUMP_H

#include "dtrt/format/PlanReader.h"
#include "dtrt/report/OutputFormat.h"

#include <iosfwd>

namespace dtrt {

/// One device's program, instruction by instruction.
Status writeProgram(const PlanReader &plan, uint32_t device,
                    OutputFormat format, std::ostream &out);
/// Every device's.
Status writePrograms(const PlanReader &plan, OutputFormat format,
                     std::ostream &out);
/// A program that need not be of a file.
void writeProgram(const PlanCommon &common, const RankProgram &program,
                  OutputFormat format, std::ostream &out);

} // namespace dtrt

#endif // DTRT_REPORT_DUMP_H
