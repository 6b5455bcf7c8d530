//===- VerifyOnce.h - A plan is verified before it runs ---------*- C++ -*-===//
//
// Verifying a large plan takes seconds, and every rank of a host would take
// them. So who runs a plan has it verified once: an empty file in a folder of
// the user's cache, named after the plan's digest and the verifier's version,
// remembers that its bytes were found right. Processes of a user that come at
// the same time wait for the first.
//
// The folder is believed where it and the file belong to the user, and nobody
// else may write to them. Where there is no such folder plans are verified each
// time. It guards against plans that are damaged or wrong; the digest is no
// signature.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_VERIFY_VERIFYONCE_H
#define DTRT_VERIFY_VERIFYONCE_H

#include "dtrt/format/PlanReader.h"

namespace dtrt {

/// "dynatrain/verified" in $XDG_CACHE_HOME, or in ~/.cache; empty where neither
/// is an absolute path.
std::string verifiedFolder();

/// So many plans are remembered; then they are forgotten all at once.
constexpr size_t kMostVerified = 1000;

/// What `verifyPlan` says of a plan, once. Errors say that nothing was moved.
/// Waits while another process verifies the same plan; a folder that cannot be
/// written costs the verification again.
Status verifyOnce(const PlanReader &plan,
                  const std::string &folder = verifiedFolder());

} // namespace dtrt

#endif // DTRT_VERIFY_VERIFYONCE_H
