//===- Json.h - JSON with ordered keys and strict access --------*- C++ -*-===//
//
// Requests are small and must be read strictly; model files are large and must
// keep the order of their keys, which is registration order. This tree does
// both: members stay in file order, and every accessor names the path of the
// value at fault.
//
// A mistake is thrown as a JsonError, because it can surface many calls deep
// and always ends the reading; what reads a whole file catches it.
//
//===----------------------------------------------------------------------===//

#ifndef DT_JSON_JSON_H
#define DT_JSON_JSON_H

#include "dt/Json/JsonKey.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace dt::json {

struct JsonError {
  std::string message;
};

[[noreturn]] void fail(const std::string &message);

/// `text` in double quotes, shortened when it is long.
std::string inQuotes(const std::string &text);

/// The path of a member, for errors: "state.param".
std::string pathOf(const std::string &path, const std::string &key);

struct Json {
  enum class Kind { Null, Bool, Integer, Float, String, Array, Object };
  using Member = std::pair<std::string, Json>;

  Kind kind = Kind::Null;
  bool boolean = false;
  int64_t integer = 0;
  double number = 0; // of integers too
  std::string string;
  std::vector<Json> items;
  std::vector<Member> members; // in file order
  /// Where it begins in its file, counted from 1, the column in bytes.
  uint32_t line = 0, column = 0;

  bool isNull() const { return kind == Kind::Null; }
  bool isObject() const { return kind == Kind::Object; }
  bool isArray() const { return kind == Kind::Array; }
  bool isString() const { return kind == Kind::String; }
  /// nullptr when there is no such member, or this is no object.
  const Json *find(const std::string &key) const;
};

/// Parses the whole of `text`. `what` ("request") starts the message of a
/// syntax error; duplicate keys are errors, and so is more than dt/Geometry/
/// Limits.h allows.
Json parseJson(const std::string &text, const std::string &what);

/// Whether both say the same, wherever they stand.
bool isSameValue(const Json &a, const Json &b);

/// What stands at `path` of the request.
JsonKey keyOf(const Json &value, const std::string &path);

/// Fails on a member whose key is not in `keys`, with the nearest as a hint.
void checkKeys(const Json &object, const std::string &path,
               std::initializer_list<const char *> keys);

/// The nearest of `known` to `name`, or "" when none is near.
std::string nearest(const std::string &name,
                    const std::vector<std::string> &known);

/// Values of one kind; `path` names the value in errors.
const Json &asObject(const Json &value, const std::string &path);
const Json &asArray(const Json &value, const std::string &path);
const std::string &asString(const Json &value, const std::string &path);
bool asBool(const Json &value, const std::string &path);
double asNumber(const Json &value, const std::string &path, double least,
                double most);
/// A rate, a speed, a factor: at least 1e-9; what is too much, callers know.
double asPositiveNumber(const Json &value, const std::string &path);
int64_t asInteger(const Json &value, const std::string &path, int64_t least,
                  int64_t most = INT64_MAX);
std::vector<int64_t> asIntegers(const Json &value, const std::string &path,
                                int64_t least);

/// A name that a plan can hold (dt/Geometry/Names.h).
const std::string &asName(const Json &value, const std::string &path);

/// Fails when there are more than `most`: "rules has 5000 rules, more than
/// ...".
void checkCount(size_t count, size_t most, const std::string &path,
                const char *what);

/// Member of an object; fails when it is missing.
const Json &require(const Json &object, const std::string &path,
                    const std::string &key);

} // namespace dt::json

#endif // DT_JSON_JSON_H
