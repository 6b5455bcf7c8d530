//===- FileStore.h - A store in a folder that all ranks see -----*- C++ -*-===//

#ifndef DTRT_STORE_FILESTORE_H
#define DTRT_STORE_FILESTORE_H

#include "dtrt/store/Store.h"

namespace dtrt {

/// A file per key; a value appears whole or not at all. Rename and file locks
/// are what makes it so, hence a file system that all hosts share must have
/// them (NFS has, from version 4).
class FileStore : public Store {
public:
  /// The folder must exist; one folder serves one run.
  explicit FileStore(std::string folder) : folder(std::move(folder)) {}
  Status set(const std::string &key, const std::string &value) override;
  Result<std::optional<std::string>> get(const std::string &key) override;
  Result<std::string> compareAndSet(const std::string &key,
                                    const std::string &expected,
                                    const std::string &desired) override;
  Result<int64_t> add(const std::string &key, int64_t amount) override;
  Status remove(const std::string &key) override;

private:
  std::string pathOf(std::string key) const;
  Status write(const std::string &key, const std::string &value) const;

  std::string folder;
};

} // namespace dtrt

#endif // DTRT_STORE_FILESTORE_H
