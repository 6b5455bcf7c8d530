//===- Ports.h - What the router knows of devices ---------------*- C++ -*-===//

#ifndef DT_LIB_ROUTING_PORTS_H
#define DT_LIB_ROUTING_PORTS_H

#include <cstdint>
#include <vector>

namespace dt {

/// The seconds that a port will carry bytes; `due` is what it will have to send
/// of items that are not routed yet, shared with the other holders.
struct Port {
  double in = 0, out = 0, due = 0;
};

struct Device {
  int64_t number = 0;
  uint32_t node = 0; // counted without gaps
  Port island;
  Port *nic = nullptr; // of this device, or of several
};
using Devices = std::vector<Device *>;

} // namespace dt

#endif // DT_LIB_ROUTING_PORTS_H
