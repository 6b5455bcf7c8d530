//===- Mesh.h - Named axes over a set of devices ----------------*- C++ -*-===//
//
// A mesh arranges devices along named axes, row-major: the last axis varies
// fastest. Rank = row-major index of the axis coordinates; device = physical
// number of that rank (both worlds of a transition share device numbers).
//
//===----------------------------------------------------------------------===//

#ifndef DT_GEOMETRY_MESH_H
#define DT_GEOMETRY_MESH_H

#include <cstdint>
#include <string>
#include <vector>

namespace dt {

struct MeshAxis {
  std::string name;
  int64_t size = 1;
};

struct Mesh {
  /// Slowest first. Axes of size 1 may be left out: their coordinate is 0.
  std::vector<MeshAxis> axes;
  /// Device of each rank; empty means device = rank.
  std::vector<int64_t> devices;

  int64_t numRanks() const;
  int64_t device(int64_t rank) const {
    return devices.empty() ? rank : devices[rank];
  }
  /// Index into `axes`, or -1.
  int axisIndex(const std::string &name) const;
  /// Size of a named axis; 1 when the mesh does not have it.
  int64_t axisSize(const std::string &name) const;
  /// Coordinate of a rank on a named axis; 0 when the mesh does not have it.
  int64_t coordinate(int64_t rank, const std::string &name) const;
};

} // namespace dt

#endif // DT_GEOMETRY_MESH_H
