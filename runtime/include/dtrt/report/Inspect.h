//===- Inspect.h - The numbers of a plan ------------------------*- C++ -*-===//

#ifndef DTRT_REPORT_INSPECT_H
#define DTRT_REPORT_INSPECT_H

#include "dtrt/format/PlanReader.h"
#include "dtrt/report/OutputFormat.h"

#include <iosfwd>

namespace dtrt {

/// Whether to tell what a failure would lose (Losses.h), in flat memory and
/// where no device is asked for: all programs are read for it, which a process
/// of a live job may have neither memory nor time for.
enum class TellLosses { Yes, No };

/// Whether to tell what a device holds at most over NCCL, where no device is
/// asked for: all programs are read for it, too.
enum class TellNccl { Yes, No };

/// The plan's numbers; with a device also that device's.
Status writeInspection(const PlanReader &plan, std::optional<uint32_t> device,
                       OutputFormat format, std::ostream &out,
                       TellLosses losses = TellLosses::Yes,
                       TellNccl nccl = TellNccl::No);

} // namespace dtrt

#endif // DTRT_REPORT_INSPECT_H
