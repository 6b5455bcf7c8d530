//===- FairShares.h - Who gets how much of what is shared -------*- C++ -*-===//
//
// Users hold a share of the time of one or two resources, the same of both.
// Shares are max-min fair: found by raising all together and fixing those that
// meet a full resource or their own limit ("progressive filling", Bertsekas and
// Gallager, Data Networks, 6.5.2). A change concerns those that are connected
// with it by resources, and no others.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_COST_FAIRSHARES_H
#define DTRT_COST_FAIRSHARES_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtrt {

class FairShares {
public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit FairShares(size_t resources) : usersOf(resources) {}

  /// A user of resource `a`, and of `b` unless that is kNone, which takes
  /// `most` of their time at most, 0 < most <= 1. Its number is free again
  /// after `remove`.
  uint32_t add(uint32_t a, uint32_t b, double most);
  void remove(uint32_t user);
  double share(uint32_t user) const { return users[user].share; }
  /// Whose share the last `add` or `remove` may have changed.
  const std::vector<uint32_t> &changed() const { return component; }
  /// What all changes have cost, in looks at a user.
  uint64_t looks() const { return numLooks; }

private:
  struct User {
    uint32_t resources[2] = {kNone, kNone};
    double most = 1, share = 0;
    bool inComponent = false, fixed = false;
  };
  struct Resource {
    std::vector<uint32_t> users;
    double left = 1;
    size_t open = 0; // users that are not fixed
    bool inComponent = false;
  };

  void reach(uint32_t resource);
  void findComponent(const uint32_t (&from)[2]);
  void fix(uint32_t user, double share);
  void fill();

  std::vector<Resource> usersOf;
  std::vector<User> users;
  std::vector<uint32_t> freed;
  std::vector<uint32_t> component, resources; // that are looked at
  uint64_t numLooks = 0;
};

} // namespace dtrt

#endif // DTRT_COST_FAIRSHARES_H
