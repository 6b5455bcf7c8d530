//===- FakeKernels.h - Our kernels on the fake GPUs -------------*- C++ -*-===//

#ifndef DTRT_TEST_FAKEKERNELS_H
#define DTRT_TEST_FAKEKERNELS_H

namespace dtrt::test {

/// Gives all kernels of runtime/cuda their body: the same code, compiled for
/// the CPU. Memory that they touch is checked.
void setFakeKernels();

} // namespace dtrt::test

#endif // DTRT_TEST_FAKEKERNELS_H
