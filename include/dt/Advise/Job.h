//===- Job.h - A training job, as advice sees it ----------------*- C++ -*-===//
//
// What is trained, on which devices, how it lies today, and what a change must
// respect. docs/Advise.md has every key of the file.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ADVISE_JOB_H
#define DT_ADVISE_JOB_H

#include "dt/Advise/ModelShape.h"
#include "dt/Cost/Cluster.h"
#include "dt/Geometry/DType.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dt::advise {

/// One device and its speed.
struct Device {
  double flops = 0;      // peak, per second
  int64_t memory = 0;    // bytes
  double memoryRate = 0; // bytes per second
  bool isLost = false;
};

/// A cluster whose devices are known.
struct JobCluster : Cluster {
  std::vector<Device> devices;
  /// Measured rate of each ordered pair in bytes per second, row-major; empty:
  /// those of the cluster.
  std::vector<double> measured;

  int64_t nodes() const {
    return (int64_t(devices.size()) + devicesPerNode - 1) / devicesPerNode;
  }
  /// Bytes per second from one device to another, alone on the wire.
  double rate(int64_t from, int64_t to) const {
    return measured.empty() ? bytesPerSecond(from, to)
                            : measured[from * int64_t(devices.size()) + to];
  }
  bool isRegular() const { return links.empty() && measured.empty(); }
};

/// Parallel sizes, as in a request (docs/Request.md).
struct Sizes {
  int64_t world = 1;
  int64_t tp = 1, cp = 1, ep = 1, etp = 1, fsdp = 1, dp = 1, pp = 1, vpp = 1;
  int64_t zero = 0;
  int64_t bucketSize = 0;       // 0: Megatron-Core's default
  std::vector<int64_t> blocks;  // layers per block, pp x vpp of them
  std::vector<int64_t> devices; // of each rank
};

enum class Recompute { None, Selective, Full };
const char *nameOf(Recompute recompute);

struct Batch {
  int64_t global = 1; // samples
  int64_t micro = 1;
  int64_t sequence = 1; // tokens of a sample
  Recompute recompute = Recompute::None;
};

/// Which values an axis may take; none named: all that are legal.
struct Constraints {
  std::map<std::string, std::vector<int64_t>> allowed;
  std::vector<Recompute> recompute;
  int64_t reserve = 0; // bytes of every device that training may not use
  bool tpInsideNode = true;
  bool unevenLayers = true;
  bool unevenBatches = true;

  bool allows(const std::string &axis, int64_t value) const;
};

/// What the model of time takes as given; see docs/Advise.md.
struct TimeModel {
  double efficiency = 0.45; // of the peak, in matrix products
  double networkEfficiency = 0.8;
  bool hideGradients = true;  // behind the last micro-batch's backward
  double expertImbalance = 1; // heaviest expert rank over the mean
  double slack = 0;           // of the slowest stage, given up for fewer bytes
};

/// What was measured of the live job; empty where nothing was.
struct Profile {
  std::vector<double> layerSeconds; // forward and backward of a micro-batch
  double firstSeconds = 0;          // embeddings
  double lastSeconds = 0;           // loss and prediction layers
  std::vector<std::vector<int64_t>> expertLoad; // per layer of experts
};

struct Job {
  std::string modelPath; // as the job gives it, from `directory`; or
  std::string modelText; // the model itself, as JSON
  std::string directory;
  std::string stateText; // the request's "state", as JSON; empty: none
  std::string layoutText;
  ModelShape model;
  JobCluster cluster;
  Sizes today;
  Batch batch;                       // of today
  std::vector<int64_t> microBatches; // that may be tried
  Constraints constraints;
  TimeModel time;
  Profile profile;
  int64_t gradientBytes = 4; // per parameter
  int64_t staging = int64_t(1) << 30;
  std::optional<MemoryMode> mode; // none: what fits
  int64_t vocabMultiple = 128;
  int64_t horizon = 1000; // steps that a change has to pay in
  std::vector<std::string> warnings;

  std::vector<int64_t> available() const; // devices that are not lost
};

/// What the command line adds to a job.
struct JobChanges {
  std::vector<std::string> lost; // "node:3", "17"
  std::vector<int64_t> devices;  // those that remain; empty: all
  std::string profile;           // JSON text; empty: none
};

/// Reads a job. `directory` is where relative model paths start. On any mistake
/// returns nullopt and sets `error` to one sentence that names the key.
std::optional<Job> readJob(const std::string &json,
                           const std::string &directory,
                           const JobChanges &changes, std::string &error);

} // namespace dt::advise

#endif // DT_ADVISE_JOB_H
