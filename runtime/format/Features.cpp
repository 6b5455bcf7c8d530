//===- Features.cpp - What a plan asks of its reader ----------------------===//

#include "dtrt/format/Features.h"

#include "dtrt/format/Text.h"

#include <algorithm>

namespace dtrt {

namespace {

constexpr const char *kNames[] = {
#define DTRT_FEATURE_NAME(Name, Text, Doc) Text,
    DTRT_FEATURES(DTRT_FEATURE_NAME)
#undef DTRT_FEATURE_NAME
};
constexpr unsigned kNumKnown = sizeof kNames / sizeof *kNames;
constexpr unsigned kNumBits = 8 * sizeof(FeatureSet);

bool contains(FeatureSet features, unsigned bit) { return features >> bit & 1; }

FeatureSet only(bool isNeeded, Feature feature) {
  return isNeeded ? bitOf(feature) : 0;
}

FeatureSet featuresOf(const StateInfo &state) {
  // What is made has the dtype of what it is made from until it is written.
  bool changes =
      state.inDestination && state.sourceDType != state.destinationDType;
  return only(state.derivedFrom >= 0, Feature::DerivedStates) |
         only(!state.inDestination, Feature::DroppedStates) |
         only(changes, Feature::DtypeChange);
}

FeatureSet featuresOf(const std::vector<LeadingDim> &leading) {
  bool hasList =
      std::any_of(leading.begin(), leading.end(),
                  [](const LeadingDim &dim) { return !dim.list.empty(); });
  return only(hasList, Feature::ListedNumbers);
}

FeatureSet featuresOf(const std::vector<ShardRecord> &shards) {
  bool hasRange = std::any_of(shards.begin(), shards.end(),
                              [](const ShardRecord &s) { return s.flat; });
  return only(hasRange, Feature::ElementRanges);
}

/// Of bytes read there.
FeatureSet readingOf(const Segment &segment) {
  return only(segment.side == Side::Destination, Feature::Forwards);
}

FeatureSet featuresOf(const Message &message) {
  if (!message.direct)
    return 0;
  return bitOf(Feature::DirectMessages) |
         (message.receive ? 0 : readingOf(message.segment));
}

FeatureSet featuresOf(const Instruction &instruction) {
  FeatureSet out = 0;
  switch (instruction.op) {
  case Opcode::Create:
  case Opcode::Release:
    return bitOf(Feature::Flat);
  case Opcode::Zero:
    return bitOf(Feature::ZeroFill);
  case Opcode::Copy:
    out |= only(instruction.wave >= 0, Feature::CopiesBeside);
    for (size_t i = 0; i < instruction.segments.size(); i += 2)
      out |= readingOf(instruction.segments[i]);
    return out;
  case Opcode::Pack:
    for (const Segment &segment : instruction.segments)
      out |= readingOf(segment);
    return out;
  case Opcode::Group:
    out |= only(instruction.collective.has_value(), Feature::Collectives);
    for (const Message &message : instruction.messages)
      out |= featuresOf(message);
    return out;
  case Opcode::Unpack:
    return 0;
  case Opcode::Relay:
    return bitOf(Feature::Relays);
  }
  return out;
}

std::string describe(unsigned bit, const std::string &name) {
  return "feature '" + shortened(name) + "' (bit " + std::to_string(bit) + ")";
}

} // namespace

FeatureSet featuresOf(const PlanCommon &common) {
  FeatureSet out = only(!common.cluster.links.empty(), Feature::UnequalLinks) |
                   only(common.cluster.devicesPerNic > 1, Feature::SharedNics) |
                   only(common.cluster.pxn, Feature::Pxn) |
                   only(common.cluster.relays, Feature::Relays) |
                   only(common.cluster.launchUs > 0, Feature::Launches) |
                   only(common.cluster.channelsPerPeer > 0, Feature::Channels) |
                   only(common.compression.isOn(), Feature::Compression) |
                   only(common.summary.granularity == Granularity::Tensor,
                        Feature::FlatByTensor) |
                   only(common.summary.bytesInPlace > 0, Feature::InPlace) |
                   only(common.summary.overNccl, Feature::OverNccl) |
                   only(!common.memberSets.empty(), Feature::Collectives) |
                   only(common.cluster.hasFastCalls(), Feature::FastCalls) |
                   only(!common.views.empty(), Feature::Views);
  for (const NamedView &view : common.views)
    out |= featuresOf(view.leading) |
           only(!view.order.isIdentity(), Feature::PermutedViews) |
           only(!view.parts.empty(), Feature::FlattenedViews) |
           only(!view.fill.empty(), Feature::Fills);
  for (const Family &family : common.families) {
    out |= featuresOf(family.leading) |
           only(family.partial, Feature::PartialTensors);
    for (const StateInfo &state : family.states)
      out |= featuresOf(state);
  }
  return out;
}

FeatureSet featuresOf(const RankProgram &program) {
  FeatureSet out = featuresOf(program.source) | featuresOf(program.destination);
  for (const Instruction &instruction : program.instructions)
    out |= featuresOf(instruction);
  return out;
}

std::vector<std::string> featureNames(FeatureSet features) {
  std::vector<std::string> out;
  for (unsigned bit = 0; bit < kNumKnown; ++bit)
    if (contains(features, bit))
      out.push_back(kNames[bit]);
  return out;
}

Status checkKnown(FeatureSet features, const std::vector<std::string> &names) {
  size_t next = 0;
  for (unsigned bit = 0; bit < kNumBits; ++bit) {
    if (!contains(features, bit))
      continue;
    std::string name = next < names.size() ? names[next] : "";
    ++next;
    if (bit >= kNumKnown)
      return makeError("plan needs ", describe(bit, name),
                       ", which this reader does not know; it is of format ",
                       kFormatMajor, ".", kFormatMinor);
    if (name != kNames[bit])
      return makeError("plan names ", describe(bit, name), ", expected '",
                       kNames[bit], "'");
  }
  if (next != names.size())
    return makeError("plan names ", names.size(), " features, expected ", next);
  return {};
}

Status checkStated(FeatureSet stated, FeatureSet needed) {
  for (unsigned bit = 0; bit < kNumKnown; ++bit) {
    if (contains(stated, bit) == contains(needed, bit))
      continue;
    return makeError("plan ",
                     contains(needed, bit) ? "needs " : "does not need ",
                     describe(bit, kNames[bit]), ", which it ",
                     contains(needed, bit) ? "does not state" : "states");
  }
  return {};
}

} // namespace dtrt
