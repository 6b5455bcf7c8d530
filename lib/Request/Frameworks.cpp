//===- Frameworks.cpp - How frameworks cut known models -------------------===//

#include "Frameworks.h"

#include "Names.h"

#include <algorithm>
#include <set>

namespace dt::request {

namespace {

/// vLLM's DEFAULT_VOCAB_PADDING_SIZE.
constexpr int64_t kVllmVocabMultiple = 64;

std::string listOf(const std::vector<std::string> &words) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i)
    out += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return out;
}

/// Views and rules as a request writes them.
class Writer {
public:
  Writer(const Model &model, Ways ways) : model(model), ways(ways) {}

  void add(const FrameworkTensor &row, const ModelTensor &tensor) {
    std::string view = "{\"of\": \"" + std::string(row.of) +
                       "\", \"tensor\": \"" + row.tensor + "\"";
    if (std::string(row.tensor).find("{}") != std::string::npos)
      view += ", \"each\": 0";
    auto rank = int64_t(tensor.shape.size());
    int64_t dim = dimOf(row.part);
    std::string take = takeOf(row.part, tensor.shape[dim]);
    if (!take.empty())
      view +=
          ", \"dim\": " + std::to_string(dim) + ", \"take\": [" + take + "]";
    append(views, view + formOf(row.form, rank) + "}");
    if (isInTurns(row.form) || needsRule(row.part))
      append(rules, ruleOf(row, cutDim(row, rank)));
  }

  std::string views, rules;

private:
  static void append(std::string &list, const std::string &item) {
    list += (list.empty() ? "" : ", ") + item;
  }

  static std::string span(int64_t lo, int64_t hi) {
    return "[" + std::to_string(lo) + ", " + std::to_string(hi) + "]";
  }

  /// Rows [lo, hi) of a group, in heads.
  std::string heads(int64_t lo, int64_t hi) const {
    return "{\"from\": " + std::to_string(lo * model.headDim) +
           ", \"size\": " + std::to_string((hi - lo) * model.headDim) +
           ", \"step\": " + std::to_string(groupHeads() * model.headDim) +
           ", \"count\": " + std::to_string(model.groups) + "}";
  }
  int64_t perGroup() const { return model.heads / model.groups; }
  /// Queries of a group, their gates, key and value.
  int64_t groupHeads() const {
    return (model.outputGate ? 2 : 1) * perGroup() + 2;
  }

  /// Rows of heads [lo, hi) of each group, of a head each second one, then the
  /// others.
  std::string headsInHalves(int64_t lo, int64_t hi) const {
    std::string out;
    for (int64_t group = 0; group < model.groups; ++group)
      for (int64_t head = lo; head < hi; ++head)
        for (int64_t odd : {0, 1}) {
          int64_t first = (group * groupHeads() + head) * model.headDim + odd;
          append(out, "{\"from\": " + std::to_string(first) +
                          ", \"size\": 1, \"step\": 2, \"count\": " +
                          std::to_string(model.headDim / 2) + "}");
        }
    return out;
  }

  std::string head(int64_t number) const {
    return span(number * model.headDim, (number + 1) * model.headDim);
  }

  /// A head's query, and behind it its gate.
  std::string queriesAndGates() const {
    std::string out;
    for (int64_t group = 0; group < model.groups; ++group)
      for (int64_t query = 0; query < perGroup(); ++query) {
        int64_t first = group * groupHeads() + query;
        append(out, head(first) + ", " + head(first + perGroup()));
      }
    return out;
  }

  /// Of parts that follow each other, all of as many heads, head by head.
  static std::string byHead(int64_t first, int64_t heads,
                            const std::vector<int64_t> &rows) {
    std::string out;
    for (int64_t each = 0; each < heads; ++each) {
      int64_t part = first;
      for (int64_t size : rows) {
        append(out, span(part + each * size, part + (each + 1) * size));
        part += heads * size;
      }
    }
    return out;
  }

  /// Linear attention's, by key head; beta and alpha are behind the others.
  std::string keyHeads(bool isScalars) const {
    const megatron::LinearHeads &heads = model.linear;
    int64_t times = heads.values / heads.keys;
    int64_t values = times * heads.valueDim;
    if (!isScalars)
      return byHead(0, heads.keys,
                    {heads.keyDim, heads.keyDim, values, values});
    int64_t first = 2 * heads.keys * (heads.keyDim + values);
    return byHead(first, heads.keys, {times, times});
  }

  /// Rows of heads [lo, hi) of each group, the two halves of a head in turns.
  std::string headsInPairs(int64_t lo, int64_t hi) const {
    std::string out;
    int64_t half = model.headDim / 2;
    for (int64_t group = 0; group < model.groups; ++group)
      for (int64_t head = lo; head < hi; ++head) {
        int64_t first = (group * groupHeads() + head) * model.headDim;
        for (int64_t row = first; row < first + half; ++row)
          append(out,
                 span(row, row + 1) + ", " + span(row + half, row + half + 1));
      }
    return out;
  }

  /// How a tensor of `rank` dims gets that form.
  static std::string formOf(Form form, int64_t rank) {
    switch (form) {
    case Form::AsIs:
      return "";
    case Form::Transposed:
      return ", \"permute\": " +
             (rank == 3 ? listOf({0, 2, 1}) : listOf({1, 0}));
    case Form::RowsInTurns:
      return inTurns(rank == 3 ? "0, 2, 1, 3" : "0, 2, 1", 1);
    case Form::ColumnsInTurns:
      return inTurns(rank == 3 ? "0, 3, 2, 1" : "0, 2, 1", rank - 1);
    }
    return "";
  }

  /// The dims of experts, gate or up, rows and perhaps columns in that order;
  /// `first` and the one behind it are one then.
  static std::string inTurns(const std::string &order, int64_t first) {
    return ", \"unflatten\": {\"1\": [2, -1]}, \"permute\": [" + order +
           "], \"flatten\": [" + span(first, first + 1) + "]";
  }

  static bool isOfExperts(const FrameworkTensor &row) {
    return row.part == Part::ExpertGate || row.part == Part::ExpertUp ||
           row.part == Part::OfFirstRank || isInTurns(row.form);
  }

  /// The dim of the model's tensor that a part is taken of.
  static int64_t dimOf(Part part) {
    return part == Part::ExpertGate || part == Part::ExpertUp ||
                   part == Part::OfFirstRank
               ? 1
               : 0;
  }

  /// The dim of the framework's tensor that tensor parallelism cuts. Two that
  /// are in each other's place are the last ones.
  static int64_t cutDim(const FrameworkTensor &row, int64_t rank) {
    if (row.form == Form::Transposed)
      return 2 * rank - 3 - dimOf(row.part);
    if (isInTurns(row.form))
      return row.form == Form::RowsInTurns ? 1 : rank - 1;
    return dimOf(row.part);
  }

  std::string takeOf(Part part, int64_t size) const {
    int64_t queries = groupHeads() - 2;
    std::string query =
        model.outputGate ? queriesAndGates() : heads(0, queries);
    std::string key = heads(queries, queries + 1),
                value = heads(queries + 1, queries + 2);
    switch (part) {
    case Part::All:
    case Part::Whole:
    case Part::Rows:
      return "";
    case Part::Query:
      return query;
    case Part::Key:
      return key;
    case Part::Value:
      return value;
    case Part::QueryPairs:
      return headsInPairs(0, queries);
    case Part::KeyPairs:
      return headsInPairs(queries, queries + 1);
    case Part::QueryKeyValue:
      return query + ", " + key + ", " + value;
    case Part::QueryKeyHalvesValue:
      return headsInHalves(0, queries) + ", " +
             headsInHalves(queries, queries + 1) + ", " + value;
    case Part::KeyHeads:
      return keyHeads(/*isScalars=*/false);
    case Part::KeyHeadScalars:
      return keyHeads(/*isScalars=*/true);
    case Part::Gate:
    case Part::ExpertGate:
      return span(0, size / 2);
    case Part::Up:
    case Part::ExpertUp:
      return span(size / 2, size);
    case Part::QueryDown:
      return span(0, model.queryRank);
    case Part::KeyValueDown:
      return span(model.queryRank, size);
    case Part::Vocabulary:
      return padded(size, (kVllmVocabMultiple - size % kVllmVocabMultiple) %
                              kVllmVocabMultiple);
    case Part::OfFirstRank:
      return padded(size, (ways.etp - 1) * size);
    }
    return "";
  }

  static std::string padded(int64_t size, int64_t zeros) {
    if (zeros == 0)
      return "";
    return span(0, size) + ", {\"zeros\": " + std::to_string(zeros) + "}";
  }

  /// A part of what tensor parallelism cuts.
  static bool needsRule(Part part) {
    switch (part) {
    case Part::All:
    case Part::QueryDown:
    case Part::KeyValueDown:
    case Part::Vocabulary:
      return false;
    default:
      return true;
    }
  }

  /// That tensor parallelism cuts `dim`, of the framework's tensor.
  std::string ruleOf(const FrameworkTensor &row, int64_t dim) const {
    std::string rule = "{\"match\": \"" + std::string(row.tensor) +
                       "\", \"tp\": " +
                       (row.part == Part::Whole ? "null" : std::to_string(dim));
    if (isOfExperts(row))
      rule += ", \"ep\": 0";
    int64_t keys = model.groups * model.headDim;
    bool isPacked = row.part == Part::QueryKeyValue ||
                    row.part == Part::QueryKeyHalvesValue;
    if (isPacked)
      rule +=
          ", \"blocks\": " + listOf({(groupHeads() - 2) * keys, keys, keys});
    // Fewer key and value heads than ranks: ranks that follow each other share.
    int64_t times = ways.tp / model.groups;
    if (isPacked && times > 1)
      rule += ", \"replicas\": " + listOf({1, times, times});
    return rule + "}";
  }

  static std::string listOf(std::initializer_list<int64_t> values) {
    std::string out;
    for (int64_t value : values)
      append(out, std::to_string(value));
    return "[" + out + "]";
  }

  const Model &model;
  Ways ways;
};

/// Tensor `from` and the one behind it as one tensor.
void join(const std::string &from, const std::string &behind,
          const std::string &name, std::vector<ModelTensor> &tensors) {
  auto first = std::find_if(
      tensors.begin(), tensors.end(),
      [&](const ModelTensor &tensor) { return tensor.name == from; });
  auto second = std::find_if(
      tensors.begin(), tensors.end(),
      [&](const ModelTensor &tensor) { return tensor.name == behind; });
  first->shape[0] += second->shape[0];
  first->name = name;
  tensors.erase(second);
}

} // namespace

Framework readFramework(const Json &layout, const std::string &path,
                        const Model &model) {
  const Json *value = layout.find("framework");
  if (layout.find("views"))
    fail(path + ".views is beside a \"framework\", of this side or of the "
                "other: say \"views\" on both");
  std::string where = path + ".framework";
  Framework framework = Framework::Megatron;
  if (value) {
    const std::string &name = asString(*value, where);
    auto found =
        std::find_if(std::begin(kFrameworks), std::end(kFrameworks),
                     [&](Framework each) { return name == nameOf(each); });
    if (found == std::end(kFrameworks))
      fail(where +
           " must be \"megatron\", \"huggingface\", \"vllm\" or "
           "\"torchtitan\", not " +
           inQuotes(name));
    framework = *found;
  }
  const std::vector<std::string> &types = typesOf(framework);
  if (value && std::find(types.begin(), types.end(), model.type) == types.end())
    fail(where + " " + inQuotes(nameOf(framework)) +
         " is known for models of type " + listOf(types) + ", not for " +
         (model.type.empty() ? "a list of tensors: say \"views\""
                             : inQuotes(model.type)));
  return framework;
}

Model withStackedExperts(Model model) {
  std::vector<ModelTensor> tensors;
  for (ModelTensor &tensor : model.tensors) {
    if (tensor.expert > 0)
      continue; // in the tensor of expert 0
    if (tensor.expert == 0) {
      tensor.name.pop_back(); // its number
      tensor.expert = -1;
      tensor.shape.insert(tensor.shape.begin(), model.experts);
      tensor.cut.expertDim = 0;
      if (tensor.cut.tpDim)
        ++*tensor.cut.tpDim;
    }
    tensors.push_back(std::move(tensor));
  }
  model.tensors = std::move(tensors);
  return model;
}

Model withJoinedProjections(Model model) {
  const std::string down = "self_attention.linear_q_down_proj.weight";
  std::vector<std::string> prefixes;
  for (const ModelTensor &tensor : model.tensors)
    if (size_t at = tensor.name.find(down); at != std::string::npos)
      prefixes.push_back(tensor.name.substr(0, at) + "self_attention.");
  for (const std::string &prefix : prefixes)
    join(prefix + "linear_q_down_proj.weight",
         prefix + "linear_kv_down_proj.weight",
         prefix + "linear_qkv_down_proj.weight", model.tensors);
  return model;
}

FrameworkWords wordsOf(Framework framework, const Model &model, Ways ways,
                       const std::string &path) {
  Writer writer(model, ways);
  std::set<std::string> named;
  for (const FrameworkTensor &row : tensorsOf(framework, model.type)) {
    const ModelTensor *first = nullptr;
    for (const ModelTensor &tensor : model.tensors)
      if (matchGlob(row.of, tensor.name)) {
        first = first ? first : &tensor;
        named.insert(tensor.name);
      }
    if (first)
      writer.add(row, *first);
  }
  if (framework != Framework::Megatron)
    for (const ModelTensor &tensor : model.tensors)
      if (!named.count(tensor.name))
        fail(path + ".framework " + inQuotes(nameOf(framework)) +
             " has no name for tensor " + inQuotes(tensor.name) +
             ": a destination may be \"without\" it");
  return {parseJson("[" + writer.views + "]", path + ".framework"),
          parseJson("[" + writer.rules + "]", path + ".framework")};
}

Json unflattensOf(Framework framework, const Model &model,
                  const std::string &path) {
  std::string out;
  for (const FrameworkTensor &row : tensorsOf(framework, model.type)) {
    if (!isInTurns(row.form))
      continue;
    for (const ModelTensor &tensor : model.tensors)
      if (matchGlob(row.of, tensor.name)) {
        Writer writer(model, Ways());
        writer.add(row, tensor);
        out += (out.empty() ? "" : ", ") + writer.views;
        break;
      }
  }
  return parseJson("[" + out + "]", path + ".framework");
}

int64_t vocabMultipleOf(Framework framework, int64_t standard) {
  return framework == Framework::Megatron ? standard : 1;
}

Ways readWays(Framework framework, const Model &model, const Json &layout,
              const std::string &path) {
  Ways ways;
  if (const Json *tp = layout.find("tp"))
    ways.tp = asInteger(*tp, path + ".tp", 1);
  const Json *etp = layout.find("etp");
  ways.etp = etp ? asInteger(*etp, path + ".etp", 1) : ways.tp;
  bool canShare = framework == Framework::Vllm && ways.tp % model.groups == 0;
  if (framework != Framework::Megatron && ways.tp > model.groups && !canShare)
    fail(path + ".tp is " + std::to_string(ways.tp) + ", but the model has " +
         std::to_string(model.groups) + " key and value heads, which " +
         inQuotes(nameOf(framework)) + " cannot cut so");
  return ways;
}

} // namespace dt::request
