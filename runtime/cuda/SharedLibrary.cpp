//===- SharedLibrary.cpp - Libraries that are loaded at run time ----------===//

#include "SharedLibrary.h"

#include <dlfcn.h>

#include <string>

namespace dtrt {

Result<void *> loadLibrary(const char *what,
                           std::initializer_list<const char *> files) {
  std::string why;
  for (const char *file : files) {
    if (!*file)
      continue;
    if (void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL))
      return library;
    if (const char *text = dlerror())
      why = text;
  }
  return makeError(ErrorCode::System, "cannot load ", what, ": ", why);
}

void *findSymbol(void *library, const char *name) {
  return dlsym(library, name);
}

} // namespace dtrt
