//===- Secret.h - What only the ranks of one switch have --------*- C++ -*-===//
//
// Two random tokens that rank 0 makes for a switch and hands to the others
// through the store. Who connects shows the first, who accepts the second, so
// that neither learns from the other what it has to show.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TRANSPORT_SECRET_H
#define DTRT_TRANSPORT_SECRET_H

#include "dtrt/types/Status.h"

#include <array>

namespace dtrt {

using Token = std::array<unsigned char, 32>;

/// In a time that does not depend on where they differ.
bool isSame(const Token &one, const Token &other);

struct Secret {
  Token connecting = {};
  Token accepting = {};

  static Result<Secret> make();
  /// Hexadecimal digits.
  std::string text() const;
  static Result<Secret> parse(const std::string &text);
};

} // namespace dtrt

#endif // DTRT_TRANSPORT_SECRET_H
