//===- Request.h - A transition request, read and expanded ------*- C++ -*-===//
//
// What a user asks for: tensors and their states, where each lies before and
// after, the cluster and the memory limits. `readRequest` turns the JSON of
// the request (and the model file that it names) into these structs, one
// tensor at a time; families are formed later, by a pass.
//
//===----------------------------------------------------------------------===//

#ifndef DT_REQUEST_REQUEST_H
#define DT_REQUEST_REQUEST_H

#include "dt/Geometry/DType.h"
#include "dt/Geometry/Placement.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dt {

struct StateDecl {
  std::string name; // param, grad, master, exp_avg, ...
  DType dtype = DType::BF16;
};

/// One user tensor, full and unsharded, vocabulary not padded. In registration
/// order, which decides ZeRO buckets.
struct TensorDecl {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<StateDecl> states;
  /// Its own ZeRO bucket (Megatron-Core's shared_embedding).
  bool sharedEmbedding = false;
};

/// One row of an explicit layout.
struct ShardRow {
  int64_t rank = 0;
  Box box;
  std::optional<Interval> range; // in elements of the box, row-major
};

/// Where some states of one tensor lie on one side.
struct PlaceDecl {
  uint32_t tensor = 0;             // index into Request::tensors
  std::vector<std::string> states; // empty: all of the tensor's
  uint32_t mesh = 0;               // index into LayoutDecl::meshes
  Placement placement;             // unused when `rows` is not empty
  /// Cut by the layout's ZeRO-1 buckets after `placement` has cut it.
  bool bucketed = false;
  std::vector<ShardRow> rows;
};

/// Megatron-Core's distributed optimizer: which axes share a buffer's buckets,
/// and how the buckets are formed (elements).
struct ZeroDecl {
  /// Per mesh, the axes that the buckets are divided over, slowest first.
  std::vector<std::vector<std::string>> axes;
  int64_t bucketSize = 0;
};

struct NamedMesh {
  std::string name; // "dense", "expert"
  Mesh mesh;
};

struct LayoutDecl {
  int64_t world = 0;
  std::vector<int64_t> devices; // of each rank; empty: rank
  std::vector<NamedMesh> meshes;
  std::vector<PlaceDecl> places; // in tensor order
  std::optional<ZeroDecl> zero;
};

/// Two-level cluster: links of one device, each way. 1 GBps = 1e9 bytes/s.
struct ClusterDecl {
  int64_t devicesPerNode = 8;
  double intraNodeGBps = 200;
  double interNodeGBps = 25;
  double latencyUs = 10;
};

struct MemoryDecl {
  int64_t stagingBytes = int64_t(1) << 30; // per device
  int64_t deviceBytes = 0;                 // 0: no limit given
  bool flat = false;                       // else rollback
};

struct Request {
  std::vector<TensorDecl> tensors;
  LayoutDecl source;
  LayoutDecl destination;
  ClusterDecl cluster;
  MemoryDecl memory;
};

/// Reads a request. `directory` is where relative model paths start. On any
/// mistake returns nullopt and sets `error` to one sentence, lower case, that
/// names the key or the tensor and rank at fault.
std::optional<Request> readRequest(const std::string &json,
                                   const std::string &directory,
                                   std::string &error);

} // namespace dt

#endif // DT_REQUEST_REQUEST_H
