//===- Sequence.cpp - One integer for each index --------------------------===//

#include "dt/Geometry/Sequence.h"

#include <utility>

using namespace dt;

Sequence Sequence::of(std::vector<int64_t> values) {
  Sequence out;
  out.first = values.front();
  if (values.size() > 1)
    out.step = values[1] - values[0];
  for (size_t i = 2; i < values.size(); ++i)
    if (values[i] - values[i - 1] != out.step) {
      out.step = 0;
      out.list = std::move(values);
      break;
    }
  return out;
}
