//===- SetItems.h - Which transitions a request is for ----------*- C++ -*-===//

#ifndef DT_LIB_REQUEST_SETITEMS_H
#define DT_LIB_REQUEST_SETITEMS_H

#include "dt/Json/Json.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dt::request {

using namespace json;

/// The devices that a loss takes, and how many are left.
struct Loss {
  int64_t first = 0, last = -1; // device numbers, both included; none: no loss
  int64_t remaining = 0;

  bool takes(int64_t device) const { return first <= device && device <= last; }
  bool any() const { return first <= last; }
};

/// One transition of a request. Layouts are where the request has them.
struct SetItem {
  std::string name;
  std::string sourceName, destinationName;
  std::string lost;
  const Json *source = nullptr;
  const Json *destination = nullptr; // of a loss: what it says of the layout
  Loss loss;
  /// Of a loss that leaves the source's layout, but for these: `dp`, `world`.
  int64_t replicas = 0, world = 0;
};

struct SetItems {
  bool isFamily = false;
  std::vector<SetItem> items;
};

/// What a request asks for, in its order. The items point into `request`.
SetItems readItems(const Json &request);

/// The destination of an item, as an ordinary request would have it.
Json destinationOf(const SetItem &item);
/// The same of the source.
Json sourceOf(const SetItem &item);

} // namespace dt::request

#endif // DT_LIB_REQUEST_SETITEMS_H
