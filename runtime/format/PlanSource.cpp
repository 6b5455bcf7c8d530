//===- PlanSource.cpp - The bytes of a plan file --------------------------===//

#include "PlanSource.h"

#include "FileLayout.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/stat.h>
#include <unistd.h>

namespace dtrt {

namespace {

/// Pieces in which a stream is read, and a part that is not kept.
constexpr size_t kPiece = 1 << 20;

/// read(2) or pread(2) of at most `size` bytes, again when a signal came.
template <typename Read> ssize_t again(Read read) {
  ssize_t count = 0;
  do
    count = read();
  while (count < 0 && errno == EINTR);
  return count;
}

/// Closes a descriptor that was opened here.
class Closer {
public:
  explicit Closer(int file) : file(file) {}
  ~Closer() {
    if (file > STDIN_FILENO)
      close(file);
  }
  int release() { return std::exchange(file, -1); }

private:
  int file;
};

} // namespace

PlanSource::PlanSource(PlanSource &&other) noexcept
    : bytes(std::move(other.bytes)), file(std::exchange(other.file, -1)),
      total(std::exchange(other.total, 0)) {}

PlanSource::~PlanSource() {
  if (file >= 0)
    close(file);
}

PlanSource PlanSource::fromBytes(std::string bytes) {
  PlanSource source;
  source.total = bytes.size();
  source.bytes = std::move(bytes);
  return source;
}

/// To its end, but not beyond a first piece that is no plan: what never ends
/// would fill the memory.
Status PlanSource::readStream(int from) {
  std::vector<char> buffer(kPiece);
  while (true) {
    ssize_t count =
        again([&] { return ::read(from, buffer.data(), buffer.size()); });
    if (count < 0)
      return makeError(strerror(errno));
    if (count == 0)
      break;
    bytes.append(buffer.data(), size_t(count));
    if (bytes.size() >= sizeof kMagic &&
        memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
      break;
  }
  total = bytes.size();
  return {};
}

Result<PlanSource> PlanSource::open(const std::string &path) {
  bool standard = path == "-";
  auto fails = [&](const char *what, const char *why) {
    return makeError("cannot ", what, " ",
                     standard ? "standard input" : "'" + path + "'", ": ", why);
  };
  int file =
      standard ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return fails("open", strerror(errno));
  Closer closer(file);
  struct stat info;
  if (fstat(file, &info) != 0)
    return fails("read", strerror(errno));
  if (S_ISDIR(info.st_mode))
    return fails("read", "not a file");
  PlanSource source;
  // What stands before standard input's place in a file is not the plan's.
  if (standard || !S_ISREG(info.st_mode)) {
    Status status = source.readStream(file);
    return status.ok() ? Result<PlanSource>(std::move(source))
                       : fails("read", status.message().c_str());
  }
  source.total = uint64_t(info.st_size);
  source.file = closer.release();
  if (source.total > kWhole)
    return source;
  std::string bytes(source.total, '\0');
  Status status = source.readAt(0, bytes.data(), bytes.size());
  if (!status.ok())
    return fails("read", status.message().c_str());
  return fromBytes(std::move(bytes));
}

Status PlanSource::readAt(uint64_t offset, void *to, uint64_t size) const {
  auto *at = static_cast<char *>(to);
  for (uint64_t done = 0; done < size;) {
    ssize_t count = again([&] {
      return pread(file, at + done, std::min<uint64_t>(size - done, 1 << 30),
                   off_t(offset + done));
    });
    if (count < 0)
      return makeError(strerror(errno));
    if (count == 0)
      return makeError("the file ends at byte ", offset + done, ", expected ",
                       total, ": it has been cut since it was opened");
    done += uint64_t(count);
  }
  return {};
}

Result<SectionBytes> PlanSource::read(uint64_t offset, uint64_t size) const {
  SectionBytes out;
  out.size = size;
  if (file < 0) {
    out.data = reinterpret_cast<const uint8_t *>(bytes.data()) + offset;
    return out;
  }
  out.owned.resize((size + 7) / 8);
  out.data = reinterpret_cast<const uint8_t *>(out.owned.data());
  DTRT_RETURN_IF_ERROR(readAt(offset, out.owned.data(), size));
  return out;
}

Status PlanSource::visit(
    uint64_t offset, uint64_t size,
    const std::function<void(const void *, size_t)> &visit) const {
  if (file < 0) {
    visit(bytes.data() + offset, size_t(size));
    return {};
  }
  std::vector<char> buffer(std::min<uint64_t>(size, kPiece));
  for (uint64_t done = 0; done < size; done += buffer.size()) {
    auto count = size_t(std::min<uint64_t>(size - done, buffer.size()));
    DTRT_RETURN_IF_ERROR(readAt(offset + done, buffer.data(), count));
    visit(buffer.data(), count);
  }
  return {};
}

} // namespace dtrt
