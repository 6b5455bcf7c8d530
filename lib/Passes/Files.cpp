//===- Files.cpp - What the compiler reads and writes ---------------------===//

#include "dt/Passes/Files.h"

#include "dt/Geometry/Limits.h"

#include "llvm/Support/SmallVectorMemoryBuffer.h"

#include <array>

using llvm::StringRef;

namespace dt {

namespace {

std::string tooLarge(StringRef path) {
  return ("'" + path + "' has more than the limit of " +
          llvm::Twine(kMaxInputBytes) + " bytes")
      .str();
}

/// Reads a pipe or a device to its end.
std::unique_ptr<llvm::MemoryBuffer>
readToEnd(llvm::sys::fs::file_t file, StringRef path, std::string &error) {
  llvm::SmallVector<char, 0> text;
  std::array<char, 1 << 16> part;
  while (true) {
    auto count = llvm::sys::fs::readNativeFile(file, part);
    if (!count) {
      error =
          ("cannot read '" + path + "': " + llvm::toString(count.takeError()))
              .str();
      return nullptr;
    }
    if (*count == 0)
      return std::make_unique<llvm::SmallVectorMemoryBuffer>(
          std::move(text), path, /*RequiresNullTerminator=*/true);
    text.append(part.data(), part.data() + *count);
    if (int64_t(text.size()) > kMaxInputBytes) {
      error = tooLarge(path);
      return nullptr;
    }
  }
}

} // namespace

std::unique_ptr<llvm::MemoryBuffer> readInput(StringRef path,
                                              std::string &error) {
  if (path == "-")
    return readToEnd(llvm::sys::fs::getStdinHandle(), "<stdin>", error);
  auto fails = [&](const std::string &why) {
    error = ("cannot open input file '" + path + "': " + why).str();
    return nullptr;
  };
  auto file = llvm::sys::fs::openNativeFileForRead(path);
  if (!file)
    return fails(llvm::toString(file.takeError()));
  llvm::sys::fs::file_status status;
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  if (std::error_code code = llvm::sys::fs::status(*file, status)) {
    fails(code.message());
  } else if (status.type() != llvm::sys::fs::file_type::regular_file) {
    buffer = readToEnd(*file, path, error);
  } else if (int64_t(status.getSize()) > kMaxInputBytes) {
    error = tooLarge(path);
  } else if (auto read = llvm::MemoryBuffer::getOpenFile(*file, path,
                                                         status.getSize())) {
    buffer = std::move(*read);
  } else {
    fails(read.getError().message());
  }
  llvm::sys::fs::closeFile(*file);
  return buffer;
}

InputLines::InputLines(llvm::sys::fs::file_t file, StringRef path)
    : file(file), path(path.str()), buffer(1 << 16) {}

InputLines::~InputLines() {
  if (file != llvm::sys::fs::getStdinHandle())
    llvm::sys::fs::closeFile(file);
}

std::unique_ptr<InputLines> InputLines::open(StringRef path,
                                             std::string &error) {
  llvm::sys::fs::file_t file = llvm::sys::fs::getStdinHandle();
  if (path == "-")
    return std::unique_ptr<InputLines>(new InputLines(file, "<stdin>"));
  auto opened = llvm::sys::fs::openNativeFileForRead(path);
  if (opened)
    return std::unique_ptr<InputLines>(new InputLines(*opened, path));
  error = ("cannot open input file '" + path +
           "': " + llvm::toString(opened.takeError()))
              .str();
  return nullptr;
}

/// Whether it could be read; where nothing is there then, it has ended.
bool InputLines::fill(std::string &error) {
  auto count = llvm::sys::fs::readNativeFile(file, buffer);
  if (!count) {
    error = "cannot read '" + path + "': " + llvm::toString(count.takeError());
    return false;
  }
  at = 0;
  end = *count;
  return true;
}

InputLines::Got InputLines::next(size_t most, std::string &line,
                                 std::string &error) {
  line.clear();
  bool hasBegun = false, isTooLong = false;
  auto got = [&] { return isTooLong ? Got::TooLong : Got::Line; };
  while (true) {
    if (at == end && !fill(error))
      return Got::Failure;
    if (at == end)
      return hasBegun ? got() : Got::End;
    hasBegun = true;
    StringRef rest(buffer.data() + at, end - at);
    StringRef part = rest.take_until([](char c) { return c == '\n'; });
    isTooLong |= part.size() > most - line.size();
    if (isTooLong)
      line = std::string();
    else
      line += part;
    at += part.size();
    if (at < end) {
      ++at; // the line's end
      return got();
    }
  }
}

namespace {

/// Walks over the text of a module, past comments and strings.
class NestingScan {
public:
  explicit NestingScan(StringRef text) : text(text) {}

  std::string run() {
    while (at < text.size() && depth <= kMaxBracketDepth &&
           signs <= kMaxBracketDepth)
      step();
    if (at == text.size() && std::max(depth, signs) <= kMaxBracketDepth)
      return "";
    size_t line = 1 + text.take_front(at).count('\n');
    return "line " + std::to_string(line) +
           " nests brackets deeper than the limit of " +
           std::to_string(kMaxBracketDepth) + " levels";
  }

private:
  void step() {
    char c = text[at];
    StringRef rest = text.substr(at);
    if (c == '"')
      return skipString();
    if (rest.starts_with("//")) {
      at = std::min(text.size(), text.find('\n', at));
      return;
    }
    bool isArrow = rest.starts_with("->") || rest.starts_with(">=") ||
                   rest.starts_with("<=");
    if (isArrow) {
      at += 2;
      return;
    }
    if (StringRef("([{<").contains(c))
      ++depth;
    else if (StringRef(")]}>").contains(c) && depth > 0)
      --depth;
    if (c == '-')
      ++signs;
    else if (!StringRef(" \t\r\n").contains(c))
      signs = 0;
    ++at;
  }

  void skipString() {
    for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
      at += text[at] == '\\';
    at = std::min(text.size(), at + 1);
  }

  StringRef text;
  size_t at = 0, depth = 0, signs = 0;
};

} // namespace

std::string problemOfNesting(StringRef module) {
  return NestingScan(module).run();
}

bool keepOutput(llvm::ToolOutputFile &file, std::string &error) {
  llvm::raw_fd_ostream &out = file.os();
  out.flush();
  if (!out.has_error()) {
    file.keep();
    return true;
  }
  StringRef path = file.outputFilename();
  error = "cannot write " +
          (path == "-" ? "standard output" : "'" + path.str() + "'") + ": " +
          out.error().message();
  out.clear_error();
  return false;
}

} // namespace dt
