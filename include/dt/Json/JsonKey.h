//===- JsonKey.h - A value in the text of a request -------------*- C++ -*-===//

#ifndef DT_JSON_JSONKEY_H
#define DT_JSON_JSONKEY_H

#include <cstdint>
#include <string>

namespace dt {

/// A value of a request: its path from the top, as errors write it, and where
/// it begins.
///   {"source": {"shards": [{"tensor": "w", ...
///                          ^ source.shards[0], line 1, column 24
struct JsonKey {
  std::string path; // "request" for the whole
  /// Counted from 1, the column in bytes; 0 where they are not known.
  uint32_t line = 0, column = 0;
  friend bool operator==(const JsonKey &a, const JsonKey &b) {
    return a.line == b.line && a.column == b.column && a.path == b.path;
  }
};

} // namespace dt

#endif // DT_JSON_JSONKEY_H
