//===- SpreadBytes.h - How much crosses between nodes in a time -*- C++ -*-===//
//
// A device that has something sends it by its NIC and by its island port, a
// message of each at a time. A message takes a round, w, and between nodes the
// time of its bytes too; who gets it is a sender from then on. So a device, and
// all who get something from it or from them, bring other nodes at most V(t) in
// the time t, in seconds of one NIC:
//
//   V(t) = N(t) + I(t), and 0 up to w
//   N(t) = max(t - w, V(t - w) + N(t - w))   by its own NIC
//   I(t) = V(t - w) + I(t - w)               by its island port
//
// Of N(t), the first message is as long as can be, or as short: anything
// between x and V(t - w - x) + N(t - w - x) is no more, as both are convex.
// Whether all that is sent is lacked, and how many devices there are, is left
// out. With t = k w + f, and f no more than w:
//
//   k      1   2        3            4
//   V(t)   f   w + 2 f  3 (w + 2 f)  9 (w + 2 f)
//
//===----------------------------------------------------------------------===//

#ifndef DT_COST_SPREADBYTES_H
#define DT_COST_SPREADBYTES_H

namespace dt {

/// The least t with V(t) = `nicSeconds`. `round`: w, more than 0.
double spreadSeconds(double nicSeconds, double round);

} // namespace dt

#endif // DT_COST_SPREADBYTES_H
