//===- DiffReport.cpp - Differences, gathered for one screen --------------===//

#include "DiffReport.h"

#include "ReportText.h"

#include <algorithm>
#include <ostream>

namespace dtrt {

namespace {

/// A screen: less than 60 lines of less than 120 columns. No line has more
/// columns than bytes.
constexpr size_t kLines = 59, kColumns = 119;
/// Lines of a section that are listed where there is room.
constexpr size_t kMostListed = 10;
/// What is shown of a long name, and of equal text before a difference.
constexpr size_t kNameColumns = 76, kBefore = 12;
/// What is shown of a list of numbers before the rest of it is counted.
constexpr size_t kListColumns = 24;
constexpr const char *kCut = "...", *kArrow = " -> ";

bool follows(char c) { return (uint8_t(c) & 0xC0) == 0x80; }

/// The longest part of at most `size` bytes from `begin` on that ends and
/// starts between characters, with dots where text is missing.
std::string part(const std::string &text, size_t begin, size_t size) {
  while (begin > 0 && begin < text.size() && follows(text[begin]))
    --begin;
  std::string before = begin > 0 ? kCut : "";
  if (before.size() + text.size() - begin <= size)
    return before + text.substr(begin);
  size_t end = begin + size - before.size() - 3;
  while (end > begin && follows(text[end]))
    --end;
  return before + text.substr(begin, end - begin) + kCut;
}

/// "0, 7-8, 15-16, 23-24, ... (256 in all)"
std::string startOf(const std::string &list, size_t count) {
  if (list.size() <= kListColumns)
    return list;
  size_t end = list.rfind(", ", kListColumns);
  if (end == std::string::npos)
    return list;
  return list.substr(0, end) + ", ... (" + std::to_string(count) + " in all)";
}

} // namespace

void DiffReport::section(std::string more) {
  sections.push_back({std::move(more), {}, {}});
}

void DiffReport::compare(const std::string &what, const std::string &a,
                         const std::string &b) {
  if (a == b)
    return;
  any = true;
  sections.back().lines.push_back({what, a, b, {}, {}});
}

void DiffReport::compareItem(const std::string &key, uint64_t number,
                             const Name &name, const std::string &a,
                             const std::string &b) {
  if (a == b)
    return;
  any = true;
  Section &into = sections.back();
  std::string same = std::to_string(key.size()) + " " + key + " " +
                     std::to_string(a.size()) + " " + a + b;
  auto [found, isNew] = into.lineOf.emplace(same, into.lines.size());
  if (isNew)
    into.lines.push_back({"", a, b, {}, name});
  into.lines[found->second].numbers.push_back(number);
}

size_t DiffReport::linesWith(size_t limit) const {
  size_t lines = 0;
  for (const Section &section : sections) {
    size_t all = section.lines.size();
    lines += section.more.empty() || all <= limit ? all : limit + 1;
  }
  return lines;
}

void DiffReport::writeLine(const Line &line, std::ostream &out) const {
  bool isShort = length == DiffLength::Screen;
  std::string what = line.what, left = line.left, right = line.right;
  if (!line.numbers.empty()) {
    std::string list = listText(line.numbers);
    what =
        line.name(isShort ? startOf(list, line.count()) : list, line.count());
  }
  if (isShort) {
    what = part(what, 0, kNameColumns);
    size_t room = kColumns - what.size() - 2 - 4;
    if (left.size() + right.size() > room) {
      auto at =
          std::mismatch(left.begin(), left.end(), right.begin(), right.end());
      size_t same = size_t(at.first - left.begin());
      size_t begin = same > kBefore ? same - kBefore : 0;
      left = part(left, begin, room / 2);
      right = part(right, begin, room / 2);
    }
  }
  out << what << ": " << left << kArrow << right << "\n";
}

void DiffReport::writeSection(const Section &section, size_t limit,
                              std::ostream &out) const {
  const auto &lines = section.lines;
  size_t listed =
      section.more.empty() ? lines.size() : std::min(limit, lines.size());
  for (size_t i = 0; i < listed; ++i)
    writeLine(lines[i], out);
  size_t left = 0;
  for (size_t i = listed; i < lines.size(); ++i)
    left += lines[i].count();
  if (left == 0)
    return;
  std::string text = section.more;
  text.replace(text.find("{}"), 2, std::to_string(left));
  out << text << " (--all lists them)\n";
}

void DiffReport::write(std::ostream &out) const {
  size_t limit = kMostListed;
  while (limit > 1 && linesWith(limit) > kLines)
    --limit;
  if (length == DiffLength::All)
    limit = SIZE_MAX - 1;
  for (const Section &section : sections)
    writeSection(section, limit, out);
}

} // namespace dtrt
