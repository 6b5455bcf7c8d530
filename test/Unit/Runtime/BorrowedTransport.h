//===- BorrowedTransport.h - A transport around another ---------*- C++ -*-===//

#ifndef DTRT_TEST_BORROWEDTRANSPORT_H
#define DTRT_TEST_BORROWEDTRANSPORT_H

#include "dtrt/core/Transport.h"

namespace dtrt::test {

/// Passes what every transport does on to one that it does not own; what only
/// some can do it cannot.
template <typename Interface> class BorrowedAs : public Interface {
public:
  explicit BorrowedAs(Interface &inner) : inner(inner) {}
  uint32_t device() const override { return inner.device(); }
  Status connect(const Digest &digest,
                 const std::vector<uint32_t> &peers) override {
    return inner.connect(digest, peers);
  }
  Status group(const std::vector<TransportMessage> &messages) override {
    return inner.group(messages);
  }
  Status
  prepareCollectives(const std::vector<std::vector<uint32_t>> &sets) override {
    return inner.prepareCollectives(sets);
  }
  Status collective(const CollectiveCall &call) override {
    return inner.collective(call);
  }
  void abort(const Status &why) override { inner.abort(why); }
  void leave() override { inner.leave(); }

protected:
  Interface &inner;
};

using Borrowed = BorrowedAs<Transport>;

} // namespace dtrt::test

#endif // DTRT_TEST_BORROWEDTRANSPORT_H
