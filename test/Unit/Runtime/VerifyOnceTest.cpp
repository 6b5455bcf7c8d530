//===- VerifyOnceTest.cpp - A plan is verified before it runs -------------===//

#include "dtrt/verify/VerifyOnce.h"
#include "PlanBuilder.h"
#include "dtrt/verify/Verifier.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace dtrt;
using namespace dtrt::test;
namespace fs = std::filesystem;

namespace {

class VerifyOnce : public ::testing::Test {
protected:
  void SetUp() override {
    std::string made =
        ::testing::TempDir() + "verify-once-" + std::string(6, 'X');
    ASSERT_NE(mkdtemp(made.data()), nullptr);
    root = made;
    folder = root / "cache/dynatrain/verified";
  }
  void TearDown() override { fs::remove_all(root); }

  std::vector<std::string> files() const {
    std::vector<std::string> out;
    if (fs::exists(folder))
      for (const auto &entry : fs::directory_iterator(folder))
        out.push_back(entry.path().filename());
    return out;
  }
  static std::string markerOf(const PlanReader &plan) {
    return digestText(plan.digest()) + "-" + kVerifierVersion;
  }
  /// A plan whose summary is untrue.
  static PlanReader wrongPlan() {
    TestPlan plan = reshapePlan();
    ++plan.common.summary.bytesWire;
    return plan.reader();
  }

  fs::path root, folder;
};

} // namespace

TEST_F(VerifyOnce, RemembersWhatIsRight) {
  PlanReader plan = reshapePlan().reader();
  EXPECT_TRUE(verifyOnce(plan, folder).ok());
  EXPECT_EQ(files(), std::vector<std::string>{markerOf(plan)});
  struct stat found;
  ASSERT_EQ(stat((folder / markerOf(plan)).c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  EXPECT_TRUE(verifyOnce(plan, folder).ok());
}

TEST_F(VerifyOnce, RefusesWhatIsWrongEachTime) {
  PlanReader plan = wrongPlan();
  for (int time = 0; time < 2; ++time)
    EXPECT_EQ(verifyOnce(plan, folder).message(),
              "the plan is wrong, and nothing was moved: " +
                  verifyPlan(plan).message());
  EXPECT_EQ(files(), std::vector<std::string>());
}

// The marker is what is believed: with it a wrong plan is not looked at.
TEST_F(VerifyOnce, VerifiesOnce) {
  PlanReader plan = wrongPlan();
  EXPECT_FALSE(verifyOnce(plan, folder).ok());
  std::ofstream(folder / markerOf(plan)).close();
  EXPECT_TRUE(verifyOnce(plan, folder).ok());
  // Of another verifier it says nothing.
  fs::rename(folder / markerOf(plan), folder / (markerOf(plan) + "0"));
  EXPECT_FALSE(verifyOnce(plan, folder).ok());
}

TEST_F(VerifyOnce, BelievesOnlyItsOwnUser) {
  PlanReader plan = wrongPlan();
  EXPECT_FALSE(verifyOnce(plan, folder).ok());
  std::string marker = folder / markerOf(plan);
  std::ofstream(marker).close();
  chmod(marker.c_str(), 0622);
  EXPECT_FALSE(verifyOnce(plan, folder).ok());
  chmod(marker.c_str(), 0600);
  EXPECT_TRUE(verifyOnce(plan, folder).ok());
  chmod(folder.c_str(), 0777);
  EXPECT_FALSE(verifyOnce(plan, folder).ok());
  chmod(folder.c_str(), 0700);
  // A link, whatever it names.
  fs::rename(marker, root / "elsewhere");
  fs::create_symlink(root / "elsewhere", marker);
  EXPECT_FALSE(verifyOnce(plan, folder).ok());
  if (geteuid() != 0)
    return;
  fs::remove(marker);
  std::ofstream(marker).close();
  ASSERT_EQ(chown(marker.c_str(), 12345, 12345), 0);
  EXPECT_FALSE(verifyOnce(plan, folder).ok());
}

TEST_F(VerifyOnce, NeedsNoFolder) {
  std::ofstream(root / "file").close();
  for (std::string useless : {std::string(), (root / "file/below").string(),
                              std::string("/proc/none/dynatrain")}) {
    EXPECT_TRUE(verifyOnce(reshapePlan().reader(), useless).ok());
    EXPECT_FALSE(verifyOnce(wrongPlan(), useless).ok());
  }
}

TEST_F(VerifyOnce, ForgetsManyAtOnce) {
  PlanReader plan = reshapePlan().reader();
  fs::create_directories(folder);
  chmod(folder.c_str(), 0700);
  for (size_t i = 0; i < kMostVerified + 5; ++i)
    std::ofstream(folder / ("old" + std::to_string(i))).close();
  EXPECT_TRUE(verifyOnce(plan, folder).ok());
  EXPECT_EQ(files(), std::vector<std::string>{markerOf(plan)});
}

// Processes that come together: all get the answer, and nothing is left but the
// marker. One that dies holds up nobody.
TEST_F(VerifyOnce, ProcessesWaitForTheFirst) {
  PlanReader plan = reshapePlan().reader(), wrong = wrongPlan();
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    pid_t child = fork();
    if (child == 0)
      _exit(verifyOnce(plan, folder).ok() && !verifyOnce(wrong, folder).ok()
                ? 0
                : 1);
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(files(), std::vector<std::string>{markerOf(plan)});
  // Left by a process that was killed.
  fs::remove(folder / markerOf(plan));
  std::ofstream(folder / (markerOf(plan) + ".lock")).close();
  EXPECT_TRUE(verifyOnce(plan, folder).ok());
  EXPECT_EQ(files(), std::vector<std::string>{markerOf(plan)});
}

// One that finds no marker, and gets the lock when there is one.
TEST_F(VerifyOnce, WhoWaitedLeavesNoLock) {
  PlanReader plan = reshapePlan().reader();
  fs::create_directories(folder);
  chmod(folder.c_str(), 0700);
  fs::path lock = folder / (markerOf(plan) + ".lock");
  int held = open(lock.c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  pid_t child = fork();
  if (child == 0) {
    close(held);
    _exit(verifyOnce(plan, folder).ok() ? 0 : 1);
  }
  fs::path descriptors = "/proc/" + std::to_string(child) + "/fd";
  auto hasOpened = [&] {
    std::error_code gone;
    for (fs::directory_iterator at(descriptors, gone), end; !gone && at != end;
         at.increment(gone))
      if (fs::read_symlink(*at, gone) == lock)
        return true;
    return false;
  };
  while (!hasOpened() && waitpid(child, nullptr, WNOHANG) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  close(open((folder / markerOf(plan)).c_str(), O_WRONLY | O_CREAT, 0600));
  close(held);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(files(), std::vector<std::string>{markerOf(plan)});
}

TEST_F(VerifyOnce, FolderFollowsTheEnvironment) {
  auto saved = [](const char *name) {
    const char *value = getenv(name);
    return value ? std::string(value) : "";
  };
  std::string cache = saved("XDG_CACHE_HOME"), home = saved("HOME");
  setenv("XDG_CACHE_HOME", "/there", 1);
  EXPECT_EQ(verifiedFolder(), "/there/dynatrain/verified");
  setenv("XDG_CACHE_HOME", "relative", 1); // which is to be ignored
  setenv("HOME", "/home/somebody", 1);
  EXPECT_EQ(verifiedFolder(), "/home/somebody/.cache/dynatrain/verified");
  unsetenv("HOME");
  EXPECT_EQ(verifiedFolder(), "");
  setenv("HOME", home.c_str(), 1);
  cache.empty() ? unsetenv("XDG_CACHE_HOME")
                : setenv("XDG_CACHE_HOME", cache.c_str(), 1);
}
