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

#include "dt/Cost/Cluster.h"
#include "dt/Geometry/DType.h"
#include "dt/Geometry/Placement.h"
#include "dt/Geometry/StateDecl.h"
#include "dt/Geometry/TensorView.h"
#include "dt/Json/JsonKey.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dt {

/// One user tensor, full and unsharded, vocabulary not padded. In registration
/// order, which decides ZeRO buckets.
struct TensorDecl {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<StateDecl> states;
  /// A set of values, of which a layout may lack some.
  bool partial = false;
  /// Tensors that name one group here have one storage for each state on a
  /// device; empty: the tensor has its own.
  std::string storage = {};
  JsonKey key = {}; // of a model file's tensor: model
};

/// A tensor of one side: what it has of a tensor of the request.
struct ViewDecl {
  std::string name;
  uint32_t tensor = 0; // index into Request::tensors
  TensorView view;
  JsonKey key = {};
};

/// Where some states of one tensor lie on one side.
struct PlaceDecl {
  uint32_t tensor = 0; // index into Request::tensors
  /// Index into LayoutDecl::views, in whose coordinates the rest then is; none:
  /// the tensor itself.
  std::optional<uint32_t> view = {};
  std::vector<std::string> states; // empty: all of the tensor's
  uint32_t mesh = 0;               // index into LayoutDecl::meshes
  Placement placement;             // unused when `rows` is not empty
  /// Cut by the layout's ZeRO-1 buckets after `placement` has cut it. Tensors
  /// of one mesh and model chunk share a rank's buffer.
  bool bucketed = false;
  /// In a bucket of its own (Megatron-Core's shared_embedding).
  bool ownBucket = false;
  /// Model chunk (VPP) on each coordinate of the placement's "pp" restriction,
  /// one entry without such a restriction. Empty: chunk 0.
  std::vector<int64_t> chunks;
  std::vector<RankBox> rows;
  JsonKey key = {}; // of explicit shards: the first of `rows`
};

/// Megatron-Core's distributed optimizer: which axes share a buffer's buckets,
/// and how the buckets are formed (elements).
struct ZeroDecl {
  /// Per mesh, the axes that the buckets are divided over, slowest first. Axes
  /// of size 1 are left out; a mesh without axes has no bucketed places.
  std::vector<std::vector<std::string>> axes;
  int64_t bucketSize = 0;
};

/// "dense" has axes tp, cp, fsdp, dp, pp; "expert" has etp, ep, efsdp, edp, pp
/// over the same ranks; "ranks" (explicit shards) has one axis, rank.
struct NamedMesh {
  std::string name;
  Mesh mesh;
};

/// The parallel sizes that a layout was made from, all of them, defaults
/// included: what people and programs know it by.
struct LayoutSizes {
  std::vector<std::pair<std::string, int64_t>> sizes; // "tp": 4, ...
  std::string order;
  std::vector<int64_t> ppLayers; // empty: evenly
};

struct LayoutDecl {
  int64_t world = 0;
  bool partial = false;         // explicit shards need not hold every element
  std::vector<int64_t> devices; // of each rank; empty: rank
  std::vector<NamedMesh> meshes;
  std::vector<PlaceDecl> places; // in tensor order
  /// The side's own tensors, in its registration order; empty: the request's.
  std::vector<ViewDecl> views;
  /// How the ranks may be counted, whether or not there are tensors that lie
  /// so: dense and expert grid, or "rank" alone.
  std::vector<Mesh> grids;
  std::optional<ZeroDecl> zero;
  std::optional<LayoutSizes> sizes; // none: explicit shards
  JsonKey key = {};
};

struct MemoryDecl {
  int64_t stagingBytes = int64_t(1) << 30; // per device
  int64_t deviceBytes = 0;                 // 0: no limit given
  MemoryMode mode = MemoryMode::Rollback;
  /// Flat: whether storages come and go whole, or by pages.
  Granularity granularity = Granularity::Page;
  int64_t pageBytes = 0; // at least; 0: as small as the limit lets them be
  /// Whether what GPUs and NCCL have for a plan counts on a device.
  bool overNccl = false;
};

struct Request {
  std::vector<TensorDecl> tensors;
  LayoutDecl source;
  LayoutDecl destination;
  Cluster cluster;
  MemoryDecl memory;
  dtrt::Compression compression;
  /// What is no mistake by the format's rules and yet may not be meant.
  std::vector<std::string> warnings;
  JsonKey key = {};   // the whole request
  JsonKey model = {}; // what says its tensors
};

/// Reads a request. `directory` is where relative paths start. On any
/// mistake returns nullopt and sets `error` to one sentence, lower case, that
/// names the key or the tensor and rank at fault. A request for several plans
/// is one: dt/Request/RequestSet.h reads these.
std::optional<Request> readRequest(const std::string &json,
                                   const std::string &directory,
                                   std::string &error);

} // namespace dt

#endif // DT_REQUEST_REQUEST_H
