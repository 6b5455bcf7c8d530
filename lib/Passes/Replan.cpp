//===- Replan.cpp - What is to be kept of an old plan ---------------------===//

#include "dt/Passes/Replan.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

namespace dt {

namespace {

/// "12.5 %"; what is nothing of nothing is all of it.
std::string share(double part, double whole) {
  return llvm::formatv("{0:f1} %", whole > 0 ? 100 * part / whole : 100.0);
}

std::string bytesOf(uint64_t bytes, uint64_t least) {
  return llvm::formatv("{0} bytes (at least {1})", bytes, least);
}

} // namespace

std::string Replan::whyFromZero() const {
  if (bytesOnRoute > 0)
    return "";
  return !reason.empty() ? reason
                         : "the old plan moves nothing that moves now between "
                           "the same devices";
}

std::vector<std::string> Replan::report() const {
  std::vector<std::string> lines;
  auto wire = double(summary.bytesWire);
  if (std::string why = whyFromZero(); !why.empty())
    lines.push_back("replanned from zero: " + why);
  else
    lines.push_back("replanned: of the bytes on the wire " +
                    share(double(bytesOnRoute), wire) +
                    " go from where to where they went, " +
                    share(double(bytesInWave), wire) + " in the same wave");
  lines.push_back(
      "replanned: on the wire " +
      bytesOf(summary.bytesWire, summary.bytesWireLowerBound) +
      ", between nodes " +
      bytesOf(summary.bytesInterNode, summary.bytesInterNodeLowerBound));
  double least = summary.timeLowerBound, time = summary.timePredicted;
  lines.push_back(llvm::formatv(
      "replanned: predicted {0:f3} ms, at least {1:f3} ms: no plan from zero "
      "is faster by more than {2}",
      time * 1e3, least * 1e3, share(time - least, time)));
  if (time <= 0)
    lines.back() = "replanned: nothing moves between devices";
  if (programsCopied > 0)
    lines.push_back(llvm::formatv(
        "replanned: {0} of {1} programs are copies of the old plan's",
        programsCopied, programsCopied + programsMade));
  return lines;
}

void Replan::writeReport(llvm::json::OStream &json) const {
  std::string why = whyFromZero();
  json.attributeObject("bytes", [&] {
    json.attribute("wire", summary.bytesWire);
    json.attribute("wire_lower_bound", summary.bytesWireLowerBound);
    json.attribute("inter_node", summary.bytesInterNode);
    json.attribute("inter_node_lower_bound", summary.bytesInterNodeLowerBound);
    json.attribute("on_old_route", bytesOnRoute);
    json.attribute("in_old_wave", bytesInWave);
  });
  json.attributeObject("time", [&] {
    json.attribute("predicted_s", summary.timePredicted);
    json.attribute("lower_bound_s", summary.timeLowerBound);
  });
  json.attribute("programs_copied", uint64_t(programsCopied));
  json.attribute("from_zero", why.empty() ? llvm::json::Value(nullptr) : why);
}

std::string Replan::reportJson() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream, /*IndentSize=*/2);
  json.object([&] { writeReport(json); });
  return text;
}

} // namespace dt
