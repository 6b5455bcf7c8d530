//===- ShardLines.h - Equal shards, once ------------------------*- C++ -*-===//

#ifndef DTRT_REPORT_SHARDLINES_H
#define DTRT_REPORT_SHARDLINES_H

#include "dtrt/format/PlanModel.h"

#include <iosfwd>

namespace dtrt {

/// "{param, master}"
std::string statesText(const Family &family, uint64_t states);

/// A line per way in which shards of one side lie. Members of a family that lie
/// alike are on one line, and so are families whose names differ in one number:
///   #4-#6 layers.{}.w {master} each of 1-5 step 2 [0:16) (3 shards)
///   #7-#8 layers.{2-3}.b {param} [0:8) (2 shards)
void writeShards(const PlanCommon &common, Side side,
                 const std::vector<ShardRecord> &shards, std::ostream &out);

} // namespace dtrt

#endif // DTRT_REPORT_SHARDLINES_H
