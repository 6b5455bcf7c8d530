//===- PlanFileTest.cpp - Round trips and damaged files -------------------===//
//
// What is written is read back equal; whatever else is in a file gives one
// clear error and never a crash.
//
//===----------------------------------------------------------------------===//

#include "ExpectContains.h"
#include "FirstOf.h"
#include "PlanBuilder.h"
#include "PlanBytes.h"

#include "dtrt/format/Features.h"
#include "dtrt/format/PlanWriter.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// A path that no other process uses.
std::string pathOf(const char *name) {
  return testing::TempDir() + name + "-" + std::to_string(getpid());
}

std::string tamper(const std::function<void(std::string &)> &change) {
  std::string bytes = reshapePlan().bytes();
  change(bytes);
  return readAll(bytes);
}

/// The error of a plan whose structs are wrong but whose file is sound.
std::string misuse(const std::function<void(TestPlan &)> &change) {
  TestPlan plan = reshapePlan();
  change(plan);
  return readAll(plan.bytes());
}

} // namespace

TEST(PlanFile, ReadsBackWhatWasWritten) {
  TestPlan plan = reshapePlan();
  PlanReader reader = plan.reader();
  TestPlan copy;
  copy.common = reader.common();
  ASSERT_EQ(reader.devices(), plan.devices());
  for (uint32_t device : reader.devices()) {
    auto program = reader.program(device);
    ASSERT_TRUE(program.ok()) << program.status().message();
    copy.programs.push_back(*program);
  }
  EXPECT_EQ(copy.bytes(), plan.bytes());
  EXPECT_EQ(copy.common.families[0].tensorName({3}), "layers.3.mlp.fc1.weight");
  EXPECT_EQ(copy.programs[1].destination[0].dims[1].size(), 2u);
}

TEST(PlanFile, IsDeterministic) {
  EXPECT_EQ(reshapePlan().bytes(), reshapePlan().bytes());
}

TEST(PlanFile, WritesAndReadsAFile) {
  std::string path = pathOf("dtrt-plan-file-test");
  TestPlan plan = reshapePlan();
  {
    auto writer = PlanWriter::create(path);
    ASSERT_TRUE(writer.ok());
    for (const RankProgram &program : plan.programs)
      ASSERT_TRUE(writer->addProgram(program).ok());
    EXPECT_NE(access(path.c_str(), F_OK), 0) << "half-written plan is visible";
    ASSERT_TRUE(writer->finish(plan.common).ok());
  }
  auto reader = PlanReader::open(path);
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ(reader->digest(), plan.reader().digest());
  unlink(path.c_str());
}

TEST(PlanFile, WritesToAPipeInPlace) {
  std::string path = pathOf("dtrt-plan-file-test");
  unlink(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  TestPlan plan = reshapePlan();
  std::string received;
  std::thread reader([&] {
    std::ifstream pipe(path, std::ios::binary);
    received.assign(std::istreambuf_iterator<char>(pipe), {});
  });
  auto writer = PlanWriter::create(path);
  EXPECT_TRUE(writer.ok());
  for (const RankProgram &program : plan.programs)
    EXPECT_TRUE(writer->addProgram(program).ok());
  EXPECT_TRUE(writer->finish(plan.common).ok());
  reader.join();
  EXPECT_EQ(received, plan.bytes());
  struct stat after;
  EXPECT_TRUE(stat(path.c_str(), &after) == 0 && S_ISFIFO(after.st_mode));
  unlink(path.c_str());
}

TEST(PlanFile, LeavesNothingWhenNotFinished) {
  std::string path = pathOf("dtrt-unfinished");
  {
    auto writer = PlanWriter::create(path);
    ASSERT_TRUE(writer.ok());
  }
  for (const auto &entry :
       std::filesystem::directory_iterator(testing::TempDir()))
    EXPECT_EQ(entry.path().string().find(path), std::string::npos)
        << entry.path();
}

TEST(PlanFile, IsNotWrittenWhereNoReaderWouldTakeIt) {
  std::string path = pathOf("dtrt-refused");
  TestPlan plan = reshapePlan();
  plan.common.families[0].name += "{}";
  auto writer = PlanWriter::create(path);
  ASSERT_TRUE(writer.ok());
  for (const RankProgram &program : plan.programs)
    EXPECT_TRUE(writer->addProgram(program).ok());
  Status status = writer->finish(plan.common);
  expectContains(status.message(), "name has 2 '{}' for 1 leading dims");
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

/// A plan's bytes with a first section of many bytes.
static std::string enlarged(uint64_t bytes) {
  auto sections = PlanSections::split(reshapePlan().bytes());
  sections->programs[0].bytes.append(bytes, '\0');
  return sections->join();
}

static void writeFile(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Small ones are in memory; sections of large ones are read when asked for.
TEST(PlanFile, CopiesSectionsOfAnother) {
  TestPlan plan = reshapePlan();
  PlanReader old = plan.reader();
  std::string bytes;
  PlanWriter writer = PlanWriter::toBytes(bytes);
  for (uint32_t device : old.devices()) {
    auto stored = old.storedProgram(device);
    ASSERT_TRUE(stored.ok()) << stored.status().message();
    Status added = writer.addProgram(
        storedSection(device, *stored, bitOf(Feature::CompressedPrograms)));
    ASSERT_TRUE(added.ok()) << added.message();
  }
  // What they need is known when they are read.
  auto look = [&](const PlanReader &written) -> Result<FeatureSet> {
    EXPECT_EQ(written.devices(), old.devices());
    EXPECT_TRUE(written.program(old.devices().front()).ok());
    return old.common().features;
  };
  Status seen = writer.preview(old.common(), look);
  ASSERT_TRUE(seen.ok()) << seen.message();
  Status finished = writer.finish(old.common());
  ASSERT_TRUE(finished.ok()) << finished.message();
  EXPECT_EQ(bytes, plan.bytes());
  expectContains(old.storedProgram(99).status().message(),
                 "device 99 has no program");
}

// What was read before it is finished is all of it.
TEST(PlanFile, IsFinishedAsItWasPreviewed) {
  TestPlan plan = reshapePlan();
  PlanReader old = plan.reader();
  const PlanCommon &common = old.common();
  std::string bytes;
  PlanWriter writer = PlanWriter::toBytes(bytes);
  auto add = [&](size_t number) {
    auto program = old.program(old.devices()[number]);
    ASSERT_TRUE(program.ok());
    ASSERT_TRUE(writer.addProgram(*program).ok());
  };
  auto preview = [&] {
    auto look = [&](const PlanReader &) { return common.features; };
    ASSERT_TRUE(writer.preview(common, look).ok());
  };
  const char *why = "has been written to since it was previewed";
  size_t last = old.devices().size() - 1;
  for (size_t number = 0; number < last; ++number)
    add(number);
  expectContains(writer.finishPreviewed(common).message(), why);
  preview();
  add(last);
  expectContains(writer.finishPreviewed(common).message(), why);
  preview();
  Status finished = writer.finishPreviewed(common);
  ASSERT_TRUE(finished.ok()) << finished.message();
  EXPECT_EQ(bytes, plan.bytes());
}

TEST(PlanFile, MayBeCutWhileItIsInUse) {
  for (uint64_t extra : {0u, 20u << 20}) {
    std::string path = pathOf("dtrt-cut");
    writeFile(path, enlarged(extra));
    auto reader = PlanReader::open(path);
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    ASSERT_TRUE(reader->checkSections().ok());
    ASSERT_TRUE(reader->program(0).ok());
    ASSERT_EQ(truncate(path.c_str(), 4096), 0);
    auto program = reader->program(0);
    Status sections = reader->checkSections();
    EXPECT_EQ(program.ok(), extra == 0);
    EXPECT_EQ(sections.ok(), extra == 0);
    if (extra > 0)
      for (const Status &status : {program.status(), sections})
        expectContains(status.message(), "program of device 0: the file ends "
                                         "at byte 4096, expected ");
    unlink(path.c_str());
  }
}

TEST(PlanFile, MayBeOverwrittenWhileItIsInUse) {
  std::string bytes = enlarged(20 << 20);
  std::string path = pathOf("dtrt-overwritten");
  writeFile(path, bytes);
  auto reader = PlanReader::open(path);
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  bytes[tableOf(bytes)[0].offset + 100] ^= 1;
  writeFile(path, bytes);
  expectContains(reader->program(0).status().message(),
                 "program of device 0 is damaged");
  expectContains(reader->checkSections().message(),
                 "program of device 0 is damaged");
  EXPECT_TRUE(reader->program(1).ok());
  unlink(path.c_str());
}

TEST(PlanFile, ReadsFromAPipe) {
  std::string path = pathOf("dtrt-read");
  unlink(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::string bytes = reshapePlan().bytes();
  std::thread writer([&] { std::ofstream(path, std::ios::binary) << bytes; });
  auto reader = PlanReader::open(path);
  writer.join();
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_TRUE(reader->program(2).ok());
  unlink(path.c_str());
}

TEST(PlanFile, WhatNeverEndsIsNoPlan) {
  auto reader = PlanReader::open("/dev/zero");
  ASSERT_FALSE(reader.ok());
  expectContains(reader.status().message(), "does not start with 'DTPLAN'");
}

TEST(PlanFile, DigestDiffersWithContent) {
  TestPlan plan = reshapePlan();
  Digest before = plan.reader().digest();
  plan.programs[2].stagingBytes += 8;
  EXPECT_NE(plan.reader().digest(), before);
}

TEST(DamagedPlan, EveryTruncationIsRefused) {
  std::string bytes = reshapePlan().bytes();
  for (size_t size = 0; size < bytes.size(); size += 97)
    EXPECT_NE(readAll(bytes.substr(0, size)), "") << size;
}

TEST(DamagedPlan, EveryBitFlipIsRefused) {
  uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::string bytes = reshapePlan().bytes();
  for (int i = 0; i < 2000; ++i) {
    std::string flipped = bytes;
    flipped[random() % bytes.size()] ^= char(1 << random() % 8);
    EXPECT_NE(readAll(flipped), "");
  }
}

TEST(DamagedPlan, ResealedBitFlipsNeverCrash) {
  uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::string bytes = reshapePlan().bytes();
  for (int i = 0; i < 5000; ++i) {
    std::string flipped = bytes;
    for (int flips = 1 + int(random() % 4); flips > 0; --flips)
      flipped[128 + random() % (bytes.size() - 128)] ^= char(1 << random() % 8);
    reseal(flipped);
    readAll(flipped);
  }
}

TEST(DamagedPlan, HeaderFieldsAreChecked) {
  expectContains(readAll(""), "expected at least 128");
  expectContains(tamper([](auto &b) { b[0] = 'X'; }), "not a plan file");
  expectContains(tamper([](auto &b) { headerOf(b).endian = 0x04030201; }),
                 "byte order");
  std::string newer = tamper([](auto &b) { headerOf(b).major = 7; });
  expectContains(newer, "plan format 7." + std::to_string(kFormatMinor));
  expectContains(newer, "to 1." + std::to_string(kFormatMinor));
  expectContains(tamper([](auto &b) { headerOf(b).minor = 9; }),
                 "plan format 1.9");
  expectContains(tamper([](auto &b) { headerOf(b).headerSize = 64; }),
                 "expected 128");
  expectContains(tamper([](auto &b) { headerOf(b).fileSize += 8; }),
                 "bytes, expected");
  expectContains(tamper([](auto &b) { b += "tail"; }), "bytes, expected");
  expectContains(tamper([](auto &b) { headerOf(b).sectionCount = 0xffffffff; }),
                 "section table");
  expectContains(tamper([](auto &b) { headerOf(b).compilerVersion[0] ^= 1; }),
                 "digest");
}

TEST(DamagedPlan, SectionTableIsChecked) {
  auto entry = [](size_t i, auto change) {
    return tamper([&](std::string &bytes) {
      change(tableOf(bytes)[i]);
      reseal(bytes);
    });
  };
  expectContains(entry(1, [](SectionEntry &e) { e.offset += 8; }),
                 "section 1 spans");
  expectContains(entry(0, [](SectionEntry &e) { e.size = ~uint64_t(7); }),
                 "section 0 spans");
  expectContains(entry(1, [](SectionEntry &e) { e.device = 0; }),
                 "comes after");
  expectContains(entry(2, [](SectionEntry &e) { e.device = 77; }), "77");
  expectContains(entry(4, [](SectionEntry &e) { e.kind = 1; }), "kind 1");
  expectContains(entry(2, [](SectionEntry &e) { e.kind = 0; }), "kind 0");
}

TEST(DamagedPlan, ChecksumNamesTheProgram) {
  expectContains(tamper([](std::string &bytes) {
                   bytes[tableOf(bytes)[2].offset + 40] ^= 1;
                 }),
                 "program of device 2 is damaged");
}

TEST(DamagedPlan, GarbageSectionsAreRefused) {
  expectContains(tamper([](std::string &bytes) {
                   SectionEntry &e = tableOf(bytes)[0];
                   memset(&bytes[e.offset], 0xff, e.size);
                   reseal(bytes);
                 }),
                 "not a valid FlatBuffers buffer");
}

TEST(HostilePlan, IndicesAreChecked) {
  expectContains(
      misuse([](TestPlan &p) { p.programs[0].source.push_back(box(99, {})); }),
      "names family 99 of 4");
  expectContains(misuse([](TestPlan &p) {
                   firstOf(p, 0, Opcode::Group).messages[0].peer = 9;
                 }),
                 "peer 9 has no program");
  expectContains(misuse([](TestPlan &p) {
                   firstOf(p, 0, Opcode::Group).messages[0].peer = 0;
                 }),
                 "the device itself");
  expectContains(misuse([](TestPlan &p) {
                   firstOf(p, 1, Opcode::Pack).segments[0].states = 64;
                 }),
                 "state mask 64");
  expectContains(misuse([](TestPlan &p) { p.programs[1].destinationRank = 3; }),
                 "destination rank 3");
}

TEST(HostilePlan, SizesAreChecked) {
  int64_t huge = int64_t(1) << 60;
  expectContains(
      misuse([&](TestPlan &p) { p.common.families[0].shape = {huge, huge}; }),
      "overflow");
  expectContains(
      misuse([&](TestPlan &p) { p.common.families[0].shape[0] = -4; }),
      "found size -4");
  expectContains(misuse([&](TestPlan &p) {
                   p.programs[0].source[0].dims[1][0] = {-3, 4};
                 }),
                 "outside");
  expectContains(misuse([&](TestPlan &p) {
                   p.programs[0].source[0].dims[2] = {{0, huge}, {3, huge}};
                 }),
                 "overlap");
  expectContains(misuse([&](TestPlan &p) {
                   p.programs[0].destination[2].range = {0, 41};
                 }),
                 "flat range [0, 41)");
  expectContains(misuse([&](TestPlan &p) {
                   firstOf(p, 0, Opcode::Pack).segments[0].size[0] = huge;
                 }),
                 "size 1152921504606846976 in dim 0");
}

TEST(HostilePlan, MadeStatesLieWithTheirOrigin) {
  auto makeSecond = [](TestPlan &plan) {
    StateInfo &second = plan.common.families[0].states[1];
    second.inSource = false;
    second.derivedFrom = 0;
    second.sourceDType = plan.common.families[0].states[0].sourceDType;
    plan.programs[0].source[0].states = 2;
  };
  expectContains(misuse(makeSecond), "which it is made from");
}

TEST(HostilePlan, StagingIsChecked) {
  expectContains(misuse([](TestPlan &p) {
                   firstOf(p, 0, Opcode::Pack).slot = ~uint64_t(0) - 4;
                 }),
                 "outside the arena");
  expectContains(
      misuse([](TestPlan &p) { firstOf(p, 0, Opcode::Pack).bytes -= 2; }),
      "bytes, expected");
  expectContains(misuse([](TestPlan &p) {
                   Instruction group = firstOf(p, 0, Opcode::Group);
                   p.programs[0].instructions.push_back(group);
                 }),
                 "wave 1 after wave 2");
}

TEST(HostilePlan, ReleaseNeedsFlatMode) {
  expectContains(misuse([](TestPlan &p) {
                   Instruction release;
                   release.op = Opcode::Release;
                   release.segments = wholeStorage(
                       p.common.families[p.programs[0].source[0].family],
                       p.programs[0].source[0], Side::Source, 0);
                   p.programs[0].instructions.push_back(release);
                 }),
                 "mode rollback");
}
