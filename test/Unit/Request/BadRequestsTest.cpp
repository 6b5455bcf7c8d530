//===- BadRequestsTest.cpp - Every kind of mistake is one clear error -----===//
//
// Reads test/Pipelines/bad-requests/expected.txt: NAME | who | fragment.
//
//===----------------------------------------------------------------------===//

#include "RequestTesting.h"

#include <fstream>
#include <sstream>

using namespace dt;

namespace {

const std::string kFolder = DT_SOURCE_DIR "/test/Pipelines/bad-requests";

struct BadRequest {
  std::string name;
  std::string foundBy;
  std::string fragment;
};

std::vector<BadRequest> readTable() {
  std::vector<BadRequest> table;
  std::ifstream file(kFolder + "/expected.txt");
  for (std::string line; std::getline(file, line);) {
    size_t first = line.find(" | ");
    size_t second = line.find(" | ", first + 3);
    if (line.empty() || line[0] == '#' || second == std::string::npos)
      continue;
    table.push_back({line.substr(0, first),
                     line.substr(first + 3, second - first - 3),
                     line.substr(second + 3)});
  }
  return table;
}

std::string readFile(const std::string &path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(file) << path;
  return text.str();
}

TEST(BadRequests, areRefusedWithTheExpectedError) {
  std::vector<BadRequest> table = readTable();
  EXPECT_GE(table.size(), 40u);
  for (const BadRequest &bad : table) {
    std::string error;
    auto request = readRequest(readFile(kFolder + "/" + bad.name + ".json"),
                               kFolder, error);
    if (bad.foundBy == "compiler") {
      EXPECT_TRUE(request) << bad.name << ": " << error;
      continue;
    }
    EXPECT_FALSE(request) << bad.name;
    EXPECT_NE(error.find(bad.fragment), std::string::npos)
        << bad.name << ": " << error << "\nexpected: " << bad.fragment;
    EXPECT_EQ(error.find('\n'), std::string::npos) << bad.name;
  }
}

TEST(BadRequests, keepErrorsOnOneLine) {
  std::string error = readBad(R"({"a\nb": 1})");
  EXPECT_EQ(error, "unknown key \"a b\" in request");
}

TEST(BadRequests, directoriesAreNoModels) {
  EXPECT_EQ(readBad(stay(".", R"({"world": 1})")),
            "model \".\" cannot be read: Is a directory");
}

} // namespace
