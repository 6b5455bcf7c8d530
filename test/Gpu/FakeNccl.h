//===- FakeNccl.h - NCCL's calls on the fake GPUs ---------------*- C++ -*-===//
//
// What the NCCL transports call, for ranks that are threads of one process. A
// group is taken apart in NCCL's rounds and cut at random places, and nothing
// of it is buffered; a pair connects when both of its ends first use it; an
// abort stays until all that the communicator has connected with are gone too,
// as NCCL joins its proxy; kernels of two communicators never run beside each
// other on a GPU. A collective meets all ranks of its communicator, which come
// to theirs in one order. What is put into a window goes on after an abort, and
// so does a wait for a signal that never comes. Calls against NCCL's rules are
// written down as faults.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TEST_FAKENCCL_H
#define DTRT_TEST_FAKENCCL_H

#include "FakeGpu.h"

#include "NcclApi.h"

#include <string>
#include <vector>

namespace dtrt::test {

struct FakeNcclOptions {
  int version = NCCL_VERSION_CODE;
  /// Messages above this take the protocol that looks at registrations.
  uint64_t simpleBytes = 4096;
  /// Whether communicators allow one-sided operations.
  bool oneSided = true;
};

const NcclApi &fakeNccl();

/// From now on nothing is known of earlier worlds but calls that broke a rule.
void resetFakeNccl(const FakeNcclOptions &options = {});
/// Calls that broke a rule, and communicators that are left.
std::vector<std::string> fakeNcclFaults();
/// Broken rules were meant to be broken.
void clearFakeNcclFaults();
/// The communicators of this rank report an asynchronous error, and take no
/// group, once one of them has seen so many groups.
void breakFakeNccl(int rank, int afterGroups);
/// The process of this rank is gone: its kernels never go on, its connections
/// are closed, and no call of its threads has an effect.
void killFakeNccl(int rank);
/// Whether puts and signals stay where they are.
void haltFakePuts(bool halted);
/// From now on no group may connect a pair or register memory.
void forbidFakeConnecting();
/// Calls of ncclCommRegister.
int fakeNcclRegistrations();
/// Calls of ncclPutSignal.
int fakeNcclPuts();
/// How many sizes the windows of all communicators had.
size_t fakeWindowSizes();
/// Communicators that were aborted.
int fakeNcclAborts();
/// What the communicators were made with, in no order.
std::vector<ncclConfig_t> fakeNcclConfigs();

} // namespace dtrt::test

#endif // DTRT_TEST_FAKENCCL_H
