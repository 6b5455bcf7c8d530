//===- Cluster.h - The cluster and memory parts of a request ----*- C++ -*-===//

#ifndef DT_LIB_REQUEST_CLUSTER_H
#define DT_LIB_REQUEST_CLUSTER_H

#include "dt/Json/Json.h"

#include "dt/Request/Request.h"

namespace dt::request {

using namespace json;

Cluster readCluster(const Json &json);
MemoryDecl readMemory(const Json &json);
/// "flat", "rollback".
MemoryMode readMemoryMode(const Json &json, const std::string &path);

} // namespace dt::request

#endif // DT_LIB_REQUEST_CLUSTER_H
