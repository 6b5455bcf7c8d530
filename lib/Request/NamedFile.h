//===- NamedFile.h - JSON files that a request names ------------*- C++ -*-===//

#ifndef DT_LIB_REQUEST_NAMEDFILE_H
#define DT_LIB_REQUEST_NAMEDFILE_H

#include "dt/Json/Json.h"

namespace dt::request {

using namespace json;

/// The text of the file `path`, which starts at `directory` unless it is
/// absolute. Errors begin with `what`.
std::string readNamedText(const std::string &path, const std::string &directory,
                          const std::string &what);

/// The same, parsed.
Json readNamedFile(const std::string &path, const std::string &directory,
                   const std::string &what);

} // namespace dt::request

#endif // DT_LIB_REQUEST_NAMEDFILE_H
