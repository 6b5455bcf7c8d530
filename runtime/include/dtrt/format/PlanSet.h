//===- PlanSet.h - A folder of plans and its index --------------*- C++ -*-===//
//
// What `dt-opt` makes of a request for several plans: NAME.dtplan for each, and
// index.json, which says of each what it is for (docs/PlanFile.md). An index
// may be damaged or hostile; what is read here has been checked, and a plan
// that is not what its index says is an error that names the file.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_FORMAT_PLANSET_H
#define DTRT_FORMAT_PLANSET_H

#include "dtrt/format/PlanReader.h"

#include <set>
#include <utility>

namespace dtrt {

constexpr const char *kSetIndexName = "index.json";

/// One side of a plan, as a request says it.
struct SetLayout {
  std::string name; // empty: none
  int64_t world = 0;
  std::vector<uint32_t> devices; // of each rank
  /// All parallel sizes, "tp" and the like; empty: explicit shards.
  std::vector<std::pair<std::string, int64_t>> sizes;
  std::string order;             // of the axes; empty: explicit shards
  std::vector<int64_t> ppLayers; // empty: evenly
  std::string fingerprint;       // the plan's
};

struct SetPlan {
  std::string name;
  std::string file; // in the folder
  std::string digest;
  uint64_t bytes = 0;
  double predictedSeconds = 0;
  std::string lost; // "node:3" or "17"; empty: nothing
  SetLayout source, destination;
};

/// What the index says of a plan file that is written: file, digest, bytes,
/// time, and of both sides world, devices and fingerprint. `folder` and `file`
/// are where it is.
Result<SetPlan> describeSetPlan(const std::string &folder,
                                const std::string &file);

/// The text of an index.
std::string setIndexText(const std::vector<SetPlan> &plans);
/// Writes the index of a folder.
Status writeSetIndex(const std::string &folder,
                     const std::vector<SetPlan> &plans);

/// Reads a folder's index; the plans, in its order. No plan file is opened.
Result<std::vector<SetPlan>> readSetIndex(const std::string &folder);

/// Opens a plan of a set, which has to be what the index says, whole.
Result<PlanReader> openSetPlan(const std::string &folder, const SetPlan &plan);

/// The first plan file in the folder that its index does not name.
Status checkSetFiles(const std::string &folder,
                     const std::vector<SetPlan> &plans);

/// The files of the set that is in a folder, its index among them; none where
/// there is no set.
std::set<std::string> filesOfSet(const std::string &folder);

/// Devices as the index has them, and back: "0-6,9".
std::string deviceText(const std::vector<uint32_t> &devices);
Result<std::vector<uint32_t>> parseDevices(const std::string &text);

} // namespace dtrt

#endif // DTRT_FORMAT_PLANSET_H
