//===- Secret.cpp - What only the ranks of one switch have ----------------===//

#include "dtrt/transport/Secret.h"

#include <cerrno>
#include <cstring>
#include <sys/random.h>

namespace dtrt {

namespace {

constexpr char kDigits[] = "0123456789abcdef";

int valueOf(char digit) {
  const char *found = digit ? strchr(kDigits, digit) : nullptr;
  return found ? int(found - kDigits) : -1;
}

bool readToken(const char *digits, Token &token) {
  for (size_t i = 0; i < token.size(); ++i) {
    int high = valueOf(digits[2 * i]), low = valueOf(digits[2 * i + 1]);
    if (high < 0 || low < 0)
      return false;
    token[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return true;
}

} // namespace

bool isSame(const Token &one, const Token &other) {
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < one.size(); ++i)
    difference = difference | (one[i] ^ other[i]);
  return difference == 0;
}

Result<Secret> Secret::make() {
  Secret secret;
  for (Token *token : {&secret.connecting, &secret.accepting})
    if (getrandom(token->data(), token->size(), 0) != ssize_t(token->size()))
      return makeError(ErrorCode::System,
                       "the system gives no random numbers: ", strerror(errno));
  return secret;
}

std::string Secret::text() const {
  std::string text;
  for (const Token *token : {&connecting, &accepting})
    for (unsigned char byte : *token) {
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15];
    }
  return text;
}

Result<Secret> Secret::parse(const std::string &text) {
  Secret secret;
  constexpr size_t kHalf = 2 * sizeof(Token);
  if (text.size() != 2 * kHalf || !readToken(text.data(), secret.connecting) ||
      !readToken(text.data() + kHalf, secret.accepting))
    return makeError("the switch's secret is damaged, expected ", 2 * kHalf,
                     " hexadecimal digits");
  return secret;
}

} // namespace dtrt
