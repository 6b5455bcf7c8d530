//===- SetReport.cpp - What is in a folder of plans -----------------------===//

#include "dtrt/report/SetReport.h"

#include "ReportText.h"

#include "dtrt/report/Inspect.h"
#include "dtrt/verify/Verifier.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iomanip>
#include <map>
#include <ostream>
#include <sstream>

namespace dtrt {

namespace {

using Json = nlohmann::ordered_json;

/// An error of a plan that the error does not name by itself.
Status ofFile(const std::string &folder, const SetPlan &plan,
              const Status &status) {
  return makeError("'", folder, "/", plan.file, "': ", status);
}

/// A plan of a set, all of whose sections are undamaged.
Result<PlanReader> openWhole(const std::string &folder, const SetPlan &plan) {
  auto reader = openSetPlan(folder, plan);
  DTRT_RETURN_IF_ERROR(reader);
  Status whole = reader->checkSections();
  if (!whole.ok())
    return ofFile(folder, plan, whole);
  return reader;
}

/// "tp 2, dp 4": what is not 1, or 0 for zero. "shards" without sizes.
std::string layoutText(const SetLayout &layout) {
  if (layout.sizes.empty())
    return "shards";
  int64_t tp = 1;
  for (const auto &[name, size] : layout.sizes)
    tp = name == "tp" ? size : tp;
  std::string text;
  for (const auto &[name, size] : layout.sizes) {
    bool isUsual = name == "zero"  ? size == 0
                   : name == "etp" ? size == tp
                                   : size == 1;
    if (isUsual || name == "vocab_multiple" || name == "bucket_size")
      continue;
    text += (text.empty() ? "" : " ") + name + " " + std::to_string(size);
  }
  return text.empty() ? "one replica" : text;
}

std::string sideText(const SetLayout &layout) {
  return std::to_string(layout.world) + " (" + layoutText(layout) + ")";
}

/// Columns as wide as what is in them.
void writeTable(const std::vector<std::vector<std::string>> &rows,
                std::ostream &out) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  for (const auto &row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i)
      out << std::left << std::setw(int(widths[i] + 2)) << row[i];
    out << row.back() << "\n";
  }
}

using ByName = std::map<std::string, const SetPlan *>;

ByName byName(const std::vector<SetPlan> &plans) {
  ByName out;
  for (const SetPlan &plan : plans)
    out[plan.name] = &plan;
  return out;
}

/// Of two plans of one name; equal digests need no reading.
Result<bool> writePlanDifferences(const std::string &folderA, const SetPlan &a,
                                  const std::string &folderB, const SetPlan &b,
                                  std::ostream &out, DiffLength length) {
  auto planA = openWhole(folderA, a);
  DTRT_RETURN_IF_ERROR(planA);
  auto planB = openWhole(folderB, b);
  DTRT_RETURN_IF_ERROR(planB);
  if (a.digest == b.digest)
    return true;
  std::ostringstream text;
  auto same = writeDifferences(*planA, *planB, text, length);
  DTRT_RETURN_IF_ERROR(same);
  if (!*same)
    out << "plan " << a.name << ":\n" << text.str();
  return same;
}

} // namespace

Status writeSetList(const std::string &folder, OutputFormat format,
                    std::ostream &out) {
  auto plans = readSetIndex(folder);
  DTRT_RETURN_IF_ERROR(plans);
  if (format == OutputFormat::Json) {
    out << setIndexText(*plans);
    return {};
  }
  std::vector<std::vector<std::string>> rows = {
      {"plan", "lost", "from", "to", "file", "time"}};
  for (const SetPlan &plan : *plans)
    rows.push_back({plan.name, plan.lost.empty() ? "-" : plan.lost,
                    sideText(plan.source), sideText(plan.destination),
                    bytesText(plan.bytes), secondsText(plan.predictedSeconds)});
  writeTable(rows, out);
  return {};
}

Status writeSetInspection(const std::string &folder, OutputFormat format,
                          std::ostream &out) {
  auto plans = readSetIndex(folder);
  DTRT_RETURN_IF_ERROR(plans);
  Json all = Json::object();
  bool isFirst = true;
  for (const SetPlan &plan : *plans) {
    auto reader = openWhole(folder, plan);
    DTRT_RETURN_IF_ERROR(reader);
    std::ostringstream text;
    DTRT_RETURN_IF_ERROR(
        writeInspection(*reader, std::nullopt, format, text, TellLosses::No));
    if (format == OutputFormat::Json)
      all[plan.name] = Json::parse(text.str());
    else
      out << (isFirst ? "" : "\n") << plan.file << "\n" << text.str();
    isFirst = false;
  }
  if (format == OutputFormat::Json)
    out << Json{{"plans", all}}.dump(2) << "\n";
  return {};
}

Result<size_t>
verifySet(const std::string &folder,
          const std::function<void(const SetPlan &plan)> &begin) {
  auto plans = readSetIndex(folder);
  DTRT_RETURN_IF_ERROR(plans);
  DTRT_RETURN_IF_ERROR(checkSetFiles(folder, *plans));
  for (const SetPlan &plan : *plans) {
    begin(plan);
    auto reader = openWhole(folder, plan);
    DTRT_RETURN_IF_ERROR(reader);
    Status status = verifyPlan(*reader);
    if (!status.ok())
      return ofFile(folder, plan, status);
  }
  return plans->size();
}

Result<bool> writeSetDifferences(const std::string &a, const std::string &b,
                                 std::ostream &out, DiffLength length) {
  auto plansA = readSetIndex(a);
  DTRT_RETURN_IF_ERROR(plansA);
  auto plansB = readSetIndex(b);
  DTRT_RETURN_IF_ERROR(plansB);
  ByName namedA = byName(*plansA), namedB = byName(*plansB);
  bool same = true;
  for (const SetPlan &plan : *plansA) {
    auto other = namedB.find(plan.name);
    if (other == namedB.end()) {
      out << "plan " << plan.name << ": only in the first\n";
      same = false;
      continue;
    }
    auto alike = writePlanDifferences(a, plan, b, *other->second, out, length);
    DTRT_RETURN_IF_ERROR(alike);
    same &= *alike;
  }
  for (const SetPlan &plan : *plansB)
    if (!namedA.count(plan.name)) {
      out << "plan " << plan.name << ": only in the second\n";
      same = false;
    }
  return same;
}

} // namespace dtrt
