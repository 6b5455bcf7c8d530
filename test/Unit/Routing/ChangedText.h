//===- ChangedText.h - Problems as text, with a mistake ---------*- C++ -*-===//

#ifndef DT_TEST_UNIT_ROUTING_CHANGEDTEXT_H
#define DT_TEST_UNIT_ROUTING_CHANGEDTEXT_H

#include "gtest/gtest.h"

#include <string>

namespace dt::testing {

/// A problem's text, in which one part is replaced.
inline std::string replaced(std::string text, const std::string &from,
                            const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// Expects `read`, such as `readRoutingProblem`, to refuse a text.
template <typename Read>
void expectUnread(Read read, const std::string &text,
                  const std::string &expected) {
  std::string error;
  EXPECT_FALSE(read(text, error));
  EXPECT_EQ(error, expected);
}

} // namespace dt::testing

#endif // DT_TEST_UNIT_ROUTING_CHANGEDTEXT_H
