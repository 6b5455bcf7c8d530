//===- PlanMutator.cpp - Changed plan files behind right checksums --------===//

#include "PlanMutator.h"

#include "Mutations.h"
#include "PlanBytes.h"

#include <algorithm>
#include <cstring>

/// Of libFuzzer: changes Data in place, returns its new size.
extern "C" size_t LLVMFuzzerMutate(uint8_t *Data, size_t Size, size_t MaxSize);

namespace dtrt::fuzz {

using namespace dtrt::test;

namespace {

size_t pick(Rng &rng, size_t count) { return rng() % count; }

/// The plan with its programs compressed, where it can be read.
std::string compressed(const std::string &plan) {
  auto out = withCompressedPrograms(plan);
  return out.ok() ? *out : plan;
}

std::string freshPlan(Rng &rng) {
  switch (rng() % 5) {
  case 0:
    return reshapePlan(MemoryMode::Flat).bytes();
  case 1:
    return forwardingPlan().bytes();
  case 2:
    return compressed(reshapePlan().bytes());
  default:
    return reshapePlan().bytes();
  }
}

const std::vector<Mutation> &mutations() {
  static const std::vector<Mutation> all = [] {
    std::vector<Mutation> out;
    for (const auto &list : {instructionMutations(), segmentMutations(),
                             messageMutations(), statementMutations()})
      out.insert(out.end(), list.begin(), list.end());
    return out;
  }();
  return all;
}

/// Changes the decoded plan, whose summary may be made true again. Compressed
/// programs stay so.
std::optional<std::string> mutateMeaning(const std::string &input, Rng &rng) {
  auto reader = PlanReader::fromBytes(input);
  if (!reader.ok())
    return std::nullopt;
  auto plan = TestPlan::from(*reader);
  if (!plan.ok())
    return std::nullopt;
  bool changed = false;
  for (int tries = 0; tries < 4 && !changed; ++tries)
    changed = mutations()[pick(rng, mutations().size())].apply(*plan, rng);
  auto bytes = plan->encoded();
  if (!bytes.ok())
    return std::nullopt;
  bool wasCompressed =
      reader->common().features & bitOf(Feature::CompressedPrograms);
  return wasCompressed ? compressed(*bytes) : *bytes;
}

/// Numbers at which something may overflow, end or change its meaning.
uint64_t edgeNumber(Rng &rng) {
  static const uint64_t doubles[] = {0x7ff8000000000000, 0x7ff0000000000000,
                                     0xfff0000000000000, 0x8000000000000000,
                                     0xbff0000000000000, 0x0000000000000001,
                                     0x7fefffffffffffff};
  switch (rng() % 4) {
  case 0:
    return rng() % 16;
  case 1:
    return (uint64_t(1) << rng() % 64) - rng() % 3;
  case 2:
    return ~uint64_t(0) - rng() % 16;
  default:
    return doubles[pick(rng, std::size(doubles))];
  }
}

/// Changes one number, where the sections keep theirs, of 1, 4 or 8 bytes.
void mutateNumber(std::string &section, Rng &rng) {
  static const size_t widths[] = {8, 8, 4, 4, 1};
  size_t width = widths[pick(rng, std::size(widths))];
  if (section.size() < width)
    return;
  char *at = &section[pick(rng, section.size() / width) * width];
  uint64_t number = 0;
  memcpy(&number, at, width);
  switch (rng() % 4) {
  case 0:
    number += rng() % 9 - 4;
    break;
  case 1: {
    const char *other = &section[pick(rng, section.size() / width) * width];
    memcpy(&number, other, width);
    break;
  }
  default:
    number = edgeNumber(rng);
  }
  memcpy(at, &number, width);
}

void mutateBytes(std::string &section, size_t limit) {
  size_t size = section.size();
  section.resize(std::max(size, limit));
  section.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(section.data()),
                                  size, section.size()));
}

std::string *anySection(PlanSections &plan, Rng &rng) {
  size_t which = pick(rng, plan.programs.size() + 2);
  return which < plan.programs.size() ? &plan.programs[which].bytes
                                      : &plan.common;
}

std::optional<std::string> mutateSections(const std::string &input,
                                          size_t limit, Rng &rng) {
  auto plan = PlanSections::split(input);
  if (!plan)
    return std::nullopt;
  std::string &section = *anySection(*plan, rng);
  if (rng() % 4 == 0)
    mutateBytes(section, std::min(limit, section.size() + 64));
  else
    for (size_t count = 1 + pick(rng, 3); count-- > 0;)
      mutateNumber(section, rng);
  return plan->join();
}

/// Changes a section as it is stored: a frame, say.
std::optional<std::string> mutateStored(const std::string &input, Rng &rng) {
  auto plan = PlanSections::split(input);
  std::string out = input;
  if (!plan ||
      headerOf(out).tableOffset !=
          out.size() - headerOf(out).sectionCount * sizeof(SectionEntry))
    return std::nullopt;
  const SectionEntry &entry =
      tableOf(out)[pick(rng, headerOf(out).sectionCount)];
  std::string section = out.substr(entry.offset, entry.size);
  for (size_t count = 1 + pick(rng, 3); count-- > 0;)
    mutateNumber(section, rng);
  out.replace(entry.offset, entry.size, section);
  reseal(out);
  return out;
}

/// Programs are compressed, or no longer.
std::optional<std::string> mutateStorage(const std::string &input, Rng &rng) {
  auto plan = PlanSections::split(input);
  if (!plan || plan->programs.empty())
    return std::nullopt;
  auto &program = plan->programs[pick(rng, plan->programs.size())];
  if (!program.isCompressed)
    return compressed(input);
  program.isCompressed = false;
  return plan->join();
}

/// Programs come, go and change their devices.
std::optional<std::string> mutateTable(const std::string &input, Rng &rng) {
  auto plan = PlanSections::split(input);
  if (!plan || plan->programs.empty())
    return std::nullopt;
  auto &programs = plan->programs;
  size_t at = pick(rng, programs.size());
  switch (rng() % 4) {
  case 0:
    programs.erase(programs.begin() + at);
    break;
  case 1: {
    auto copy = programs[at];
    copy.device = programs.back().device + 1 + uint32_t(rng() % 2);
    programs.push_back(std::move(copy));
    break;
  }
  case 2:
    programs[at].device = uint32_t(edgeNumber(rng));
    break;
  default:
    std::swap(programs[at].bytes, programs[pick(rng, programs.size())].bytes);
  }
  return plan->join();
}

} // namespace

std::string mutatePlan(const std::string &input, size_t limit, uint32_t seed) {
  Rng rng(seed);
  std::optional<std::string> out;
  size_t how = pick(rng, 16);
  if (how == 0) { // as it is, the checksums included
    out = input;
    mutateBytes(*out, limit);
    return out->substr(0, limit);
  }
  if (how < 7)
    out = mutateMeaning(input, rng);
  else if (how < 8)
    out = mutateTable(input, rng);
  else if (how < 9)
    out = mutateStored(input, rng);
  else if (how < 10)
    out = mutateStorage(input, rng);
  if (!out)
    out = mutateSections(input, limit, rng);
  if (!out)
    out = freshPlan(rng);
  return out->size() <= limit ? *out : input.substr(0, limit);
}

std::string crossPlans(const std::string &a, const std::string &b, size_t limit,
                       uint32_t seed) {
  Rng rng(seed);
  auto first = PlanSections::split(a), second = PlanSections::split(b);
  if (!first || !second)
    return a.substr(0, limit);
  if (rng() % 4 == 0)
    first->common = second->common;
  for (size_t i = 0; i < first->programs.size(); ++i)
    if (i < second->programs.size() && rng() % 2)
      first->programs[i].bytes = second->programs[i].bytes;
  std::string out = first->join();
  return out.size() <= limit ? out : a.substr(0, limit);
}

} // namespace dtrt::fuzz
