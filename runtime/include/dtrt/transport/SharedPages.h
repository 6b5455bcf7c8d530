//===- SharedPages.h - Memory that processes of a host can read -*- C++ -*-===//
//
// Addresses of one file without a name, of which pages come and go one by one.
// A process of the same host maps the file and reads there what this one has,
// so that a message is copied once, from where it lies to where it goes.
//
// There are more addresses than memory: a page takes some once it is written.
// The file has a fixed size, and what is handed out of it can only be read. A
// process that was forked sees the same pages, as those of torch's
// `share_memory_`, and gives none back.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TRANSPORT_SHAREDPAGES_H
#define DTRT_TRANSPORT_SHAREDPAGES_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace dtrt {

class SharedPages {
public:
  /// Those of this process, which stay to its end.
  static SharedPages &ofProcess();

  /// `addresses`: bytes of the file, of which only written pages take memory.
  explicit SharedPages(uint64_t addresses);
  ~SharedPages();
  SharedPages(const SharedPages &) = delete;
  SharedPages &operator=(const SharedPages &) = delete;

  /// Addresses for so many bytes, in whole pages, without memory; null where
  /// the system has none.
  std::byte *reserve(uint64_t bytes);
  /// Gives addresses of `reserve` back, with their memory.
  void free(std::byte *start, uint64_t bytes);
  /// Lets whole pages be read and written.
  bool open(std::byte *start, uint64_t bytes);
  /// Gives their memory back: they cannot be touched any more.
  void close(std::byte *start, uint64_t bytes);

  /// Where memory lies in the file; none: not in it.
  std::optional<uint64_t> offsetOf(const std::byte *data, uint64_t bytes) const;
  /// A new descriptor of the file, through which it can only be read; -1: the
  /// system has refused it.
  int openReadOnly() const;
  /// Lets a mapping of such a file, of whatever process, have its pages before
  /// they are read; where the system cannot, they come as they are read.
  static void populate(const std::byte *data, uint64_t bytes);

private:
  bool isOwner() const;
  uint64_t wholePages(uint64_t bytes) const;

  mutable std::mutex mutex;            // of what is free
  std::map<uint64_t, uint64_t> unused; // bytes by offset
  std::byte *base = nullptr;
  uint64_t size;
  uint64_t page;
  int file = -1;
  int owner; // process
};

} // namespace dtrt

#endif // DTRT_TRANSPORT_SHAREDPAGES_H
