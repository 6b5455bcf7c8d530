//===- OutputFormat.h - For people or for scripts ---------------*- C++ -*-===//

#ifndef DTRT_REPORT_OUTPUTFORMAT_H
#define DTRT_REPORT_OUTPUTFORMAT_H

namespace dtrt {

/// How a report says what it says.
enum class OutputFormat { Text, Json };

} // namespace dtrt

#endif // DTRT_REPORT_OUTPUTFORMAT_H
