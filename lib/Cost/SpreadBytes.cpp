//===- SpreadBytes.cpp - How much crosses between nodes in a time ---------===//

#include "dt/Cost/SpreadBytes.h"

double dt::spreadSeconds(double nicSeconds, double round) {
  if (nicSeconds <= round)
    return round + nicSeconds;
  double before = 2 * round;
  for (; nicSeconds > 3 * round; nicSeconds /= 3)
    before += round;
  return before + (nicSeconds - round) / 2;
}
