//===- WaveProblemText.cpp - Wave problems as text ------------------------===//

#include "dt/Scheduling/WaveProblemText.h"

#include "dt/Routing/ProblemJson.h"

using namespace dt;
using nlohmann::ordered_json;

namespace {

//===----------------------------------------------------------------------===//
// Storage
//===----------------------------------------------------------------------===//

ordered_json statesToJson(const std::vector<FlatStates> &states) {
  ordered_json out = ordered_json::array();
  for (FlatStates group : states) {
    out.push_back({group.width, group.count});
    if (group.storage >= 0)
      out.back().push_back(group.storage);
  }
  return out;
}

std::vector<FlatStates> readStates(const JsonPlace &at) {
  std::vector<FlatStates> out;
  for (size_t i = 0; i < at.size(); ++i) {
    std::vector<int64_t> row = at[i].integers();
    if (row.size() == 2)
      out.push_back({row[0], row[1]});
    else if (row.size() == 3 && row[1] == 1 && row[2] >= 0)
      out.push_back({row[0], row[1], row[2]});
    else
      at[i].refuse("[BYTES, COUNT] or, of one state, [BYTES, 1, STORAGE]");
  }
  return out;
}

std::string holdingsText(const std::vector<Holding> &holdings) {
  std::vector<ordered_json> rows;
  for (const Holding &holding : holdings) {
    ordered_json dims = ordered_json::array();
    for (const auto &intervals : holding.shard.dims) {
      dims.push_back(ordered_json::array());
      for (Interval interval : intervals)
        dims.back().push_back(toJson(interval));
    }
    ordered_json row = {{"devices", holding.devices}, {"dims", dims}};
    if (holding.shard.range)
      row["range"] = toJson(*holding.shard.range);
    if (!holding.shard.order.isIdentity())
      row["permute"] = holding.shard.order.dims(holding.shard.rank() -
                                                holding.shard.numLeading);
    rows.push_back(std::move(row));
  }
  return jsonLines(rows, "        ");
}

Permutation readOrder(const JsonPlace &at, const Shard &shard) {
  std::vector<int64_t> dims = at.integers();
  auto order = Permutation::of(dims);
  if (!order || dims.size() != shard.rank() - shard.numLeading)
    at.refuse("the inner dims, each once");
  return *order;
}

std::vector<Holding> readHoldings(const JsonPlace &at, unsigned numLeading) {
  std::vector<Holding> out;
  for (size_t i = 0; i < at.size(); ++i) {
    at[i].expectKeys({"devices", "dims", "range", "permute"});
    Holding &holding = out.emplace_back();
    holding.devices = at[i]["devices"].integers();
    holding.shard.numLeading = numLeading;
    JsonPlace dims = at[i]["dims"];
    for (size_t d = 0; d < dims.size(); ++d) {
      auto &intervals = holding.shard.dims.emplace_back();
      for (size_t j = 0; j < dims[d].size(); ++j)
        intervals.push_back(readInterval(dims[d][j]));
    }
    if (at[i].has("range"))
      holding.shard.range = readInterval(at[i]["range"]);
    if (at[i].has("permute"))
      holding.shard.order = readOrder(at[i]["permute"], holding.shard);
  }
  return out;
}

std::string storageText(const Storage &storage) {
  std::string out =
      "{\n    \"page_bytes\": " + std::to_string(storage.pageBytes) +
      ",\n    " + "\"limit_bytes\": " + std::to_string(storage.limitBytes) +
      ",\n    \"flows\": [";
  for (size_t i = 0; i < storage.flows.size(); ++i) {
    const FlatFlow &flow = storage.flows[i];
    out +=
        (i ? ",\n      " : "\n      ") + std::string("{\"leading\": ") +
        std::to_string(flow.numLeading) +
        ", \"reads_from\": " + std::to_string(flow.readsFrom) +
        ",\n        \"source_states\": " + statesToJson(flow.source).dump() +
        ",\n        \"destination_states\": " +
        statesToJson(flow.destination).dump() +
        (flow.staying.empty()
             ? ""
             : ",\n        \"staying\": " + ordered_json(flow.staying).dump()) +
        ",\n        \"source\": " + holdingsText(storage.source[i]) +
        ",\n        \"destination\": " + holdingsText(storage.destination[i]) +
        "}";
  }
  return out + "\n    ]\n  }";
}

Storage readStorage(const JsonPlace &at) {
  at.expectKeys({"page_bytes", "limit_bytes", "flows"});
  Storage out;
  out.pageBytes = at["page_bytes"].integer();
  out.limitBytes = at["limit_bytes"].integer();
  JsonPlace flows = at["flows"];
  for (size_t i = 0; i < flows.size(); ++i) {
    flows[i].expectKeys({"leading", "reads_from", "source_states",
                         "destination_states", "staying", "source",
                         "destination"});
    FlatFlow &flow = out.flows.emplace_back();
    flow.numLeading = flows[i]["leading"].number();
    flow.readsFrom = flows[i]["reads_from"].number();
    flow.source = readStates(flows[i]["source_states"]);
    flow.destination = readStates(flows[i]["destination_states"]);
    if (flows[i].has("staying"))
      flow.staying = flows[i]["staying"].integers();
    out.source.push_back(readHoldings(flows[i]["source"], flow.numLeading));
    out.destination.push_back(
        readHoldings(flows[i]["destination"], flow.numLeading));
  }
  return out;
}

//===----------------------------------------------------------------------===//
// Moves and copies
//===----------------------------------------------------------------------===//

std::string movesText(const std::vector<Move> &moves) {
  std::vector<ordered_json> rows;
  for (const Move &move : moves) {
    ordered_json row = {{"flow", move.flow}};
    if (move.hop > 0)
      row["hop"] = move.hop;
    row["from"] = move.source;
    row["to"] = move.destination;
    row["box"] = toJson(move.box);
    rows.push_back(std::move(row));
  }
  return jsonLines(rows, "  ");
}

std::vector<Move> readMoves(const JsonPlace &at) {
  std::vector<Move> out;
  for (size_t i = 0; i < at.size(); ++i) {
    JsonPlace row = at[i];
    row.expectKeys({"flow", "hop", "from", "to", "box"});
    Move &move = out.emplace_back();
    move.flow = row["flow"].number();
    if (row.has("hop"))
      move.hop = row["hop"].number();
    move.source = row["from"].integer();
    move.destination = row["to"].integer();
    move.box = readBox(row["box"]);
  }
  return out;
}

std::string copiesText(const std::vector<LocalMove> &copies) {
  std::vector<ordered_json> rows;
  for (const LocalMove &copy : copies)
    rows.push_back({{"flow", copy.flow},
                    {"device", copy.device},
                    {"box", toJson(copy.box)}});
  return jsonLines(rows, "  ");
}

std::vector<LocalMove> readCopies(const JsonPlace &at) {
  std::vector<LocalMove> out;
  for (size_t i = 0; i < at.size(); ++i) {
    at[i].expectKeys({"flow", "device", "box"});
    LocalMove &copy = out.emplace_back();
    copy.flow = at[i]["flow"].number();
    copy.device = at[i]["device"].integer();
    copy.box = readBox(at[i]["box"]);
  }
  return out;
}

} // namespace

std::string dt::toText(const WaveProblem &problem) {
  std::string out =
      "{\n  \"problem\": \"waves\",\n  \"cluster\": " +
      toJson(problem.cluster).dump() +
      ",\n  \"staging_bytes\": " + std::to_string(problem.stagingBytes) +
      ",\n  \"element_bytes\": " + ordered_json(problem.elementBytes).dump() +
      ",\n  \"moves\": " + movesText(problem.moves);
  if (!problem.copies.empty())
    out += ",\n  \"copies\": " + copiesText(problem.copies);
  if (problem.storage)
    out += ",\n  \"storage\": " + storageText(*problem.storage);
  return out + "\n}\n";
}

std::optional<WaveProblem> dt::readWaveProblem(const std::string &text,
                                               std::string &error) {
  nlohmann::json json = parseWithComments(text, error);
  if (!error.empty())
    return std::nullopt;
  JsonPlace at(&json, "", error);
  at.expectKeys({"problem", "cluster", "staging_bytes", "element_bytes",
                 "moves", "copies", "storage"});
  if (at["problem"].string() != "waves")
    at["problem"].refuse("\"waves\"");
  WaveProblem out;
  out.cluster = readCluster(at["cluster"]);
  out.stagingBytes = at["staging_bytes"].integer();
  out.elementBytes = at["element_bytes"].integers();
  out.moves = readMoves(at["moves"]);
  if (at.has("copies"))
    out.copies = readCopies(at["copies"]);
  if (at.has("storage"))
    out.storage = readStorage(at["storage"]);
  if (!error.empty())
    return std::nullopt;
  return out;
}
