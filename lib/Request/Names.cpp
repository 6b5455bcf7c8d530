//===- Names.cpp - Layer and expert numbers in tensor names ---------------===//

#include "Names.h"

#include "dt/Json/Json.h"

#include <fnmatch.h>

#include <vector>

namespace dt::request {

namespace {

/// More digits than this are an identifier, not a count.
constexpr size_t kMaxDigits = 6;

/// The number that a component is; -1 when it is none.
int64_t asNumber(const std::string &text) {
  if (text.empty() || text.size() > kMaxDigits ||
      text.find_first_not_of("0123456789") != std::string::npos)
    return -1;
  return std::stoll(text);
}

std::vector<std::string> components(const std::string &name) {
  std::vector<std::string> parts(1);
  for (char c : name) {
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

bool namesLayers(const std::string &component) {
  return component == "layers" || component == "h" || component == "blocks";
}

int64_t trailingNumber(const std::string &component) {
  size_t lastOther = component.find_last_not_of("0123456789");
  return lastOther == std::string::npos
             ? -1
             : asNumber(component.substr(lastOther + 1));
}

} // namespace

NameNumbers readNameNumbers(const std::string &name) {
  NameNumbers found;
  std::vector<std::string> parts = components(name);
  size_t next = 0; // the first component after the layer number
  for (size_t i = 0; i + 1 < parts.size() && next == 0; ++i) {
    if (!namesLayers(parts[i]) || asNumber(parts[i + 1]) < 0)
      continue;
    found.layer = asNumber(parts[i + 1]);
    next = i + 2;
  }
  for (size_t i = next; i < parts.size() && found.expert < 0; ++i)
    found.expert = asNumber(parts[i]);
  if (found.expert < 0 && next < parts.size())
    found.expert = trailingNumber(parts.back());
  return found;
}

bool matchesGlob(const std::string &pattern, const std::string &name) {
  return fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

std::optional<std::vector<std::string>> matchGlob(const std::string &pattern,
                                                  const std::string &name) {
  size_t star = pattern.find('*');
  if (name.compare(0, star, pattern, 0, star) != 0)
    return std::nullopt;
  std::vector<std::string> out;
  size_t at = star; // in the name
  while (star != std::string::npos) {
    size_t next = pattern.find('*', star + 1);
    std::string text = pattern.substr(star + 1, next - star - 1);
    bool isLast = next == std::string::npos;
    if (isLast && name.size() < at + text.size())
      return std::nullopt;
    size_t found = isLast ? name.size() - text.size() : name.find(text, at);
    if (found == std::string::npos || name.compare(found, text.size(), text))
      return std::nullopt;
    out.push_back(name.substr(at, found - at));
    at = found + text.size();
    star = next;
  }
  if (out.empty() && name != pattern)
    return std::nullopt;
  return out;
}

std::string fillIn(const std::string &pattern, const std::string &what,
                   const std::vector<std::string> &texts,
                   const std::string &path) {
  std::string out;
  size_t at = 0, holes = 0;
  for (size_t hole = pattern.find(what); hole != std::string::npos;
       hole = pattern.find(what, at)) {
    out += pattern.substr(at, hole - at);
    if (holes < texts.size())
      out += texts[holes];
    ++holes;
    at = hole + what.size();
  }
  if (holes != texts.size())
    json::fail(path + " is " + json::inQuotes(pattern) + " with " +
               std::to_string(holes) + " of " + json::inQuotes(what) +
               ", expected " + std::to_string(texts.size()));
  return out + pattern.substr(at);
}

} // namespace dt::request
