//===- SharedLibrary.h - Libraries that are loaded at run time --*- C++ -*-===//
//
// NCCL and nvCOMP are loaded when they are first used: what links this starts
// without them.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_CUDA_SHAREDLIBRARY_H
#define DTRT_LIB_CUDA_SHAREDLIBRARY_H

#include "dtrt/types/Status.h"

#include <initializer_list>

namespace dtrt {

/// The first of these files that the process or its search path has, for good;
/// an empty name is none. Fails with the loader's words about the last one.
Result<void *> loadLibrary(const char *what,
                           std::initializer_list<const char *> files);

/// Null where the library has none of this name.
void *findSymbol(void *library, const char *name);

/// Sets `function` to the one of this name, or to null.
template <typename Function>
void findFunction(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(findSymbol(library, name));
}

} // namespace dtrt

#endif // DTRT_LIB_CUDA_SHAREDLIBRARY_H
