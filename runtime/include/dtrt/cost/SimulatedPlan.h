//===- SimulatedPlan.h - Programs as they are simulated ---------*- C++ -*-===//
//
// What takes time in the programs of a plan, without what it is for.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_COST_SIMULATEDPLAN_H
#define DTRT_COST_SIMULATEDPLAN_H

#include "dtrt/cost/Cluster.h"
#include "dtrt/types/Status.h"

namespace dtrt {

/// One end of a message.
struct MessageEnd {
  bool receive = false;
  int64_t peer = 0; // device
  int64_t bytes = 0;
  double steps = 1; // latencies that it takes
};

/// A step of a device's program.
struct DeviceStep {
  /// Packs and unpacks go before the step after them, local work beside.
  enum class Kind : uint8_t { Pack, Unpack, Local, Group };
  Kind kind = Kind::Group;
  /// Whether it waits until the local work before it is done.
  bool afterLocal = false;
  int32_t wave = -1;
  int64_t bytes = 0; // that are copied; of a Group 0
  /// Group: unpacked first, then copied on the device, then packed, while its
  /// messages are under way.
  int64_t unpackBytes = 0, localBytes = 0, packBytes = 0;
  std::vector<MessageEnd> messages; // one per peer and way
};

/// The programs of all devices.
class SimulatedPlan {
public:
  /// Each device once, its groups in the order of their waves.
  void addDevice(int64_t device, const std::vector<DeviceStep> &steps);
  /// Joins the ends of messages; then the plan is complete. Fails where one has
  /// no other end, naming device, wave and peer.
  Status finish();

  struct Message {
    int32_t wave = 0;
    uint32_t source = 0, destination = 0; // of `programs`
    int64_t bytes = 0;
    double steps = 1;
  };
  struct Step {
    DeviceStep::Kind kind = DeviceStep::Kind::Group;
    bool afterLocal = false;
    int32_t wave = -1;
    int64_t bytes = 0, unpackBytes = 0, localBytes = 0, packBytes = 0;
    size_t first = 0, last = 0; // of `ends`
  };
  struct Program {
    int64_t device = 0;
    size_t first = 0, last = 0; // of `steps`
  };

  const std::vector<Program> &programs() const { return allPrograms; }
  const std::vector<Step> &steps() const { return allSteps; }
  /// By wave, source and destination.
  const std::vector<Message> &messages() const { return allMessages; }
  /// The message that each end is of.
  const std::vector<uint32_t> &ends() const { return messageOf; }

private:
  /// An end as it was added, until `finish`.
  struct OpenEnd {
    int32_t wave = 0;
    int64_t source = 0, destination = 0, bytes = 0;
    bool receive = false;
    double steps = 1;
  };
  Status addMessages(const std::vector<uint32_t> &sends);
  Status joinReceives(const std::vector<uint32_t> &sends);

  std::vector<Program> allPrograms;
  std::vector<Step> allSteps;
  std::vector<Message> allMessages;
  std::vector<uint32_t> messageOf;
  std::vector<OpenEnd> open;
};

} // namespace dtrt

#endif // DTRT_COST_SIMULATEDPLAN_H
