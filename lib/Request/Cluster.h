//===- Cluster.h - The cluster and memory parts of a request ----*- C++ -*-===//

#ifndef DT_LIB_REQUEST_CLUSTER_H
#define DT_LIB_REQUEST_CLUSTER_H

#include "dt/Json/Json.h"

#include "dt/Request/Request.h"

namespace dt::request {

using namespace json;

/// What a calibration file has measured, where `cluster.calibration` of a
/// request names one; else the defaults. Relative paths start at `directory`.
Cluster readCalibration(const Json &request, const std::string &directory);
/// By which nodes are told apart.
int64_t readDevicesPerNode(const Json &json);
/// `measured` stands where the request says nothing.
Cluster readCluster(const Json &json, Cluster measured);
MemoryDecl readMemory(const Json &json);
dtrt::Compression readCompression(const Json &json);
/// "flat", "rollback".
MemoryMode readMemoryMode(const Json &json, const std::string &path);

} // namespace dt::request

#endif // DT_LIB_REQUEST_CLUSTER_H
