//===- ShardLines.cpp - Equal shards, once --------------------------------===//

#include "ShardLines.h"

#include "ReportText.h"

#include "dtrt/format/ShardView.h"

#include <algorithm>
#include <map>
#include <optional>
#include <ostream>

namespace dtrt {

namespace {

/// A name parted at its numbers: "layers.3.w" -> "layers.", 3, ".w".
struct NumberedName {
  std::vector<std::string> words; // one more than there are numbers
  std::vector<std::string> numbers;
};

NumberedName partedAtNumbers(const std::string &name) {
  NumberedName parted;
  for (size_t at = 0;;) {
    size_t digits = name.find_first_of("0123456789", at);
    parted.words.push_back(name.substr(at, digits - at));
    if (digits == std::string::npos)
      return parted;
    at = std::min(name.find_first_not_of("0123456789", digits), name.size());
    parted.numbers.push_back(name.substr(digits, at - digits));
  }
}

/// Equal shards. `members` has the leading dims of one family's;
/// `names` the numbers at place `varies` in the names of families.
struct ShardLine {
  NumberedName name;
  std::string states;
  std::vector<std::string> members;
  std::vector<uint64_t> indices; // of members that are one index each
  std::string rest;              // inner dims and range
  std::vector<uint64_t> shards;
  std::optional<size_t> varies;
  std::vector<uint64_t> names;
};

std::string intervalsText(const std::vector<Interval> &intervals) {
  std::string text;
  for (const Interval &interval : intervals)
    text += (text.empty() ? "" : "+") + rangeText(interval);
  return text;
}

/// The place of the only number in which the names differ; one that a text of
/// 64 bits says as it is.
std::optional<size_t> differsAt(const NumberedName &a, const NumberedName &b) {
  std::optional<size_t> place;
  if (a.words != b.words)
    return std::nullopt;
  for (size_t i = 0; i < a.numbers.size(); ++i) {
    if (a.numbers[i] == b.numbers[i])
      continue;
    for (const std::string &number : {a.numbers[i], b.numbers[i]})
      if (place || number.size() > 18 ||
          (number.size() > 1 && number[0] == '0'))
        return std::nullopt;
    place = i;
  }
  return place;
}

/// Takes the shards of another family whose name differs in one number only.
bool join(ShardLine &line, const ShardLine &next) {
  if (line.members != next.members || line.states != next.states ||
      line.rest != next.rest)
    return false;
  auto place = differsAt(line.name, next.name);
  if (!place || (line.varies && line.varies != place))
    return false;
  if (!line.varies)
    line.names.push_back(std::stoull(line.name.numbers[*place]));
  line.varies = place;
  line.names.push_back(std::stoull(next.name.numbers[*place]));
  line.shards.insert(line.shards.end(), next.shards.begin(), next.shards.end());
  return true;
}

/// Of a shard that holds one member of a family with one leading dim.
std::optional<uint64_t> onlyIndex(const Family &family,
                                  const ShardRecord &shard) {
  if (family.numLeading() != 1 || shard.dims[0].size() != 1 ||
      shard.dims[0][0].size() != 1)
    return std::nullopt;
  return uint64_t(shard.dims[0][0].lo);
}

/// A line per family and way to lie, in the order of their first shards.
std::vector<ShardLine> linesByFamily(const PlanCommon &common, Side side,
                                     const std::vector<ShardRecord> &shards) {
  std::vector<ShardLine> lines;
  std::map<std::pair<uint32_t, std::string>, size_t> known;
  for (size_t i = 0; i < shards.size(); ++i) {
    const ShardRecord &shard = shards[i];
    const Family &family = common.families[shard.family];
    std::string states =
        statesText(family, storedStates(family, shard.states, side));
    std::string members, rest;
    for (size_t dim = 0; dim < shard.dims.size(); ++dim) {
      std::string text = intervalsText(shard.dims[dim]);
      if (dim >= family.numLeading())
        rest += " " + text;
      else
        members += (members.empty() ? "" : " ") + text;
    }
    if (shard.flat)
      rest += " flat " + rangeText(shard.range);
    std::string name = family.name;
    if (shard.view != kNoView) {
      name = common.views[shard.view].name;
      rest += " of " + family.name;
    }
    auto [found, isNew] =
        known.emplace(std::make_pair(shard.family, name + "\n" + states + rest),
                      lines.size());
    if (isNew)
      lines.push_back(
          {partedAtNumbers(name), states, {}, {}, rest, {}, {}, {}});
    lines[found->second].members.push_back(members);
    lines[found->second].shards.push_back(i);
    if (auto index = onlyIndex(family, shard))
      lines[found->second].indices.push_back(*index);
  }
  return lines;
}

void writeMembers(const std::vector<std::string> &members, std::ostream &out) {
  if (members.size() > 1)
    out << " each of";
  for (size_t i = 0; i < members.size(); ++i)
    out << (i ? ", " : members[i].empty() ? "" : " ") << members[i];
}

void writeLine(const ShardLine &line, std::ostream &out) {
  out << "  " << listText(line.shards, "#") << " ";
  for (size_t i = 0; i < line.name.numbers.size(); ++i) {
    out << line.name.words[i];
    if (line.varies == i)
      out << "{" << listText(line.names) << "}";
    else
      out << line.name.numbers[i];
  }
  out << line.name.words.back() << " " << line.states;
  if (line.members.size() == line.indices.size() && line.indices.size() > 1)
    out << " each of " << listText(line.indices);
  else
    writeMembers(line.members, out);
  out << line.rest;
  if (line.shards.size() > 1)
    out << " (" << line.shards.size() << " shards)";
  out << "\n";
}

} // namespace

std::string statesText(const Family &family, uint64_t states) {
  std::string text;
  for (unsigned state : statesOf(states))
    text += (text.empty() ? "" : ", ") + family.states[state].name;
  return "{" + text + "}";
}

void writeShards(const PlanCommon &common, Side side,
                 const std::vector<ShardRecord> &shards, std::ostream &out) {
  out << sideName(side) << " shards:\n";
  std::vector<ShardLine> lines;
  std::map<std::string, size_t> last; // by words of the name, and how they lie
  for (ShardLine &line : linesByFamily(common, side, shards)) {
    std::string key = line.states + line.rest;
    for (const std::string &word : line.name.words)
      key += "\n" + word; // which no name has
    auto found = last.find(key);
    if (found != last.end() && join(lines[found->second], line))
      continue;
    last[key] = lines.size();
    lines.push_back(std::move(line));
  }
  for (const ShardLine &line : lines)
    writeLine(line, out);
}

} // namespace dtrt
