//===- ReportText.cpp - Numbers as people read them -----------------------===//

#include "ReportText.h"

#include <charconv>
#include <iomanip>
#include <sstream>

namespace dtrt {

std::string bytesText(uint64_t bytes) {
  const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = double(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 5) {
    value /= 1024;
    ++unit;
  }
  std::ostringstream text;
  text << std::fixed << std::setprecision(unit ? 2 : 0) << value << " "
       << units[unit];
  return text.str();
}

std::string secondsText(double seconds) {
  std::ostringstream text;
  text << std::setprecision(4) << seconds * 1e3 << " ms";
  return text.str();
}

std::string exactText(double value) {
  char text[32]; // the shortest that reads as this number has 24
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string rangeText(const Interval &range) {
  return "[" + std::to_string(range.lo) + ":" + std::to_string(range.hi) + ")";
}

/// How many numbers from `first` on rise by the step of the first two.
static size_t runFrom(const std::vector<uint64_t> &numbers, size_t first) {
  size_t end = first + 1;
  if (end == numbers.size() || numbers[end] <= numbers[first])
    return 1;
  uint64_t step = numbers[end] - numbers[first];
  while (end < numbers.size() && numbers[end] > numbers[end - 1] &&
         numbers[end] - numbers[end - 1] == step)
    ++end;
  // Two numbers are a run when they are neighbours.
  return end - first > 2 || step == 1 ? end - first : 1;
}

std::string listText(const std::vector<uint64_t> &numbers,
                     const std::string &mark) {
  std::string text;
  for (size_t i = 0, length = 0; i < numbers.size(); i += length) {
    length = runFrom(numbers, i);
    text += (i ? ", " : "") + mark + std::to_string(numbers[i]);
    if (length == 1)
      continue;
    text += "-" + mark + std::to_string(numbers[i + length - 1]);
    uint64_t step = numbers[i + 1] - numbers[i];
    if (step > 1)
      text += " step " + std::to_string(step);
  }
  return text.empty() ? "none" : text;
}

std::string callText(const PlanCommon &common, CollectiveKind kind,
                     uint32_t memberSet, uint32_t root) {
  const std::vector<uint32_t> &members = common.memberSets[memberSet];
  return std::string(collectiveName(kind)) + " of devices " +
         listText({members.begin(), members.end()}) +
         (kind == CollectiveKind::Broadcast ? " from " + std::to_string(root)
                                            : "");
}

} // namespace dtrt
