//===- Feeds.h - What forwards wait for -------------------------*- C++ -*-===//

#ifndef DT_LIB_SCHEDULING_FEEDS_H
#define DT_LIB_SCHEDULING_FEEDS_H

#include "dt/Routing/Moves.h"

namespace dt {

/// Per move, the forwards of its box or of a part of it. `moves` are by hop.
std::vector<std::vector<uint32_t>> findFeeds(const std::vector<Move> &moves);

} // namespace dt

#endif // DT_LIB_SCHEDULING_FEEDS_H
