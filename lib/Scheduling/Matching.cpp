//===- Matching.cpp - Who meets whom in a wave ----------------------------===//

#include "Matching.h"

#include <tuple>

using namespace dt;

namespace {

/// Each attempt at a wave is this much shorter than the one before.
constexpr double kShorter = 0.75, kMuchShorter = 0.4;
constexpr int kAttempts = 6;
/// A wave that covers all has to be longer than this many latencies, and each
/// where waves are to end soon.
constexpr double kLeastLatencies = 8;
/// A wave that makes this much of its time count is taken at once.
constexpr double kEfficient = 0.98;

} // namespace

Matching::Matching(uint32_t numPorts, double latency)
    : latency(latency), linksOf(numPorts), remaining(numPorts, 0),
      missing(numPorts, 0), feeding(numPorts, 0), hasMoved(numPorts, false),
      visited(numPorts, 0) {}

uint32_t Matching::add(uint32_t sender, uint32_t receiver, double most) {
  uint32_t index = pairs.size();
  pairs.emplace_back();
  pairs.back().most = most;
  ports.push_back({sender, receiver});
  linksOf[sender].push_back({index, receiver});
  linksOf[receiver].push_back({index, sender});
  longest = std::max(longest, most);
  noteMove(sender);
  noteMove(receiver);
  return index;
}

void Matching::noteMove(uint32_t port) {
  if (!hasMoved[port])
    moved.push_back(port);
  hasMoved[port] = true;
}

void Matching::set(uint32_t index, const Pair &now) {
  Pair &pair = pairs[index];
  uint32_t sender = ports[index][0];
  missing[sender] += (now.left - now.ready) - (pair.left - pair.ready);
  feeding[sender] += int(now.chain > 0) - int(pair.chain > 0);
  if (now.left != pair.left)
    for (uint32_t port : ports[index]) {
      remaining[port] += now.left - pair.left;
      noteMove(port);
    }
  pair = now;
}

double Matching::message(const Pair &pair) const {
  return std::min({pair.ready, pair.most, duration});
}

/// A good part of a message, or all that there will be. A forward that
/// trickles in would fill waves with small messages.
bool Matching::isWorth(const Pair &pair) const {
  return pair.ready > 0 &&
         (takesTrickles || 2 * pair.ready >= std::min(pair.most, duration) ||
          pair.ready >= pair.left * 0.999);
}

void Matching::match(uint32_t pair) {
  for (uint32_t port : ports[pair])
    matched[port] = pair;
}

/// Matches a port with the free partner that has most left; among equals with
/// the one whose box comes first, so that all pairs of a port advance together.
bool Matching::cover(uint32_t port, bool isCritical) {
  std::tuple<bool, uint32_t, double, double, int64_t> best;
  int64_t bestPair = -1;
  for (auto [index, other] : linksOf[port]) {
    if (matched[other] >= 0)
      continue;
    const Pair &pair = pairs[index];
    if (!(isCritical ? serves(pair, port, other) : isWorth(pair)))
      continue;
    // Ports that receive are odd.
    std::tuple<bool, uint32_t, double, double, int64_t> rating = {
        need(other) > 0, pair.chain, starving(pair, port % 2 ? port : other),
        isCritical ? remaining[other] : message(pair), -int64_t(pair.order)};
    if (bestPair >= 0 && rating <= best)
      continue;
    best = rating;
    bestPair = index;
  }
  if (bestPair < 0)
    return false;
  match(bestPair);
  return true;
}

/// Alternating path from an unmatched port, to a free partner or to a mate
/// that may idle. No port that must be covered is uncovered.
bool Matching::augment(uint32_t port) {
  if (cover(port, /*isCritical=*/true))
    return true;
  visited[port] = stamp;
  for (auto [index, other] : linksOf[port]) {
    if (visited[other] == stamp || !serves(pairs[index], port, other))
      continue;
    visited[other] = stamp;
    int32_t taken = matched[other];
    uint32_t mate = partner(taken, other);
    if (visited[mate] == stamp)
      continue;
    matched[mate] = -1;
    if (need(mate) <= 0 || augment(mate)) {
      match(index);
      return true;
    }
    matched[mate] = taken;
  }
  return false;
}

/// Covers all ports that are behind. False: one cannot be; `isStrict` gives up
/// there, and looks at that port first the next time.
bool Matching::coverCritical(bool isStrict) {
  ++stamp;
  bool isCovered = true;
  auto tryPort = [&](uint32_t port) {
    if (matched[port] >= 0)
      return true;
    // What a failed search has visited leads nowhere until a match changes.
    if (augment(port)) {
      ++stamp;
      return true;
    }
    hardest = port;
    return isCovered = false;
  };
  if (need(hardest) > 0 && !tryPort(hardest) && isStrict)
    return false;
  // Who feeds others chooses first.
  for (uint32_t port : order)
    if (feeding[port] > 0 && matched[port] < 0)
      cover(port, /*isCritical=*/true);
  for (uint32_t port : order) {
    if (need(port) <= 0)
      break;
    if (!tryPort(port) && isStrict)
      return false;
  }
  return isCovered;
}

/// Looks at no port whose other side has nobody free: of many senders to few
/// receivers, nearly all.
void Matching::coverRest() {
  std::array<uint32_t, 2> numFree = {0, 0}; // that send, that receive
  for (uint32_t port : order)
    numFree[port % 2] += matched[port] < 0;
  for (uint32_t port : order)
    if (matched[port] < 0 && numFree[1 - port % 2] > 0 &&
        cover(port, /*isCritical=*/false)) {
      --numFree[0];
      --numFree[1];
    }
}

/// What the wave takes off the busiest port, over what it costs.
double Matching::efficiency() const {
  double most = 0, longestMessage = 0;
  for (uint32_t port : order) {
    double sent = matched[port] < 0 ? 0 : message(pairs[matched[port]]);
    most = std::max(most, remaining[port] - sent);
    longestMessage = std::max(longestMessage, sent);
  }
  return longestMessage == 0 ? -1
                             : (busiest - most) / (longestMessage + latency);
}

void Matching::start(double seconds) {
  duration = seconds;
  matched.assign(remaining.size(), -1);
}

/// Forgets pairs that have nothing left, and ports without others.
void Matching::dropFinished() {
  for (auto &list : linksOf)
    list.erase(
        std::remove_if(list.begin(), list.end(),
                       [&](Link link) { return pairs[link.pair].left <= 0; }),
        list.end());
  for (uint32_t port : order)
    if (linksOf[port].empty())
      noteMove(port);
}

/// Brings the ports into order again: those of the last wave are put into
/// their new places among the others.
void Matching::sortPorts() {
  auto isBusier = [&](uint32_t a, uint32_t b) {
    return std::make_pair(-remaining[a], a) < std::make_pair(-remaining[b], b);
  };
  order.erase(std::remove_if(order.begin(), order.end(),
                             [&](uint32_t port) { return hasMoved[port]; }),
              order.end());
  size_t numOthers = order.size();
  for (uint32_t port : moved) {
    hasMoved[port] = false;
    if (!linksOf[port].empty())
      order.push_back(port);
  }
  moved.clear();
  std::sort(order.begin() + numOthers, order.end(), isBusier);
  std::inplace_merge(order.begin(), order.begin() + numOthers, order.end(),
                     isBusier);
  busiest = order.empty() ? 0 : remaining[order.front()];
}

/// The longest that the next wave may be.
double Matching::longestNow() const {
  if (ends == 0 || ends >= longest || busiest <= ends)
    return longest;
  if (wave == 1)
    return ends;
  // The last wave but one leaves as much as a last one should have.
  return busiest > longest ? longest : std::max(busiest - ends, ends);
}

/// The longest wave that covers all ports that are behind.
bool Matching::findFull() {
  for (double seconds = longestNow(); seconds > kLeastLatencies * latency;
       seconds *= kShorter) {
    start(seconds);
    if (!coverCritical(/*isStrict=*/true))
      continue;
    coverRest();
    return efficiency() >= kEfficient * seconds / (seconds + latency);
  }
  return false;
}

/// The wave that makes most of its time.
void Matching::findBest() {
  double seconds = longestNow();
  double best = -1, bestSeconds = seconds;
  std::vector<int32_t> bestMatched;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (endsSoon && attempt > 0 && seconds < kLeastLatencies * latency)
      break;
    start(seconds);
    coverCritical(/*isStrict=*/false);
    coverRest();
    double gained = efficiency();
    if (gained > best) {
      best = gained;
      bestSeconds = seconds;
      bestMatched = matched;
    }
    seconds *= kMuchShorter;
  }
  start(bestSeconds);
  if (best >= 0) {
    matched = bestMatched;
    return;
  }
  takesTrickles = true;
  coverRest();
}

std::vector<Meeting> Matching::choose() {
  if (wave++ % 16 == 0)
    dropFinished();
  sortPorts();
  takesTrickles = false;
  if (!findFull())
    findBest();
  std::vector<Meeting> out;
  for (uint32_t port = 0; port < matched.size(); ++port)
    if (matched[port] >= 0 && ports[matched[port]][0] == port)
      out.push_back({uint32_t(matched[port]), message(pairs[matched[port]])});
  return out;
}
