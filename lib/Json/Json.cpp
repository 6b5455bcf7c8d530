//===- Json.cpp - JSON with ordered keys and strict access ----------------===//

#include "dt/Json/Json.h"

#include "dt/Geometry/Limits.h"
#include "dt/Geometry/Names.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <unordered_set>

namespace dt::json {

namespace {

/// How far a text was read, and where its next value begins.
class TextPosition {
public:
  explicit TextPosition(const std::string &text)
      : counted(text.data()), lineStart(text.data()), read(text.data()) {}

  /// Gives `json` the place of the value that was read last. Between it and
  /// what was placed or passed before it stand only spaces and punctuation.
  void place(Json &json) {
    while (counted < read && isBetweenValues(*counted))
      count();
    json.line = line;
    json.column = uint32_t(counted - lineStart) + 1;
    pass();
  }
  /// The value or key that was read last is done with. The character after a
  /// number is read with it: at most punctuation.
  void pass() {
    while (counted < read)
      count();
  }

  /// Iterates over the text; nlohmann's events do not say where they are.
  struct Iterator {
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char *;
    using reference = const char &;

    reference operator*() const { return *at; }
    Iterator &operator++() {
      position->read = ++at;
      return *this;
    }
    bool operator==(const Iterator &other) const { return at == other.at; }
    bool operator!=(const Iterator &other) const { return at != other.at; }

    const char *at;
    TextPosition *position;
  };

private:
  static bool isBetweenValues(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',' ||
           c == ':';
  }
  void count() {
    if (*counted++ != '\n')
      return;
    ++line;
    lineStart = counted;
  }

  const char *counted, *lineStart; // before `counted`, lines are counted
  const char *read;
  uint32_t line = 1;
};

/// Builds the tree from nlohmann's events. `open` holds the containers around
/// the current value; they are moved into their parents when they close.
class TreeBuilder {
public:
  TreeBuilder(std::string what, TextPosition &position)
      : what(std::move(what)), position(position) {}

  bool null() { return add(startOf(Json::Kind::Null)); }
  bool boolean(bool value) {
    Json json = startOf(Json::Kind::Bool);
    json.boolean = value;
    return add(std::move(json));
  }
  bool number_integer(int64_t value) {
    Json json = startOf(Json::Kind::Integer);
    json.integer = value;
    json.number = static_cast<double>(value);
    return add(std::move(json));
  }
  bool number_unsigned(uint64_t value) {
    if (value > static_cast<uint64_t>(INT64_MAX))
      fail(what + ": number " + std::to_string(value) + " is larger than " +
           std::to_string(INT64_MAX));
    return number_integer(static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string &) {
    Json json = startOf(Json::Kind::Float);
    json.number = value;
    return add(std::move(json));
  }
  bool string(std::string &value) {
    Json json = startOf(Json::Kind::String);
    json.string = std::move(value);
    return add(std::move(json));
  }
  bool binary(nlohmann::json::binary_t &) { return false; }

  bool start_object(size_t) { return push(Json::Kind::Object); }
  bool start_array(size_t) { return push(Json::Kind::Array); }
  bool key(std::string &name) {
    if (!open.back().keys.insert(name).second)
      fail(what + ": key " + inQuotes(name) + " appears twice in one object");
    open.back().value.members.emplace_back(std::move(name), Json());
    position.pass();
    return true;
  }
  bool end_object() { return pop(); }
  bool end_array() { return pop(); }

  /// The text reads "[json.exception...] parse error at line 1, column 2: ...".
  bool parse_error(size_t, const std::string &,
                   const nlohmann::json::exception &error) {
    std::string text = error.what();
    for (std::string prefix : {"] ", "parse error at ", "parse error: "}) {
      size_t at = text.find(prefix);
      if (at != std::string::npos)
        text.erase(0, at + prefix.size());
    }
    fail(what + " is not valid JSON: " + text);
  }

  Json root;

private:
  struct Open {
    Json value;
    std::unordered_set<std::string> keys;
  };

  Json startOf(Json::Kind kind) {
    Json json;
    json.kind = kind;
    position.place(json);
    return json;
  }
  bool push(Json::Kind kind) {
    // Destruction of the tree is recursive.
    if (open.size() == kMaxJsonDepth)
      fail(what + " is nested deeper than the limit of " +
           std::to_string(kMaxJsonDepth) + " levels");
    open.emplace_back();
    open.back().value = startOf(kind);
    return true;
  }
  bool pop() {
    Json closed = std::move(open.back().value);
    open.pop_back();
    position.pass();
    return add(std::move(closed));
  }
  bool add(Json value) {
    if (++numValues > kMaxJsonValues)
      fail(what + " has more values than the limit of " +
           std::to_string(kMaxJsonValues));
    if (open.empty())
      root = std::move(value);
    else if (open.back().value.isArray())
      open.back().value.items.push_back(std::move(value));
    else
      open.back().value.members.back().second = std::move(value);
    return true;
  }

  std::string what;
  TextPosition &position;
  std::vector<Open> open;
  size_t numValues = 0;
};

std::string describe(const Json &value) {
  switch (value.kind) {
  case Json::Kind::Null:
    return "null";
  case Json::Kind::Bool:
    return value.boolean ? "true" : "false";
  case Json::Kind::Integer:
    return std::to_string(value.integer);
  case Json::Kind::Float:
    return nlohmann::json(value.number).dump();
  case Json::Kind::String:
    return "the string " + inQuotes(value.string);
  case Json::Kind::Array:
    return "an array";
  case Json::Kind::Object:
    return "an object";
  }
  return "";
}

void expectKind(const Json &value, const std::string &path, Json::Kind kind,
                const char *expected) {
  if (value.kind != kind)
    fail(path + " must be " + expected + ", not " + describe(value));
}

/// Levenshtein distance.
size_t editDistance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

} // namespace

void fail(const std::string &message) { throw JsonError{message}; }

std::string inQuotes(const std::string &text) {
  return '"' + shorten(text) + '"';
}

std::string pathOf(const std::string &path, const std::string &key) {
  return path + "." + shorten(key);
}

const Json *Json::find(const std::string &key) const {
  for (const Member &member : members)
    if (member.first == key)
      return &member.second;
  return nullptr;
}

bool isSameValue(const Json &a, const Json &b) {
  auto isSameMember = [](const Json::Member &one, const Json::Member &other) {
    return one.first == other.first && isSameValue(one.second, other.second);
  };
  return a.kind == b.kind && a.boolean == b.boolean && a.integer == b.integer &&
         std::memcmp(&a.number, &b.number, sizeof a.number) == 0 &&
         a.string == b.string &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(),
                    b.items.end(), isSameValue) &&
         std::equal(a.members.begin(), a.members.end(), b.members.begin(),
                    b.members.end(), isSameMember);
}

Json parseJson(const std::string &text, const std::string &what) {
  TextPosition position(text);
  TreeBuilder builder(what, position);
  const char *begin = text.data(), *end = begin + text.size();
  nlohmann::json::sax_parse(TextPosition::Iterator{begin, &position},
                            TextPosition::Iterator{end, &position}, &builder);
  return std::move(builder.root);
}

JsonKey keyOf(const Json &value, const std::string &path) {
  return {path, value.line, value.column};
}

std::string nearest(const std::string &name,
                    const std::vector<std::string> &known) {
  std::string best;
  size_t bestDistance = std::max<size_t>(1, name.size() / 2) + 1;
  for (const std::string &candidate : known) {
    // No two of these are near: the distance would be the candidate's length.
    if (name.size() >= 2 * candidate.size())
      continue;
    size_t distance = editDistance(name, candidate);
    if (distance < bestDistance && distance < candidate.size()) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

void checkKeys(const Json &object, const std::string &path,
               std::initializer_list<const char *> keys) {
  asObject(object, path);
  std::vector<std::string> known(keys.begin(), keys.end());
  for (const Json::Member &member : object.members) {
    if (std::find(known.begin(), known.end(), member.first) != known.end())
      continue;
    std::string message =
        "unknown key " + inQuotes(member.first) + " in " + path;
    std::string hint = nearest(member.first, known);
    fail(hint.empty() ? message
                      : message + "; did you mean " + inQuotes(hint) + "?");
  }
}

const Json &asObject(const Json &value, const std::string &path) {
  expectKind(value, path, Json::Kind::Object, "an object");
  return value;
}

const Json &asArray(const Json &value, const std::string &path) {
  expectKind(value, path, Json::Kind::Array, "an array");
  return value;
}

const std::string &asString(const Json &value, const std::string &path) {
  expectKind(value, path, Json::Kind::String, "a string");
  return value.string;
}

bool asBool(const Json &value, const std::string &path) {
  expectKind(value, path, Json::Kind::Bool, "true or false");
  return value.boolean;
}

double asNumber(const Json &value, const std::string &path, double least,
                double most) {
  if (value.kind != Json::Kind::Float)
    expectKind(value, path, Json::Kind::Integer, "a number");
  if (value.number <= 0 && least > 0)
    fail(path + " must be more than 0, not " + describe(value));
  auto text = [](double number) { return nlohmann::json(number).dump(); };
  if (!(value.number >= least))
    fail(path + " must be at least " + text(least) + ", not " +
         describe(value));
  if (!(value.number <= most))
    fail(path + " must be at most " + text(most) + ", not " + describe(value));
  return value.number;
}

double asPositiveNumber(const Json &value, const std::string &path) {
  return asNumber(value, path, 1e-9, std::numeric_limits<double>::max());
}

int64_t asInteger(const Json &value, const std::string &path, int64_t least,
                  int64_t most) {
  expectKind(value, path, Json::Kind::Integer, "an integer");
  if (value.integer < least)
    fail(path + " must be at least " + std::to_string(least) + ", not " +
         std::to_string(value.integer));
  if (value.integer > most)
    fail(path + " must be at most " + std::to_string(most) + ", not " +
         std::to_string(value.integer));
  return value.integer;
}

std::vector<int64_t> asIntegers(const Json &value, const std::string &path,
                                int64_t least) {
  std::vector<int64_t> integers;
  for (const Json &item : asArray(value, path).items)
    integers.push_back(asInteger(
        item, path + "[" + std::to_string(integers.size()) + "]", least));
  return integers;
}

const std::string &asName(const Json &value, const std::string &path) {
  const std::string &name = asString(value, path);
  std::string problem = problemOfName(name);
  if (!problem.empty())
    fail(path + " " + inQuotes(name) + " " + problem);
  return name;
}

void checkCount(size_t count, size_t most, const std::string &path,
                const char *what) {
  if (count > most)
    fail(path + " has " + std::to_string(count) + " " + what +
         ", more than the limit of " + std::to_string(most));
}

const Json &require(const Json &object, const std::string &path,
                    const std::string &key) {
  if (const Json *value = asObject(object, path).find(key))
    return *value;
  fail(path + " needs the key " + inQuotes(key));
}

} // namespace dt::json
