//===- Features.h - What a plan asks of its reader --------------*- C++ -*-===//
//
// A plan states what its readers must be able to do: one bit per feature in
// the header, and in the common section the name of each, so that a reader
// which does not know a bit can say what it is. The writer finds the features
// in the content, and the verifier finds them again.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_FORMAT_FEATURES_H
#define DTRT_FORMAT_FEATURES_H

#include "dtrt/format/PlanModel.h"
#include "dtrt/types/Status.h"

namespace dtrt {

/// Bits, names and meanings. A bit keeps its meaning for ever: new ones go to
/// the end.
#define DTRT_FEATURES(X)                                                       \
  X(Flat, "flat", "programs create and release storage")                       \
  X(ZeroFill, "zero-fill", "programs write padding")                           \
  X(DirectMessages, "direct-messages", "messages without staging")             \
  X(Forwards, "forwards", "programs read what they received")                  \
  X(ElementRanges, "element-ranges", "shards of a range of elements")          \
  X(DerivedStates, "derived-states", "states made from another one")           \
  X(DroppedStates, "dropped-states", "states that the destination lacks")      \
  X(DtypeChange, "dtype-change", "states whose dtype changes")                 \
  X(PartialTensors, "partial-tensors", "tensors that layouts hold in part")    \
  X(UnequalLinks, "unequal-links", "bandwidths of single links")               \
  X(SharedNics, "shared-nics", "devices that share a NIC")                     \
  X(FlatByTensor, "flat-by-tensor", "storages come and go whole")              \
  X(InPlace, "in-place", "storage of both sides that stays")                   \
  X(Views, "views", "tensors of one side that are views")                      \
  X(Pxn, "pxn", "messages leave by the NIC of their receiver's place")         \
  X(Launches, "launches", "waves that cost a launch")                          \
  X(Channels, "channels", "pairs whose channels do not fill their ports")      \
  X(Compression, "compression", "slow links whose messages are compressed")    \
  X(CopiesBeside, "copies-beside", "copies that run beside a group")           \
  X(Relays, "relays", "messages may go over a third device")                   \
  X(Collectives, "collectives", "waves with a library's collectives")          \
  X(PermutedViews, "permuted-views", "views with dims in another order")       \
  X(FlattenedViews, "flattened-views", "views with several dims in one")       \
  X(Fills, "fills", "views whose padding is not zeros")                        \
  X(CompressedPrograms, "compressed-programs", "programs as zstd frames")      \
  X(ListedNumbers, "listed-numbers", "families of numbers without one step")   \
  X(FastCalls, "fast-calls", "library calls that take less than a ring")       \
  X(OverNccl, "over-nccl", "peaks that count what GPUs and NCCL have")

enum class Feature : uint8_t {
#define DTRT_FEATURE_ENUM(Name, Text, Doc) Name,
  DTRT_FEATURES(DTRT_FEATURE_ENUM)
#undef DTRT_FEATURE_ENUM
};

/// The first minor format whose files state their features.
constexpr uint16_t kFeaturesSinceMinor = 4;

constexpr FeatureSet bitOf(Feature feature) {
  return FeatureSet(1) << uint8_t(feature);
}

/// What the states, tensors and links of a plan need.
FeatureSet featuresOf(const PlanCommon &common);
/// What a program needs besides.
FeatureSet featuresOf(const RankProgram &program);

/// In the order of their bits; bits that this library does not know are left
/// out.
std::vector<std::string> featureNames(FeatureSet features);

/// Fails, with the name and bit of the first, where a plan needs features that
/// this library does not know, or names one otherwise. `names` are those of the
/// bits set, in their order.
Status checkKnown(FeatureSet features, const std::vector<std::string> &names);

/// Fails on the first feature that is stated and not needed, or the other way.
Status checkStated(FeatureSet stated, FeatureSet needed);

} // namespace dtrt

#endif // DTRT_FORMAT_FEATURES_H
