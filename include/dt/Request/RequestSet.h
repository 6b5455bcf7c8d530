//===- RequestSet.h - One request for several plans -------------*- C++ -*-===//
//
// Where `destination` is a list or `{"each_lost": ...}`, or where `swaps` or
// `steps` take the place of both sides, a request is for a set of plans. The
// text and the model are read once; each transition is read when it is asked
// for, so that not all need be in memory. An ordinary request is a set of one.
//
//===----------------------------------------------------------------------===//

#ifndef DT_REQUEST_REQUESTSET_H
#define DT_REQUEST_REQUESTSET_H

#include "dt/Request/Request.h"

#include <memory>

namespace dt {

namespace json {
struct Json;
} // namespace json

class RequestSet {
public:
  /// Reads all but the layouts. On a mistake nullopt, with `error` set to one
  /// sentence as `readRequest` does.
  static std::optional<RequestSet> read(const std::string &json,
                                        const std::string &directory,
                                        std::string &error,
                                        const RequestSet *like = nullptr);
  /// Of what was parsed before. The model is that of `like` where both name it
  /// alike and its file holds the same; null: it is read.
  static std::optional<RequestSet> read(json::Json request,
                                        const std::string &directory,
                                        std::string &error,
                                        const RequestSet *like = nullptr);
  RequestSet(RequestSet &&) noexcept;
  RequestSet &operator=(RequestSet &&) noexcept;
  ~RequestSet();

  /// Whether the plans are for a folder, even where it is but one.
  bool isFamily() const;
  size_t size() const;
  /// Of a plan's transition; letters, digits, '.', '_' and '-', so that files
  /// can have it. No two are equal. Empty where this is no family.
  const std::string &name(size_t index) const;
  /// The layouts' own names; empty where they have none.
  const std::string &sourceName(size_t index) const;
  const std::string &destinationName(size_t index) const;
  /// "node:3" or "17": what the destination does without; mostly empty.
  const std::string &lost(size_t index) const;

  /// Any thread may ask, at any time. On a mistake nullopt, with `error` set.
  std::optional<Request> request(size_t index, std::string &error) const;

  /// The request with device = rank on both sides. Nothing where its lists of
  /// devices might say more than where ranks are.
  std::optional<RequestSet> withoutDevices() const;
  /// Whether this is that request but for lists of devices.
  bool isButForDevices(const RequestSet &without) const;
  /// The device of each rank of such a request; empty: the rank. Nothing where
  /// the list is wrong.
  std::optional<std::vector<int64_t>> devices(Side side) const;

private:
  struct State;
  explicit RequestSet(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace dt

#endif // DT_REQUEST_REQUESTSET_H
