//===- TransportContract.h - What every transport must do -------*- C++ -*-===//
//
// The same tests for all transports whose ranks can be threads; a transport
// joins with INSTANTIATE_TEST_SUITE_P. (Gloo's ranks are processes:
// test/Python/test_conformance.py.)
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TEST_TRANSPORTCONTRACT_H
#define DTRT_TEST_TRANSPORTCONTRACT_H

#include "dtrt/core/Transport.h"

#include <functional>
#include <gtest/gtest.h>
#include <memory>

namespace dtrt::test {

/// All ends of one world, and what it is made on.
class TransportWorld {
public:
  virtual ~TransportWorld() = default;
  virtual Transport &endpoint(uint32_t device) = 0;
};

struct TransportCase {
  std::string name;
  /// `timeoutSeconds`: for what will not come.
  std::function<std::unique_ptr<TransportWorld>(
      const std::vector<uint32_t> &devices, double timeoutSeconds)>
      make;
  /// Whether `connect` compares the plans; else somebody else must.
  bool comparesPlans = true;
};

/// In the names of tests, instead of a case's bytes.
inline void PrintTo(const TransportCase &one, std::ostream *out) {
  *out << one.name;
}

inline std::string caseName(const testing::TestParamInfo<TransportCase> &info) {
  return info.param.name;
}

class TransportContract : public testing::TestWithParam<TransportCase> {};

} // namespace dtrt::test

#endif // DTRT_TEST_TRANSPORTCONTRACT_H
