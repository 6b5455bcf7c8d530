//===- DiagnosticText.cpp - Diagnostics in short text ---------------------===//

#include "dt/Passes/DiagnosticText.h"

#include "dt/Geometry/Names.h"

#include "mlir/IR/Location.h"

using namespace mlir;

namespace dt {

namespace {

const char *wordFor(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Note:
    return "note: ";
  case DiagnosticSeverity::Remark:
    return "remark: ";
  case DiagnosticSeverity::Warning:
    return "warning: ";
  case DiagnosticSeverity::Error:
    break;
  }
  return "error: ";
}

/// "source.shards[0] (stay.json:7:5) and 3 more"; "" where nothing is known.
std::string textOf(Location location) {
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    ArrayRef<Location> parts = fused.getLocations();
    return textOf(parts.front()) + " and " + std::to_string(parts.size() - 1) +
           " more";
  }
  if (auto name = dyn_cast<NameLoc>(location))
    return (name.getName().getValue() + " (" + textOf(name.getChildLoc()) + ")")
        .str();
  auto place = dyn_cast<FileLineColLoc>(location);
  if (!place)
    return "";
  return (place.getFilename().getValue() + ":" + llvm::Twine(place.getLine()) +
          ":" + llvm::Twine(place.getColumn()))
      .str();
}

} // namespace

std::string shortText(const Diagnostic &diagnostic) {
  constexpr size_t kMostShown = 1000;
  return shorten(diagnostic.str(), kMostShown);
}

std::string lineOf(Diagnostic &diagnostic, const std::string &subject) {
  std::string line = wordFor(diagnostic.getSeverity());
  if (!subject.empty())
    line += subject + ": ";
  std::string last;
  auto add = [&](Diagnostic &part) {
    if (std::string place = textOf(part.getLocation()); place != last) {
      line += place + ": ";
      last = place;
    }
    line += shortText(part);
  };
  add(diagnostic);
  for (Diagnostic &note : diagnostic.getNotes()) {
    line += "; ";
    add(note);
  }
  return line;
}

} // namespace dt
