//===- Text.cpp - Text that comes from outside ----------------------------===//

#include "dtrt/format/Text.h"

#include <algorithm>
#include <cstdint>
#include <sstream>

namespace dtrt {

namespace {

/// Bytes of a text that a message has room for.
constexpr size_t kShown = 120;

bool follows(char c) { return (uint8_t(c) & 0xc0) == 0x80; }

/// Bytes of the character that starts the text; 0: none.
size_t characterBytes(std::string_view text) {
  auto first = uint8_t(text[0]);
  size_t bytes = first < 0x80    ? 1
                 : first < 0xc2  ? 0 // a byte that follows, or overlong
                 : first < 0xe0  ? 2
                 : first < 0xf0  ? 3
                 : first <= 0xf4 ? 4
                                 : 0;
  if (bytes < 2)
    return bytes;
  if (text.size() < bytes ||
      !std::all_of(text.begin() + 1, text.begin() + bytes, follows))
    return 0;
  auto second = uint8_t(text[1]);
  bool overlong =
      (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  bool surrogate = first == 0xed && second >= 0xa0;
  bool tooLarge = first == 0xf4 && second >= 0x90;
  return overlong || surrogate || tooLarge ? 0 : bytes;
}

bool isControl(char c) { return uint8_t(c) < 0x20 || c == 0x7f; }

bool isLayout(char c) { return c == '\n' || c == '\t' || c == '\r'; }

} // namespace

bool isUtf8(std::string_view text) {
  while (!text.empty()) {
    size_t bytes = characterBytes(text);
    if (bytes == 0)
      return false;
    text.remove_prefix(bytes);
  }
  return true;
}

Status checkName(const char *what, std::string_view text) {
  if (text.size() > kMaxNameBytes)
    return makeError(what, " has ", text.size(), " bytes, expected at most ",
                     kMaxNameBytes);
  if (!isUtf8(text))
    return makeError(what, " is not UTF-8");
  if (std::any_of(text.begin(), text.end(), isControl))
    return makeError(what, " has a control character");
  return {};
}

Status checkProse(const char *what, std::string_view text) {
  if (!isUtf8(text))
    return makeError(what, " is not UTF-8");
  if (std::any_of(text.begin(), text.end(),
                  [](char c) { return isControl(c) && !isLayout(c); }))
    return makeError(what, " has a control character");
  return {};
}

std::string hexText(uint64_t bits) {
  std::ostringstream out;
  out << "0x" << std::hex << bits;
  return out.str();
}

std::string shortened(std::string_view text) {
  if (text.size() <= kShown)
    return std::string(text);
  size_t end = kShown;
  while (end > 0 && follows(text[end]))
    --end;
  return std::string(text.substr(0, end)) + "...";
}

} // namespace dtrt
