//===- OutputFileTest.cpp - Files appear when they are whole --------------===//

#include "dtrt/format/OutputFile.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sys/stat.h>
#include <unistd.h>

using namespace dtrt;
namespace fs = std::filesystem;

namespace {

/// A folder of its own for each test.
class OutputFileTest : public testing::Test {
protected:
  void SetUp() override {
    std::string name =
        testing::TempDir() + "dtrt-output-" + std::string(6, 'X');
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string path(const char *name) const { return folder / name; }
  size_t entries() const {
    return size_t(std::distance(fs::directory_iterator(folder),
                                fs::directory_iterator()));
  }

  fs::path folder;
};

std::string textIn(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Status writeAndFail(std::ostream &out) {
  out << "half";
  return makeError("no more");
}
Status writeAll(std::ostream &out) {
  out << "all of it";
  return {};
}

} // namespace

TEST_F(OutputFileTest, AppearsAtTheEnd) {
  {
    auto file = OutputFile::create(path("page"));
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_TRUE(file->write("abc", 3).ok());
    EXPECT_TRUE(file->rewrite(1, "X", 1).ok());
    EXPECT_TRUE(file->write("d", 1).ok());
    EXPECT_FALSE(fs::exists(path("page")));
    EXPECT_TRUE(file->publish().ok());
  }
  EXPECT_EQ(textIn(path("page")), "aXcd");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(OutputFileTest, WhatWasThereStaysOnFailure) {
  std::ofstream(path("page")) << "before";
  EXPECT_EQ(writeTextFile(path("page"), writeAndFail).message(), "no more");
  EXPECT_EQ(textIn(path("page")), "before");
  EXPECT_EQ(entries(), 1u);
  EXPECT_TRUE(writeTextFile(path("page"), writeAll).ok());
  EXPECT_EQ(textIn(path("page")), "all of it");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(OutputFileTest, LinksAreFollowed) {
  std::ofstream(path("page")) << "before";
  fs::create_symlink("page", path("link"));
  EXPECT_TRUE(writeTextFile(path("link"), writeAll).ok());
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(textIn(path("page")), "all of it");
}

TEST_F(OutputFileTest, WhatAKilledProcessLeftIsNotInTheWay) {
  std::string left = path("page") + ".tmp." + std::to_string(getpid()) + ".0";
  std::ofstream(left) << "half";
  EXPECT_TRUE(writeTextFile(path("page"), writeAll).ok());
  EXPECT_EQ(textIn(path("page")), "all of it");
  EXPECT_EQ(textIn(left), "half");
}

TEST_F(OutputFileTest, DevicesStay) {
  EXPECT_TRUE(writeTextFile("/dev/null", writeAll).ok());
  struct stat found;
  ASSERT_EQ(stat("/dev/null", &found), 0);
  EXPECT_TRUE(S_ISCHR(found.st_mode));
  EXPECT_EQ(writeTextFile("/dev/full", writeAll).message(),
            "cannot write '/dev/full': No space left on device");
}

TEST_F(OutputFileTest, ErrorsNameThePath) {
  std::string missing = path("no/page");
  EXPECT_EQ(writeTextFile(missing, writeAll).message(),
            "cannot create '" + missing + "': No such file or directory");
  EXPECT_NE(writeTextFile(folder, writeAll)
                .message()
                .find("cannot create '" + folder.string() + "'"),
            std::string::npos);
}
