//===- StateSizes.h - Bytes of state of a layout ----------------*- C++ -*-===//
//
// What every rank of a layout by parallel sizes holds, to the byte, and what a
// change from one layout to another brings to each device. The rules are those
// of the request reader and of lib/Geometry; they are worked out per class of
// tensors instead of per tensor and rank, so that thousands of layouts can be
// compared. StateSizesTest compares them with the readers' own shards.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ADVISE_STATESIZES_H
#define DT_ADVISE_STATESIZES_H

#include "dt/Advise/Job.h"

namespace dt::advise {

/// Of one rank.
struct RankBytes {
  int64_t state = 0;      // bytes of all states, padding rows included
  int64_t parameters = 0; // elements, before ZeRO cuts
  int64_t stepped = 0;    // elements whose optimizer states lie here
};

/// Whether the sizes can cut the model's tensors at all; else an error.
bool fitsModel(const ModelShape &model, const Sizes &sizes,
               int64_t vocabMultiple, std::string &error);

/// Per rank. The sizes fit the model.
std::vector<RankBytes> rankBytes(const ModelShape &model, const Sizes &sizes,
                                 int64_t vocabMultiple);

/// The largest of each number on each stage.
std::vector<RankBytes> stageBytes(const ModelShape &model, const Sizes &sizes,
                                  int64_t vocabMultiple);

/// What comes to a device over wires.
struct DeviceArrival {
  int64_t device = 0;
  int64_t bytes = 0;        // that it does not hold itself
  int64_t betweenNodes = 0; // that no device of its node holds, roughly
};

struct Arrivals {
  int64_t bytes = 0; // sum over devices
  std::vector<DeviceArrival> devices;
};

/// What a change from `before` to `after` brings, all states kept. `bytes` are
/// exact; which of them cross nodes is an estimate: replicas inside a node
/// count once for each.
Arrivals arrivals(const Job &job, const Sizes &before, const Sizes &after);

/// What stays where it is: bytes of today's state on a device that a rank of
/// another layout would have there.
class StayingBytes {
public:
  StayingBytes(const Job &job, const Sizes &after);
  ~StayingBytes();
  int64_t onDevice(int64_t rank, int64_t device);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// Bytes of the parts of the state that only lost devices hold.
int64_t lostBytes(const Job &job, const Sizes &before);

} // namespace dt::advise

#endif // DT_ADVISE_STATESIZES_H
