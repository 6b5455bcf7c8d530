//===- TextTest.cpp - Text that comes from outside ------------------------===//

#include "dtrt/format/Text.h"

#include <gtest/gtest.h>

using namespace dtrt;

TEST(Text, Utf8IsTold) {
  for (const char *good : {"", "layers.0.w",
                           "gr\xc3\xb6\xc3\x9f"
                           "e",
                           "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\x9f\xbf",
                           "\xee\x80\x80", "\xf4\x8f\xbf\xbf", "\x7f"})
    EXPECT_TRUE(isUtf8(good)) << good;
  for (const char *bad :
       {"\xff", "\x80", "w\xc3", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf",
        "\xf0\x8f\xbf\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\xe2\x82", "\xe2\x82w", "\xf0\x9f\x98"})
    EXPECT_FALSE(isUtf8(bad)) << bad;
  EXPECT_TRUE(isUtf8(std::string_view("a\0b", 3)));
}

TEST(Text, NamesAreLinesOfALength) {
  EXPECT_TRUE(checkName("name", "layers.{}.w").ok());
  EXPECT_TRUE(checkName("name", std::string(kMaxNameBytes, 'w')).ok());
  EXPECT_EQ(checkName("name", std::string(kMaxNameBytes + 1, 'w')).message(),
            "name has 1025 bytes, expected at most 1024");
  EXPECT_EQ(checkName("name", "w\xff").message(), "name is not UTF-8");
  for (const char *control : {"a\nb", "a\tb", "\x1b[31m", "a\x7f"})
    EXPECT_EQ(checkName("name", control).message(),
              "name has a control character");
  EXPECT_FALSE(checkName("name", std::string_view("a\0b", 3)).ok());
}

TEST(Text, ProseHasLines) {
  EXPECT_TRUE(
      checkProse("layout", std::string(5000, 'w') + "\n\tend\r\n").ok());
  EXPECT_EQ(checkProse("layout", "\x1b[31m").message(),
            "layout has a control character");
  EXPECT_EQ(checkProse("layout", "\xff").message(), "layout is not UTF-8");
}

TEST(Text, MessagesHaveRoomForALine) {
  EXPECT_EQ(shortened("layers.0.w"), "layers.0.w");
  EXPECT_EQ(shortened(std::string(120, 'w')), std::string(120, 'w'));
  EXPECT_EQ(shortened(std::string(121, 'w')), std::string(120, 'w') + "...");
  // No character is cut.
  std::string euros;
  for (int i = 0; i < 50; ++i)
    euros += "\xe2\x82\xac";
  EXPECT_EQ(shortened("a" + euros), "a" + euros.substr(0, 39 * 3) + "...");
  EXPECT_TRUE(isUtf8(shortened("ab" + euros)));
}
