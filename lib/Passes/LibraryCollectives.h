//===- LibraryCollectives.h - Collectives as calls of a library -*- C++ -*-===//
//
// A library's collective is a call on whole blocks, of one root or of all
// members. So data that several devices hold comes from one of them, and of an
// all-gather each part is held by one member alone. Blocks have one size: an
// all-gather whose parts differ much is a broadcast of each part instead.
//
// Where the request leaves the choice, a call is chosen that is at least 2 %
// faster by this model, for which both have their ports to themselves, n is the
// number of members, and a step is a latency:
//
//              a call                messages
//   broadcast  n - 1 steps, 1 launch a chain of n - 1 waves, or a tree of
//                                    log2(n) waves of all data
//   all_gather n - 1 steps, 1 launch n - 1 waves
//   all_to_all n - 1 steps, 1 launch as many waves as one device has peers
//
// A wave is a latency and a launch; bytes take the same time either way, but
// for the padding of blocks. NCCL's and Gloo's rings have n - 1 steps. What
// switches multicast by themselves saves the senders', not the receivers'
// bytes, and these bound both ways; copy engines save processors, and no time.
// So without a launch (`cluster.launch_us`) nothing is ever gained.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PASSES_LIBRARYCOLLECTIVES_H
#define DT_PASSES_LIBRARYCOLLECTIVES_H

#include "TransitionAnalysis.h"
#include "dt/Scheduling/LibraryWaves.h"

namespace dt {

struct LibraryChoice {
  /// Empty: messages.
  std::vector<LibraryCall> calls;
  /// Of the slowest group.
  double librarySeconds = 0, messagesSeconds = 0;
  /// Why there are no calls, or why there are.
  std::string reason;
};

/// Whether a library has any part in a transition: what it costs to find out is
/// paid only then.
bool mayUseLibrary(const TransitionInfo &info);

/// Chooses for one collective of flow `number`, which has cells.
LibraryChoice chooseLibrary(CollectiveOp op, const TransitionInfo &info,
                            uint32_t number, const Flow &flow);

/// "all_gather of @qkv among 8 devices, 2 groups: ...", for people.
std::string explanation(CollectiveOp op, const LibraryChoice &choice);

/// The calls as ops, which stand at the end of the body: those of one kind
/// whose members are others are one.
void writeLibraryOps(CollectiveOp from, ArrayRef<LibraryCall> calls,
                     mlir::OpBuilder &builder);

/// What library collectives of a module at the routing level move, by group.
std::vector<LibraryCall> readLibraryCalls(const TransitionInfo &info);

} // namespace dt

#endif // DT_PASSES_LIBRARYCOLLECTIVES_H
