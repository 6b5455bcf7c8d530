//===- ExpectContains.h - What a text says ----------------------*- C++ -*-===//

#ifndef DTRT_TEST_EXPECTCONTAINS_H
#define DTRT_TEST_EXPECTCONTAINS_H

#include <gtest/gtest.h>

namespace dtrt::test {

inline void expectContains(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos)
      << "found '" << text << "', expected it to contain '" << part << "'";
}

} // namespace dtrt::test

#endif // DTRT_TEST_EXPECTCONTAINS_H
