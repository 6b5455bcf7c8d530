//===- NodeExchange.cpp - All of a node get what each has got -------------===//

#include "NodeExchange.h"

using namespace dt;

/// The factors, ascending.
std::vector<int64_t> dt::fewestTeams(int64_t rails) {
  std::vector<int64_t> out;
  for (int64_t factor = 2; rails > 1; ++factor)
    for (; rails % factor == 0; rails /= factor)
      out.push_back(factor);
  return out;
}

std::vector<std::vector<int64_t>> dt::teamsWorthTrying(int64_t rails) {
  std::vector<std::vector<int64_t>> out = {fewestTeams(rails)};
  out.push_back(rails % 2 == 0 && rails > 2 ? std::vector<int64_t>{2, rails / 2}
                                            : std::vector<int64_t>{rails});
  if (out[0] == out[1])
    out.pop_back();
  return out;
}

int64_t NodeExchange::rounds() const {
  if (devices != rails)
    return devices - 1;
  int64_t rounds = 0;
  for (int64_t team : teams)
    rounds += team - 1;
  return rounds;
}

std::vector<ExchangeStep> NodeExchange::steps() const {
  std::vector<ExchangeStep> out;
  int64_t round = 0;
  if (devices != rails) {
    for (; round < devices - 1; ++round)
      for (int64_t rail = 0; rail < rails; ++rail)
        out.push_back({round, rail, 1, rail, (rail + 1 + round) % devices});
    return out;
  }
  int64_t run = 1; // rails that a device has
  for (int64_t team : teams) {
    for (int64_t away = 1; away < team; ++away, ++round)
      for (int64_t device = 0; device < devices; ++device) {
        int64_t place = device / run % team;
        int64_t other = device + ((place + away) % team - place) * run;
        out.push_back({round, device / run * run, run, device, other});
      }
    run *= team;
  }
  return out;
}
