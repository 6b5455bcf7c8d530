//===- Names.h - Layer and expert numbers in tensor names -------*- C++ -*-===//

#ifndef DT_LIB_REQUEST_NAMES_H
#define DT_LIB_REQUEST_NAMES_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dt::request {

/// Numbers found in a tensor's name; -1 where there is none.
///   model.layers.3.mlp.experts.17.up_proj.weight -> layer 3, expert 17
///   h.0.attn.c_attn.weight                       -> layer 0
///   decoder.layers.1.mlp.experts.linear_fc1.weight5 -> layer 1, expert 5
struct NameNumbers {
  int64_t layer = -1;
  int64_t expert = -1;
};

/// The layer is the component after the first `layers`, `h` or `blocks`. The
/// expert is the next component that is a number, else the number that ends
/// the name.
NameNumbers readNameNumbers(const std::string &name);

/// Shell-like glob: `*` and `?` match dots too.
bool matchesGlob(const std::string &pattern, const std::string &name);

/// What each `*` of a pattern stands for, the first ones as short as they can
/// be; nothing where the name does not match. `*` matches dots too, and no
/// other character is special.
std::optional<std::vector<std::string>> matchGlob(const std::string &pattern,
                                                  const std::string &name);

/// Replaces each `what` of a pattern by one of `texts`, in order. Fails, with
/// the pattern's path, where these are not as many.
std::string fillIn(const std::string &pattern, const std::string &what,
                   const std::vector<std::string> &texts,
                   const std::string &path);

} // namespace dt::request

#endif // DT_LIB_REQUEST_NAMES_H
