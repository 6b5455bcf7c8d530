//===- Text.h - Text that comes from outside --------------------*- C++ -*-===//
//
// Names in a plan file go into JSON, into terminals and into error messages, so
// they are UTF-8 without control characters and not longer than a name may be.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_FORMAT_TEXT_H
#define DTRT_FORMAT_TEXT_H

#include "dtrt/types/Status.h"

#include <string_view>

namespace dtrt {

/// Bytes of a tensor's or state's name. PyTorch's own have some hundred.
constexpr size_t kMaxNameBytes = 1024;

/// Whether it is UTF-8: no byte out of place, no overlong form, no surrogate.
bool isUtf8(std::string_view text);

/// Fails unless it is UTF-8 without control characters, of at most
/// kMaxNameBytes bytes. `what` says what it is the text of.
Status checkName(const char *what, std::string_view text);

/// The same for text of any length that may have tabs and ends of lines.
Status checkProse(const char *what, std::string_view text);

/// "0xff80".
std::string hexText(uint64_t bits);

/// For error messages: cut to a length that a line has room for.
std::string shortened(std::string_view text);

} // namespace dtrt

#endif // DTRT_FORMAT_TEXT_H
