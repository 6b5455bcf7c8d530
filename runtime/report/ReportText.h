//===- ReportText.h - Numbers as people read them ---------------*- C++ -*-===//

#ifndef DTRT_REPORT_REPORTTEXT_H
#define DTRT_REPORT_REPORTTEXT_H

#include "dtrt/format/PlanModel.h"

#include <string>
#include <vector>

namespace dtrt {

/// 1536 -> "1.50 KiB"
std::string bytesText(uint64_t bytes);

/// 0.00123456 -> "1.235 ms"
std::string secondsText(double seconds);

/// The shortest text that reads as this number, so different ones differ.
std::string exactText(double value);

/// "[4:8)"
std::string rangeText(const Interval &range);

/// A list in its order, runs of equal step as one; different lists have
/// different texts:
///   0 1 2 3 8 -> "0-3, 8"    0 4 8 12 -> "0-12 step 4"    none -> "none"
/// Every number has `mark` before it: "#0-#3".
std::string listText(const std::vector<uint64_t> &numbers,
                     const std::string &mark = "");

/// "broadcast of devices 0-2 from 1"
std::string callText(const PlanCommon &common, CollectiveKind kind,
                     uint32_t memberSet, uint32_t root);

} // namespace dtrt

#endif // DTRT_REPORT_REPORTTEXT_H
