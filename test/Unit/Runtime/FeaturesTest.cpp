//===- FeaturesTest.cpp - A plan says what its readers must know ----------===//

#include "ExpectContains.h"
#include "PlanBuilder.h"
#include "PlanBytes.h"

#include "dtrt/format/Features.h"
#include "dtrt/format/PlanWriter.h"
#include "dtrt/verify/Verifier.h"

#include <gtest/gtest.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

using Names = std::vector<std::string>;

TestPlan planByTensor() {
  TestPlan plan = reshapePlan(MemoryMode::Flat);
  plan.common.summary.granularity = Granularity::Tensor;
  return plan;
}

FeatureSet neededBy(const TestPlan &plan) {
  return test::featuresOf(plan.common, plan.programs);
}

/// What reading and verifying a plan says that states these features.
std::string verdictOf(const TestPlan &plan, FeatureSet stated) {
  auto bytes = encodePlan(plan.common, plan.programs, stated);
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  auto reader = PlanReader::fromBytes(*bytes);
  if (!reader.ok())
    return reader.status().message();
  return verifyPlan(*reader).message();
}

/// What a reader says of a plan that names flat, zero-fill and element-ranges,
/// whose header states these features and this minor format.
std::string refusalOf(FeatureSet features, uint16_t minor = kFormatMinor) {
  auto sections = PlanSections::split(reshapePlan(MemoryMode::Flat).bytes());
  sections->header.features = features;
  sections->header.minor = minor;
  auto reader = PlanReader::fromBytes(sections->join());
  return reader.ok() ? "" : reader.status().message();
}

constexpr FeatureSet kTwo = bitOf(Feature::Flat) | bitOf(Feature::ZeroFill);
constexpr FeatureSet kUnknown = kTwo | FeatureSet(1) << 40;

} // namespace

TEST(Features, AreFoundInTheContent) {
  EXPECT_EQ(featureNames(neededBy(reshapePlan(MemoryMode::Flat))),
            (Names{"flat", "zero-fill", "element-ranges"}));
  EXPECT_EQ(featureNames(neededBy(planByTensor())),
            (Names{"flat", "zero-fill", "element-ranges", "flat-by-tensor"}));
  EXPECT_EQ(featureNames(neededBy(keptSquare())), (Names{"flat", "in-place"}));
  EXPECT_EQ(featureNames(neededBy(viewedPlan())), (Names{"views"}));
  EXPECT_EQ(featureNames(neededBy(listedPlan())),
            (Names{"views", "listed-numbers"}));
  EXPECT_EQ(featureNames(neededBy(permutedPlan())),
            (Names{"views", "permuted-views"}));
  EXPECT_EQ(featureNames(neededBy(flattenedPlan())),
            (Names{"views", "permuted-views", "flattened-views"}));
  EXPECT_EQ(featureNames(neededBy(filledPlan())),
            (Names{"zero-fill", "element-ranges", "views", "fills"}));
  EXPECT_EQ(featureNames(neededBy(reshapePlan())),
            (Names{"zero-fill", "element-ranges"}));
  EXPECT_EQ(featureNames(neededBy(forwardingPlan())),
            (Names{"direct-messages", "forwards"}));
  EXPECT_EQ(featureNames(neededBy(derivedPlan())),
            (Names{"forwards", "derived-states", "dropped-states",
                   "dtype-change", "unequal-links", "shared-nics"}));
  EXPECT_EQ(featureNames(neededBy(relayPlan())), (Names{"relays"}));
  EXPECT_EQ(featureNames(neededBy(collectivePlan())), (Names{"collectives"}));
  TestPlan rails = keptSquare();
  rails.common.cluster.pxn = true;
  EXPECT_EQ(featureNames(neededBy(rails)), (Names{"flat", "in-place", "pxn"}));
  TestPlan library = keptSquare();
  library.common.cluster.launchUs = 5;
  library.common.cluster.channelsPerPeer = 2;
  EXPECT_EQ(featureNames(neededBy(library)),
            (Names{"flat", "in-place", "launches", "channels"}));
  TestPlan slow = keptSquare();
  slow.common.compression = {0.25, Compression::kDefaultBlock};
  EXPECT_EQ(featureNames(neededBy(slow)),
            (Names{"flat", "in-place", "compression"}));
}

TEST(Features, CopiesOfAWaveAreFoundInPrograms) {
  TestPlan plan = reshapePlan(MemoryMode::Flat);
  copyBeside(plan);
  EXPECT_EQ(featureNames(neededBy(plan)),
            (Names{"flat", "zero-fill", "element-ranges", "copies-beside"}));
  EXPECT_EQ(verdictOf(plan, neededBy(plan)), "");
  expectContains(
      verdictOf(plan, neededBy(plan) & ~bitOf(Feature::CopiesBeside)),
      "plan needs feature 'copies-beside'");
}

TEST(Features, AreStatedByTheWriter) {
  for (const TestPlan &plan :
       {reshapePlan(MemoryMode::Flat), planByTensor(), keptSquare(),
        forwardingPlan(), derivedPlan(), viewedPlan(), permutedPlan(),
        flattenedPlan(), filledPlan(), relayPlan()}) {
    std::string bytes;
    PlanWriter writer = PlanWriter::toBytes(bytes);
    for (const RankProgram &program : plan.programs)
      ASSERT_TRUE(writer.addProgram(program).ok());
    ASSERT_TRUE(writer.finish(plan.common).ok());
    auto reader = PlanReader::fromBytes(bytes);
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    EXPECT_EQ(reader->common().features, neededBy(plan));
  }
}

TEST(Features, NeitherUnderstatedNorOverstated) {
  for (const TestPlan &plan :
       {reshapePlan(MemoryMode::Flat), planByTensor(), keptSquare(),
        forwardingPlan(), derivedPlan(), relayPlan()}) {
    FeatureSet needed = neededBy(plan);
    EXPECT_EQ(verdictOf(plan, needed), "");
    for (FeatureSet bit = 1; bit <= bitOf(Feature::Collectives); bit <<= 1) {
      std::string name = "feature '" + featureNames(bit).front() + "' (bit ";
      std::string verdict = verdictOf(plan, needed ^ bit);
      EXPECT_EQ(verdict.find(needed & bit ? "plan needs " + name
                                          : "plan does not need " + name),
                0u)
          << verdict;
    }
  }
}

TEST(Features, UnknownOnesAreRefusedByName) {
  std::string format =
      std::to_string(kFormatMajor) + "." + std::to_string(kFormatMinor);
  std::string expected = "plan needs feature 'element-ranges' (bit 40), which "
                         "this reader does not know; it is of format " +
                         format;
  EXPECT_EQ(refusalOf(kUnknown), expected);
  // Of a newer format, too: its number alone would say less.
  EXPECT_EQ(refusalOf(kUnknown, kFormatMinor + 1), expected);
  FeatureSet known = kTwo | bitOf(Feature::ElementRanges);
  EXPECT_EQ(refusalOf(known), "");
  EXPECT_EQ(refusalOf(known, kFormatMinor + 1),
            "plan format 1." + std::to_string(kFormatMinor + 1) +
                " cannot be read; this library reads 1.0 to " + format);
}

TEST(Features, HaveTheirNames) {
  EXPECT_EQ(refusalOf(kTwo | bitOf(Feature::Forwards)),
            "plan names feature 'element-ranges' (bit 3), expected 'forwards'");
  EXPECT_EQ(refusalOf(kTwo), "plan names 3 features, expected 2");
  EXPECT_EQ(refusalOf(kTwo | bitOf(Feature::ElementRanges) |
                      bitOf(Feature::SharedNics)),
            "plan names feature '' (bit 10), expected 'shared-nics'");
}

TEST(Features, AreNotStatedBeforeFormat14) {
  EXPECT_EQ(refusalOf(kUnknown, 3),
            "plan names 3 features, expected 0"); // made up: no such file was
  TestPlan plan = reshapePlan(MemoryMode::Flat);
  auto bytes = encodePlan(plan.common, plan.programs, 0);
  ASSERT_TRUE(bytes.ok());
  headerOf(*bytes).minor = 3;
  reseal(*bytes);
  auto reader = PlanReader::fromBytes(*bytes);
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ(verifyPlan(*reader).message(), "");
}
