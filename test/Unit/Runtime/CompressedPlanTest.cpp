//===- CompressedPlanTest.cpp - Programs that are stored as frames --------===//
//
// A program reads the same however it is stored. Frames that lie, are damaged
// or come to more than their size allows give one clear error each, before they
// take memory.
//
//===----------------------------------------------------------------------===//

#include "ExpectContains.h"
#include "PlanBuilder.h"
#include "PlanBytes.h"

#include "SectionFrame.h"

#include "dtrt/format/Features.h"
#include "dtrt/format/PlanWriter.h"
#include "dtrt/verify/Verifier.h"

#include <gtest/gtest.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

constexpr FeatureSet kCompressed = bitOf(Feature::CompressedPrograms);

std::string compressedPlan() {
  auto bytes = withCompressedPrograms(reshapePlan().bytes());
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  return *bytes;
}

/// What reading a plan gives whose program of device 0 is stored so.
std::string readStored(const std::string &section) {
  auto plan = PlanSections::split(compressedPlan());
  plan->programs[0] = {0, section, false};
  return readAll(plan->join());
}

/// The program of device 0 as it is, and as a frame.
std::string plainSection() {
  return PlanSections::split(compressedPlan())->programs[0].bytes;
}
std::string frameSection() { return compressSection(plainSection()); }

/// Ascending numbers of this many bytes, the least first.
std::string number(uint64_t value, unsigned bytes) {
  std::string out;
  for (unsigned i = 0; i < bytes; ++i)
    out += char(value >> (8 * i));
  return out;
}

/// A frame that says that it decompresses to `says`; of blocks of one byte
/// each, repeated 128 Ki times.
std::string bomb(uint64_t says, unsigned blocks) {
  std::string out = "\x28\xb5\x2f\xfd\xe0" + number(says, 8);
  for (unsigned i = 0; i < blocks; ++i)
    out += number((128 << 10) << 3 | 1 << 1 | (i + 1 == blocks), 3) + "x";
  return out;
}

/// A frame that holds these bytes as they are, and says how many.
std::string rawFrame(const std::string &bytes, uint64_t says) {
  return "\x28\xb5\x2f\xfd\xe0" + number(says, 8) +
         number(bytes.size() << 3 | 1, 3) + bytes;
}

/// With programs that are large enough for PlanWriter to compress them.
TestPlan largePlan() {
  TestPlan plan = reshapePlan();
  for (RankProgram &program : plan.programs)
    while (encodeSection(program)->features == featuresOf(program))
      program.instructions.push_back(program.instructions.front());
  return plan;
}

std::string written(const TestPlan &plan) {
  std::string bytes;
  PlanWriter writer = PlanWriter::toBytes(bytes);
  for (const RankProgram &program : plan.programs)
    EXPECT_TRUE(writer.addProgram(program).ok());
  EXPECT_TRUE(writer.finish(plan.common).ok());
  return bytes;
}

/// Decompressed.
uint64_t bytesOfPrograms(const std::string &plan) {
  auto sections = PlanSections::split(plan);
  uint64_t out = 0;
  for (const auto &program : sections->programs)
    out += program.bytes.size();
  return out;
}

void expectStored(const PlanReader &reader, uint64_t bytes,
                  FeatureSet features) {
  auto stored = reader.storedPrograms();
  ASSERT_TRUE(stored.ok()) << stored.status().message();
  EXPECT_EQ(stored->bytes, bytes);
  EXPECT_EQ(stored->features, features);
}

} // namespace

TEST(CompressedPlan, ReadsAsAnyOther) {
  std::string plain = reshapePlan().bytes(), bytes = compressedPlan();
  EXPECT_LT(bytes.size(), plain.size());
  auto reader = PlanReader::fromBytes(bytes);
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_TRUE(reader->checkSections().ok());
  EXPECT_EQ(verifyPlan(*reader).message(), "");
  expectStored(*reader, bytesOfPrograms(bytes), kCompressed);
  auto plan = TestPlan::from(*reader);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->bytes(), plain);
}

TEST(CompressedPlan, LargeProgramsAreCompressed) {
  TestPlan plan = largePlan();
  std::string bytes = written(plan);
  EXPECT_EQ(bytes, written(plan)) << "the same bytes each time";
  auto reader = PlanReader::fromBytes(bytes);
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_TRUE(reader->common().features & kCompressed);
  auto sections = PlanSections::split(bytes);
  for (const PlanSections::Program &program : sections->programs) {
    EXPECT_TRUE(program.isCompressed);
    EXPECT_GE(program.bytes.size(), kLeastCompressed);
  }
  EXPECT_EQ(readAll(bytes), readAll(plan.bytes()));
}

TEST(CompressedPlan, SmallProgramsAreNot) {
  auto reader = PlanReader::fromBytes(written(reshapePlan()));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_FALSE(reader->common().features & kCompressed);
  expectStored(*reader, bytesOfPrograms(written(reshapePlan())), 0);
}

// A reader that knows no frames finds the feature's name in it.
TEST(CompressedPlan, TheCommonSectionIsNot) {
  TestPlan plan = largePlan();
  plan.common.sourceLayout = std::string(2 * kLeastCompressed, 'x');
  auto sections = PlanSections::split(written(plan));
  EXPECT_GT(sections->common.size(), 2 * kLeastCompressed);
  auto *data = reinterpret_cast<const uint8_t *>(sections->common.data());
  EXPECT_FALSE(isFrame(data, sections->common.size()));
}

TEST(CompressedPlan, StatesThatItIs) {
  auto plan = PlanSections::split(reshapePlan().bytes());
  for (PlanSections::Program &program : plan->programs)
    program.isCompressed = true;
  EXPECT_EQ(readAll(plan->join()),
            "program of device 0 is compressed, which the plan does not state");
  auto stated = PlanSections::split(compressedPlan());
  for (PlanSections::Program &program : stated->programs)
    program.isCompressed = false;
  auto reader = PlanReader::fromBytes(stated->join());
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  expectContains(verifyPlan(*reader).message(),
                 "plan does not need feature 'compressed-programs' (bit ");
}

TEST(CompressedSection, IsNoSmallerThanASixteenth) {
  std::string zeros(1 << 20, '\0');
  std::string stored = compressSection(zeros);
  EXPECT_EQ(stored.size(), zeros.size() / 16);
  SectionBytes bytes;
  bytes.data = reinterpret_cast<const uint8_t *>(stored.data());
  bytes.size = stored.size();
  auto whole = decompressSection(bytes);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_EQ(
      std::string(reinterpret_cast<const char *>(whole->data), whole->size),
      zeros);
}

TEST(CompressedSection, IsLeftWhereItDoesNotGain) {
  EXPECT_EQ(compressSection("12345678"), "");
  EXPECT_EQ(compressSection(""), "");
}

TEST(HostileFrame, SaysMoreThanItsSizeAllows) {
  // 64 TiB in 40 bytes.
  EXPECT_EQ(readStored(bomb(uint64_t(1) << 46, 6)),
            "program of device 0: a section of 40 bytes says that it "
            "decompresses to 70368744177664 bytes, limit 640");
  // True, and refused.
  EXPECT_EQ(readStored(bomb(1000 * (128 << 10), 1000)),
            "program of device 0: a section of 4016 bytes says that it "
            "decompresses to 131072000 bytes, limit 64256");
}

// So it says at most what it may come to.
TEST(HostileFrame, IsCountedByItsSize) {
  auto plan = PlanSections::split(compressedPlan());
  uint64_t others =
      bytesOfPrograms(plan->join()) - plan->programs[0].bytes.size();
  plan->programs[0] = {0, bomb(uint64_t(1) << 46, 6), false};
  auto reader = PlanReader::fromBytes(plan->join());
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  expectStored(*reader, others + 16 * 40, kCompressed);
}

TEST(HostileFrame, SaysAnotherSize) {
  std::string program = plainSection();
  EXPECT_EQ(readStored(rawFrame(program, program.size())), "");
  for (uint64_t says : {program.size() - 1, program.size() + 1, uint64_t(0)})
    expectContains(readStored(rawFrame(program, says)),
                   "program of device 0: its zstd frame is damaged: ");
  // More than it has blocks for, which zeros behind it allow.
  std::string less = bomb(2 * (128 << 10), 1);
  less.resize(2 * (128 << 10) / 16);
  expectContains(readStored(less),
                 "program of device 0: its zstd frame is damaged: ");
  std::string more = bomb(128 << 10, 3);
  more.resize((128 << 10) / 16);
  expectContains(readStored(more),
                 "program of device 0: its zstd frame is damaged: ");
}

TEST(HostileFrame, SaysNoSize) {
  // One segment is left out, and with it the size; then the window is named.
  std::string frame = std::string("\x28\xb5\x2f\xfd\x00\x58", 6) +
                      number(8 << 3 | 1, 3) + "12345678";
  EXPECT_EQ(readStored(frame), "program of device 0: its zstd frame does not "
                               "say what it decompresses to");
}

TEST(HostileFrame, IsCut) {
  std::string frame = frameSection();
  for (size_t size = 4; size + 16 < frame.size(); size += 7)
    expectContains(readStored(frame.substr(0, size)), "program of device 0: ");
  expectContains(readStored(frame.substr(0, frame.size() / 2 / 8 * 8)),
                 "program of device 0: its zstd frame is not whole: ");
}

TEST(HostileFrame, HasMoreBehindIt) {
  std::string frame = frameSection();
  EXPECT_EQ(readStored(frame + std::string(64, '\0')), "");
  std::string garbage = frame + std::string(64, '\0');
  garbage[frame.size() + 40] = 1;
  expectContains(readStored(garbage), " behind its zstd frame of ");
  // A second frame, and one that decoders skip.
  expectContains(readStored(frame + frame), " behind its zstd frame of ");
  expectContains(readStored(frame + "\x50\x2a\x4d\x18" + number(0, 4)),
                 " behind its zstd frame of ");
}

TEST(HostileFrame, IsDamaged) {
  std::string frame = frameSection();
  for (size_t at = 4; at < frame.size(); ++at) {
    std::string flipped = frame;
    flipped[at] ^= 0x10;
    readStored(flipped); // ends, with an error or without
  }
  std::string ones = frame;
  std::fill(ones.begin() + 16, ones.end(), '\xff');
  expectContains(readStored(ones), "program of device 0: ");
}

TEST(HostileFrame, HoldsAFrame) {
  std::string inner = frameSection();
  EXPECT_EQ(readStored(rawFrame(inner, inner.size())),
            "program of device 0: program section is not a valid FlatBuffers "
            "buffer");
}
