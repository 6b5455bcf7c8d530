//===- LayoutDiff.cpp - What differs between two layouts ------------------===//
//
// A layout in words has an op per line. Lines are compared by what they are of
// ("dt.place @w"), wherever they stand:
//
//   dt.mesh @dense <["dp"=2, "tp"=8]>   and   dt.mesh @dense <["tp"=4]>
//   -> source mesh @dense, dp: 2 -> 1
//   -> source mesh @dense, tp: 8 -> 4
//
//===----------------------------------------------------------------------===//

#include "LayoutDiff.h"

#include <algorithm>
#include <optional>

namespace dtrt {

namespace {

/// The ops of a layout: what each line is of, and what it says of that. The
/// k-th line of one name is compared with the k-th of the other layout.
std::map<std::pair<std::string, size_t>, std::string>
opsOf(const std::string &text) {
  std::map<std::pair<std::string, size_t>, std::string> ops;
  std::map<std::string, size_t> seen;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    begin = std::min(text.find_first_not_of(" \t", begin), text.size());
    end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    size_t symbol = line.find(" @");
    size_t nameEnd = symbol == std::string::npos ? line.find(' ')
                                                 : line.find(' ', symbol + 2);
    std::string name = line.substr(0, nameEnd);
    std::string says =
        nameEnd == std::string::npos ? "present" : line.substr(nameEnd + 1);
    if (!line.empty())
      ops[{name, seen[name]++}] = says;
  }
  return ops;
}

/// Axes of a mesh with their sizes, outermost first, and what follows them.
struct Mesh {
  std::vector<std::pair<std::string, std::string>> axes;
  std::string rest;

  /// Null: no such axis.
  const std::string *find(const std::string &axis) const {
    for (const auto &[name, size] : axes)
      if (name == axis)
        return &size;
    return nullptr;
  }
  /// The axes that the other mesh has too.
  std::string orderIn(const Mesh &other) const {
    std::string text;
    for (const auto &[name, size] : axes)
      if (other.find(name))
        text += (text.empty() ? "" : ", ") + name;
    return text;
  }
};

/// Reads `<["dp"=2, "tp"=8], rest>`; nothing if it is something else.
std::optional<Mesh> readMesh(const std::string &text) {
  Mesh mesh;
  if (text.rfind("<[", 0) != 0)
    return std::nullopt;
  size_t at = 2;
  while (at < text.size() && text[at] == '"') {
    size_t quote = text.find('"', at + 1);
    if (quote == std::string::npos || text.substr(quote, 2) != "\"=")
      return std::nullopt;
    size_t end = text.find_first_not_of("0123456789", quote + 2);
    if (end == std::string::npos || end == quote + 2)
      return std::nullopt;
    mesh.axes.push_back({text.substr(at + 1, quote - at - 1),
                         text.substr(quote + 2, end - quote - 2)});
    at = text.compare(end, 2, ", ") == 0 ? end + 2 : end;
  }
  if (at >= text.size() || text[at] != ']')
    return std::nullopt;
  mesh.rest = text.substr(at + 1);
  return mesh;
}

/// Says what differs of two meshes; false if they cannot be told apart so.
bool compareMeshes(const std::string &what, const std::string &a,
                   const std::string &b, DiffReport &report) {
  auto left = readMesh(a), right = readMesh(b);
  if (!left || !right)
    return false;
  bool said = false;
  auto compare = [&](const std::string &part, const std::string &before,
                     const std::string &after) {
    said |= before != after;
    report.compare(what + ", " + part, before, after);
  };
  const std::string one = "1"; // an axis that a mesh does not have
  for (const auto &[axis, size] : left->axes)
    compare(axis, size, right->find(axis) ? *right->find(axis) : one);
  for (const auto &[axis, size] : right->axes)
    if (!left->find(axis))
      compare(axis, one, size);
  compare("order of axes", left->orderIn(*right), right->orderIn(*left));
  compare("devices", left->rest, right->rest);
  return said;
}

/// The same of a layout's own line, `on [...] world N {`, where nothing but N
/// differs.
bool compareWorlds(const std::string &what, const std::string &a,
                   const std::string &b, DiffReport &report) {
  const std::string mark = " world ";
  size_t left = a.rfind(mark), right = b.rfind(mark);
  if (left == std::string::npos || left != right ||
      a.compare(0, left, b, 0, right) != 0)
    return false;
  auto worldOf = [&](const std::string &text) {
    size_t begin = left + mark.size();
    return text.substr(begin, text.find(' ', begin) - begin);
  };
  std::string before = worldOf(a), after = worldOf(b);
  report.compare(what + ", world", before, after);
  return before != after;
}

/// Names the first line that differs: their order does, or space in them.
void compareLines(const std::string &side, const std::string &a,
                  const std::string &b, DiffReport &report) {
  auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  auto line = std::count(a.begin(), at, '\n');
  size_t start = 0;
  if (at != a.begin())
    start = a.rfind('\n', size_t(at - a.begin()) - 1) + 1;
  auto lineOf = [&](const std::string &text) {
    size_t end = text.find('\n', start);
    return end == std::string::npos ? text.substr(start) + " (the end)"
                                    : text.substr(start, end - start);
  };
  report.compare(side + " layout in words, line " + std::to_string(line + 1),
                 lineOf(a), lineOf(b));
}

bool isMesh(const std::string &name) { return name.rfind("dt.mesh ", 0) == 0; }

/// "dt.place @w" -> "place @w"
std::string shortName(const std::string &name) {
  return name.rfind("dt.", 0) == 0 ? name.substr(3) : name;
}

} // namespace

void compareLayouts(const std::string &side, const std::string &a,
                    const std::string &b, DiffReport &report) {
  if (a == b)
    return;
  auto left = opsOf(a), right = opsOf(b);
  if (left == right)
    return compareLines(side, a, b, report);
  auto all = left;
  all.insert(right.begin(), right.end());
  bool said = false;
  // Meshes first: what they say explains the rest.
  for (bool meshes : {true, false})
    for (const auto &[key, unused] : all) {
      auto before = left.find(key), after = right.find(key);
      std::string x = before == left.end() ? "absent" : before->second;
      std::string y = after == right.end() ? "absent" : after->second;
      if (x == y || isMesh(key.first) != meshes)
        continue;
      std::string what = side + " " + shortName(key.first);
      if (!compareMeshes(what, x, y, report) &&
          !compareWorlds(what, x, y, report))
        report.compare(what, x, y);
      said = true;
    }
  if (!said) // a line says that it is absent
    compareLines(side, a, b, report);
}

} // namespace dtrt
