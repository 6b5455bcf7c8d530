//===- FirstOf.h - An instruction to change ---------------------*- C++ -*-===//

#ifndef DTRT_TEST_FIRSTOF_H
#define DTRT_TEST_FIRSTOF_H

#include "PlanBuilder.h"

#include <gtest/gtest.h>

namespace dtrt::test {

/// The first instruction of a device's program that does this; a test that
/// finds none fails.
inline Instruction &firstOf(TestPlan &plan, uint32_t device, Opcode op) {
  for (Instruction &instruction : plan.programs[device].instructions)
    if (instruction.op == op)
      return instruction;
  ADD_FAILURE() << "no " << opcodeName(op);
  return plan.programs[device].instructions.front();
}

} // namespace dtrt::test

#endif // DTRT_TEST_FIRSTOF_H
