//===- ProblemJson.h - What the texts of problems share ---------*- C++ -*-===//
//
// Problems are written as JSON, a row to a line, and read with comments, so
// that a case that went wrong becomes a test file.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_PROBLEMJSON_H
#define DT_ROUTING_PROBLEMJSON_H

#include "dt/Cost/Cluster.h"
#include "dt/Geometry/Box.h"

#include <nlohmann/json.hpp>

#include <initializer_list>

namespace dt {

/// A value of a text and its place, "moves[3].box". The first mistake is kept
/// in the reader's error, and what is read after it is 0 or empty.
class JsonPlace {
public:
  /// `value` and `error` must outlive this; `value` is null below a mistake.
  JsonPlace(const nlohmann::json *value, std::string path, std::string &error)
      : value(value), path(std::move(path)), error(&error) {}

  /// Says at this place what was expected.
  void refuse(const std::string &expected) const;

  /// Members: of an object with no keys but these.
  void expectKeys(std::initializer_list<const char *> keys) const;
  bool has(const char *key) const;
  JsonPlace operator[](const char *key) const; // which must be there

  /// Items of an array.
  size_t size() const;
  JsonPlace operator[](size_t index) const;

  int64_t integer() const;
  /// An integer that fits 32 bits without a sign.
  uint32_t number() const;
  double real() const;
  bool truth() const;
  std::string string() const;
  std::vector<int64_t> integers() const;

private:
  const nlohmann::json *value;
  std::string path;
  std::string *error;
};

/// The value of a text in which comments may stand; null, and `error`, when it
/// is no JSON.
nlohmann::json parseWithComments(const std::string &text, std::string &error);

/// Rows as an array of one line each.
std::string jsonLines(const std::vector<nlohmann::ordered_json> &rows,
                      const std::string &indent);

nlohmann::ordered_json toJson(Interval interval); // [lo, hi]
nlohmann::ordered_json toJson(const Box &box);    // [[lo, hi], ...]
nlohmann::ordered_json toJson(const Cluster &cluster);
Interval readInterval(const JsonPlace &at);
Box readBox(const JsonPlace &at);
Cluster readCluster(const JsonPlace &at);

} // namespace dt

#endif // DT_ROUTING_PROBLEMJSON_H
