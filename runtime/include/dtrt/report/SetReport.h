//===- SetReport.h - What is in a folder of plans ---------------*- C++ -*-===//

#ifndef DTRT_REPORT_SETREPORT_H
#define DTRT_REPORT_SETREPORT_H

#include "dtrt/format/PlanSet.h"
#include "dtrt/report/Diff.h"
#include "dtrt/report/OutputFormat.h"

#include <functional>
#include <iosfwd>

namespace dtrt {

/// A line for each plan of a folder, from its index alone; as JSON the index.
Status writeSetList(const std::string &folder, OutputFormat format,
                    std::ostream &out);

/// What `dt-plan inspect` prints, of each plan; as JSON by name.
Status writeSetInspection(const std::string &folder, OutputFormat format,
                          std::ostream &out);

/// The plans of a folder are those of its index, no others are there, and each
/// is right. Errors name the file. Gives how many there are; `begin` hears of
/// each before it is checked.
Result<size_t> verifySet(const std::string &folder,
                         const std::function<void(const SetPlan &plan)> &begin);

/// What differs between two folders, plans compared by name; true, and nothing
/// printed, when nothing does.
Result<bool> writeSetDifferences(const std::string &a, const std::string &b,
                                 std::ostream &out, DiffLength length);

} // namespace dtrt

#endif // DTRT_REPORT_SETREPORT_H
