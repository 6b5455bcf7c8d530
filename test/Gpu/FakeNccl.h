//===- FakeNccl.h - NCCL's calls, on the host's memory ----------*- C++ -*-===//
//
// What the NCCL transport calls, for ranks that are threads: non-blocking
// communicators that are busy for a while after every call, groups of sends and
// receives that meet pair by pair, and streams that are not done before their
// operations are. Calls against NCCL's rules, or against ours, are written down
// as faults.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TEST_FAKENCCL_H
#define DTRT_TEST_FAKENCCL_H

#include "NcclApi.h"

#include <string>
#include <vector>

namespace dtrt::test {

const NcclApi &fakeNccl();

/// From now on nothing is known of earlier worlds.
void resetFakeNccl();
/// Calls that break a rule, leaks included: communicators, streams, memory and
/// registrations that are still there.
std::vector<std::string> fakeNcclFaults();
/// The communicator of this rank reports an asynchronous error once it has seen
/// so many groups.
void breakFakeNccl(int rank, int afterGroups);
/// Communicators that were aborted.
int fakeNcclAborts();

} // namespace dtrt::test

#endif // DTRT_TEST_FAKENCCL_H
