//===- DiffReport.h - Differences, gathered for one screen ------*- C++ -*-===//
//
// Differences are gathered by section. Those of one section that say the same
// of several items become one line. What a screen has no room for is counted.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_REPORT_DIFFREPORT_H
#define DTRT_REPORT_DIFFREPORT_H

#include "dtrt/report/Diff.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace dtrt {

class DiffReport {
public:
  explicit DiffReport(DiffLength length) : length(length) {}

  /// Starts a section of which `more` says what is left out:
  /// "bytes of {} more edges". Without `more` all its lines are printed.
  void section(std::string more = "");

  /// One difference; there is none where both texts are the same.
  void compare(const std::string &what, const std::string &a,
               const std::string &b);

  /// A difference of item `number` of several: `name` makes "memory peak on
  /// devices 0-3" of "0-3" and how many they are. Lines of one section with the
  /// same `key` and the same texts are one.
  using Name = std::function<std::string(const std::string &list, size_t)>;
  void compareItem(const std::string &key, uint64_t number, const Name &name,
                   const std::string &a, const std::string &b);

  void write(std::ostream &out) const;

  bool any = false;
  const DiffLength length;

private:
  struct Line {
    std::string what, left, right;
    std::vector<uint64_t> numbers; // empty: one item
    Name name;
    size_t count() const { return numbers.empty() ? 1 : numbers.size(); }
  };
  struct Section {
    std::string more;
    std::vector<Line> lines;
    std::map<std::string, size_t> lineOf; // by key and texts
  };

  size_t linesWith(size_t limit) const;
  void writeLine(const Line &line, std::ostream &out) const;
  void writeSection(const Section &section, size_t limit,
                    std::ostream &out) const;

  std::vector<Section> sections;
};

} // namespace dtrt

#endif // DTRT_REPORT_DIFFREPORT_H
