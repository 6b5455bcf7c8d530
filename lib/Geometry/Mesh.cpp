//===- Mesh.cpp - Named axes over a set of devices ------------------------===//

#include "dt/Geometry/Mesh.h"

namespace dt {

int64_t Mesh::numRanks() const {
  int64_t count = 1;
  for (const MeshAxis &axis : axes)
    count *= axis.size;
  return count;
}

int Mesh::axisIndex(const std::string &name) const {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].name == name)
      return int(i);
  return -1;
}

int64_t Mesh::axisSize(const std::string &name) const {
  int index = axisIndex(name);
  return index < 0 ? 1 : axes[index].size;
}

int64_t Mesh::coordinate(int64_t rank, const std::string &name) const {
  int index = axisIndex(name);
  if (index < 0)
    return 0;
  for (size_t i = axes.size() - 1; i > size_t(index); --i)
    rank /= axes[i].size;
  return rank % axes[index].size;
}

} // namespace dt
