//===- PlanMutator.h - Changed plans with right checksums -------*- C++ -*-===//
//
// Bytes changed at random never get past a checksum. So a plan is changed where
// it says something: an instruction, segment or message of the plan that it
// decodes to; a number of a section; a section as bytes; a section as it is
// stored. Then it is compressed again, where it was, and sealed anew.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_FUZZ_PLANMUTATOR_H
#define DTRT_FUZZ_PLANMUTATOR_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace dtrt::fuzz {

/// A change of `input`, of at most `limit` bytes; of a plan made here where the
/// input is none.
std::string mutatePlan(const std::string &input, size_t limit, uint32_t seed);

/// Sections of two plans as one.
std::string crossPlans(const std::string &a, const std::string &b, size_t limit,
                       uint32_t seed);

} // namespace dtrt::fuzz

#endif // DTRT_FUZZ_PLANMUTATOR_H
