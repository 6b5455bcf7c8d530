//===- RequestTesting.h - What the request tests share ----------*- C++ -*-===//

#ifndef DT_TEST_UNIT_REQUEST_REQUESTTESTING_H
#define DT_TEST_UNIT_REQUEST_REQUESTTESTING_H

#include "dt/Request/Request.h"

#include <gtest/gtest.h>

namespace dt {

/// The folder that model paths of test requests start from.
inline const std::string kModels = DT_SOURCE_DIR "/examples/models";

/// A request that must be right.
inline Request readGood(const std::string &json) {
  std::string error;
  std::optional<Request> request = readRequest(json, kModels, error);
  EXPECT_TRUE(request) << error << "\n" << json;
  return request.value_or(Request());
}

/// The error of a request that must be wrong.
inline std::string readBad(const std::string &json) {
  std::string error;
  EXPECT_FALSE(readRequest(json, kModels, error)) << json;
  return error;
}

/// A request for `model` with one layout on both sides.
inline std::string stay(const std::string &model, const std::string &layout) {
  return R"({"model": ")" + model + R"(", "source": )" + layout +
         R"(, "destination": )" + layout + "}";
}

inline uint32_t findTensor(const Request &request, const std::string &name) {
  for (uint32_t i = 0; i < request.tensors.size(); ++i)
    if (request.tensors[i].name == name)
      return i;
  ADD_FAILURE() << "no tensor " << name;
  return 0;
}

/// The first place of a tensor at the source.
inline const PlaceDecl &placeOf(const Request &request,
                                const std::string &name) {
  uint32_t tensor = findTensor(request, name);
  for (const PlaceDecl &place : request.source.places)
    if (place.tensor == tensor)
      return place;
  ADD_FAILURE() << "no place of " << name;
  static const PlaceDecl none;
  return none;
}

/// What rank `rank` of the source holds of a tensor, as text; "" for nothing.
inline std::string heldBy(const Request &request, const std::string &name,
                          int64_t rank) {
  const PlaceDecl &place = placeOf(request, name);
  const std::vector<int64_t> &shape = request.tensors[place.tensor].shape;
  const Mesh &mesh = request.source.meshes[place.mesh].mesh;
  std::string error;
  auto holdings = evaluate(place.placement, mesh, shape, 0, error);
  EXPECT_TRUE(holdings) << error;
  std::string text;
  for (const Holding &holding : holdings.value_or(std::vector<Holding>()))
    for (int64_t device : holding.devices)
      if (device == mesh.device(rank))
        for (const Box &box : regions(holding.shard, shape))
          text += (text.empty() ? "" : " ") + toString(box);
  return text;
}

} // namespace dt

#endif // DT_TEST_UNIT_REQUEST_REQUESTTESTING_H
