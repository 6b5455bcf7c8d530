//===- ShardedLayout.h - Placements by explicit shards ----------*- C++ -*-===//

#ifndef DT_LIB_REQUEST_SHARDEDLAYOUT_H
#define DT_LIB_REQUEST_SHARDEDLAYOUT_H

#include "ModelFile.h"

#include "dt/Request/Request.h"

namespace dt::request {

/// Places tensors by one row per region held.
LayoutDecl layoutFromShards(const Json &json, const std::string &path,
                            const std::vector<TensorDecl> &tensors);

/// One sentence per tensor and group of states of which explicit shards leave
/// elements on no rank; makes these tensors partial.
std::vector<std::string> holesOf(const LayoutDecl &layout,
                                 const std::string &path,
                                 std::vector<TensorDecl> &tensors);

} // namespace dt::request

#endif // DT_LIB_REQUEST_SHARDEDLAYOUT_H
