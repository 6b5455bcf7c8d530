//===- ExamplesTest.cpp - Every example request reads and fits ------------===//

#include "RequestTesting.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace dt;

namespace {

const std::string kRequests = DT_SOURCE_DIR "/examples/requests";

/// Whether Geometry accepts every placement. The largest worlds are left to
/// tests of whole compilations.
void checkPlacements(const Request &request, const LayoutDecl &layout) {
  for (const PlaceDecl &place : layout.places) {
    if (!place.rows.empty())
      continue;
    const TensorDecl &tensor = request.tensors[place.tensor];
    std::string error;
    EXPECT_TRUE(evaluate(place.placement, layout.meshes[place.mesh].mesh,
                         place.view ? layout.views[*place.view].view.shape()
                                    : tensor.shape,
                         0, error))
        << tensor.name << ": " << error;
  }
}

TEST(Examples, readAndFit) {
  size_t count = 0;
  for (const auto &entry : std::filesystem::directory_iterator(kRequests)) {
    if (entry.path().extension() != ".json")
      continue;
    ++count;
    std::ifstream file(entry.path());
    std::ostringstream text;
    text << file.rdbuf();
    std::string error;
    auto request = readRequest(text.str(), kRequests, error);
    ASSERT_TRUE(request) << entry.path() << ": " << error;
    if (request->tensors.size() > 2000)
      continue;
    checkPlacements(*request, request->source);
    checkPlacements(*request, request->destination);
  }
  EXPECT_GE(count, 20u);
}

} // namespace
