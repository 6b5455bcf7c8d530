//===- Names.cpp - What names may be, and how errors show them ------------===//

#include "dt/Geometry/Names.h"

#include "dt/Geometry/Limits.h"

#include <cstdint>

namespace dt {

namespace {

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

/// Bytes of the character that `text` starts with (RFC 3629: no longer than it
/// need be, no surrogate, at most U+10FFFF); 0 when it is none.
size_t characterBytes(std::string_view text) {
  auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80)
    return 1;
  size_t size = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (size == 0 || first > 0xf4 || text.size() < size)
    return 0;
  for (size_t i = 1; i < size; ++i)
    if (!continues(text[i]))
      return 0;
  auto second = static_cast<unsigned char>(text[1]);
  bool isLong =
      (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  bool isOutside =
      (first == 0xed && second > 0x9f) || (first == 0xf4 && second > 0x8f);
  return isLong || isOutside ? 0 : size;
}

} // namespace

std::string problemOfName(std::string_view name, size_t numbers) {
  if (name.empty())
    return "is empty";
  if (name.size() > kMaxNameBytes)
    return "has " + std::to_string(name.size()) +
           " bytes, more than the limit of " + std::to_string(kMaxNameBytes);
  for (size_t at = 0; at < name.size();) {
    size_t size = characterBytes(name.substr(at));
    if (size == 0)
      return "is no UTF-8 at byte " + std::to_string(at);
    auto c = static_cast<unsigned char>(name[at]);
    if (c < 0x20 || c == 0x7f)
      return "has a control character at byte " + std::to_string(at);
    at += size;
  }
  size_t holes = 0;
  for (size_t at = 0; (at = name.find("{}", at)) != name.npos; at += 2)
    ++holes;
  if (holes == numbers)
    return "";
  if (numbers == 0)
    return "has \"{}\", which stands for a number in the names of a plan";
  return "has " + std::to_string(holes) + " \"{}\", expected one for each of " +
         std::to_string(numbers) + " numbers";
}

std::string shorten(std::string_view text, size_t most) {
  if (text.size() <= most)
    return std::string(text);
  while (most > 0 && continues(text[most]))
    --most;
  return std::string(text.substr(0, most)) + "...";
}

} // namespace dt
