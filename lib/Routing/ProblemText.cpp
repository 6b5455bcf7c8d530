//===- ProblemText.cpp - Routing problems as text -------------------------===//

#include "dt/Routing/ProblemText.h"

#include "dt/Routing/ProblemJson.h"

using namespace dt;
using nlohmann::ordered_json;

namespace {

std::string sideText(const CellSet &side) {
  std::vector<ordered_json> rows;
  for (const Cell &cell : side.cells)
    rows.push_back({{"owners", cell.owners}, {"box", toJson(cell.box)}});
  return "{\"owners\": " + ordered_json(side.ownerSets).dump() +
         ", \"cells\": " + jsonLines(rows, "      ") + "}";
}

CellSet readSide(const JsonPlace &at) {
  at.expectKeys({"owners", "cells"});
  CellSet side;
  JsonPlace owners = at["owners"], cells = at["cells"];
  for (size_t i = 0; i < owners.size(); ++i)
    side.ownerSets.push_back(owners[i].integers());
  for (size_t i = 0; i < cells.size(); ++i) {
    cells[i].expectKeys({"owners", "box"});
    side.cells.push_back(
        {readBox(cells[i]["box"]), cells[i]["owners"].number()});
  }
  return side;
}

} // namespace

std::string dt::toText(const RoutingProblem &problem) {
  std::string out =
      "{\n  \"problem\": \"routing\",\n  \"cluster\": " +
      toJson(problem.cluster()).dump() +
      ",\n  \"staging_bytes\": " + std::to_string(problem.stagingBytes()) +
      ",\n  \"flows\": [";
  for (size_t i = 0; i < problem.flows().size(); ++i) {
    const Flow &flow = problem.flows()[i];
    out += (i ? ",\n    " : "\n    ") + std::string("{\"element_bytes\": ") +
           std::to_string(flow.bytesPerElement) +
           ",\n      \"source\": " + sideText(flow.source) +
           ",\n      \"destination\": " + sideText(flow.destination) + "}";
  }
  return out + "\n  ]\n}\n";
}

std::optional<RoutingProblem> dt::readRoutingProblem(const std::string &text,
                                                     std::string &error) {
  nlohmann::json json = parseWithComments(text, error);
  if (!error.empty())
    return std::nullopt;
  JsonPlace at(&json, "", error);
  at.expectKeys({"problem", "cluster", "staging_bytes", "flows"});
  if (at["problem"].string() != "routing")
    at["problem"].refuse("\"routing\"");
  std::vector<Flow> flows;
  JsonPlace rows = at["flows"];
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].expectKeys({"element_bytes", "source", "destination"});
    Flow &flow = flows.emplace_back();
    flow.bytesPerElement = rows[i]["element_bytes"].integer();
    flow.source = readSide(rows[i]["source"]);
    flow.destination = readSide(rows[i]["destination"]);
  }
  RoutingProblem problem(std::move(flows), readCluster(at["cluster"]),
                         at["staging_bytes"].integer());
  if (!error.empty())
    return std::nullopt;
  return problem;
}

std::string dt::problemKind(const std::string &text, std::string &error) {
  nlohmann::json json = parseWithComments(text, error);
  return error.empty() ? JsonPlace(&json, "", error)["problem"].string() : "";
}
