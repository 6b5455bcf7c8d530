//===- Meeting.h - Ranks that find each other again -------------*- C++ -*-===//
//
// After an error ranks may be at different places of their work. In a meeting
// all ranks of the world say where they are, and each hears what the others
// have said. A rank that is in a switch meanwhile gets an error.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_WORLD_MEETING_H
#define DTRT_WORLD_MEETING_H

#include "dtrt/world/Switch.h"

namespace dtrt {

class Meeting {
public:
  explicit Meeting(const World &world);
  /// What the ranks have said (UTF-8), in rank order; once.
  Result<std::vector<std::string>> meet(const std::string &said);
  /// Ends `meet` in another thread, and so for all ranks.
  void cancel(const Status &why) { ranks.cancel(why); }

private:
  Rendezvous ranks;
};

} // namespace dtrt

#endif // DTRT_WORLD_MEETING_H
