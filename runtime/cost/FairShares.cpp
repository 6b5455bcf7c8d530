//===- FairShares.cpp - Who gets how much of what is shared ---------------===//

#include "dtrt/cost/FairShares.h"

#include <algorithm>

namespace dtrt {

void FairShares::reach(uint32_t resource) {
  if (resource == kNone || usersOf[resource].inComponent)
    return;
  usersOf[resource].inComponent = true;
  resources.push_back(resource);
}

/// All users that are connected with these resources, and their resources.
void FairShares::findComponent(const uint32_t (&from)[2]) {
  component.clear();
  resources.clear();
  for (uint32_t resource : from)
    reach(resource);
  for (size_t at = 0; at < resources.size(); ++at) {
    Resource &resource = usersOf[resources[at]];
    resource.left = 1;
    resource.open = resource.users.size();
    for (uint32_t number : resource.users) {
      ++numLooks;
      User &user = users[number];
      if (user.inComponent)
        continue;
      user.inComponent = true;
      user.fixed = false;
      component.push_back(number);
      for (uint32_t other : user.resources)
        reach(other);
    }
  }
}

void FairShares::fix(uint32_t number, double share) {
  User &user = users[number];
  user.share = share;
  user.fixed = true;
  for (uint32_t resource : user.resources)
    if (resource != kNone) {
      usersOf[resource].left = std::max(0.0, usersOf[resource].left - share);
      --usersOf[resource].open;
    }
}

/// Invariant: each open user can have what the fixed ones have got. A round
/// fixes at least one: those that want no more than the least share that a
/// resource has left for each, or else those of that resource.
void FairShares::fill() {
  size_t open = component.size();
  while (open > 0) {
    double least = 2;
    uint32_t tightest = kNone;
    for (uint32_t number : resources) {
      const Resource &resource = usersOf[number];
      ++numLooks;
      if (resource.open > 0 && resource.left / double(resource.open) < least) {
        least = resource.left / double(resource.open);
        tightest = number;
      }
    }
    size_t before = open;
    for (uint32_t number : component) {
      ++numLooks;
      if (users[number].fixed || users[number].most > least)
        continue;
      fix(number, users[number].most);
      --open;
    }
    if (open < before)
      continue;
    for (uint32_t number : usersOf[tightest].users)
      if (!users[number].fixed) {
        fix(number, least);
        --open;
      }
  }
  for (uint32_t number : component)
    users[number].inComponent = false;
  for (uint32_t number : resources)
    usersOf[number].inComponent = false;
}

uint32_t FairShares::add(uint32_t a, uint32_t b, double most) {
  if (freed.empty()) {
    freed.push_back(uint32_t(users.size()));
    users.emplace_back();
  }
  uint32_t number = freed.back();
  freed.pop_back();
  users[number] = User();
  users[number].resources[0] = a;
  users[number].resources[1] = b;
  users[number].most = most;
  for (uint32_t resource : {a, b})
    if (resource != kNone)
      usersOf[resource].users.push_back(number);
  findComponent({a, b});
  fill();
  return number;
}

void FairShares::remove(uint32_t number) {
  const User user = users[number];
  for (uint32_t resource : user.resources)
    if (resource != kNone) {
      std::vector<uint32_t> &all = usersOf[resource].users;
      all.erase(std::find(all.begin(), all.end(), number));
    }
  freed.push_back(number);
  findComponent(user.resources);
  fill();
}

} // namespace dtrt
