//===- PlanModel.cpp - Names and sizes of the plan model ------------------===//

#include "dtrt/PlanModel.h"

namespace dtrt {

namespace {
struct DTypeRow {
  int64_t width;
  const char *name;
};
/// In the order of DType.
constexpr DTypeRow kDTypes[] = {
    {8, "f64"},         {4, "f32"},     {2, "f16"},     {2, "bf16"},
    {1, "f8_e4m3"},     {1, "f8_e5m2"}, {1, "f8_e8m0"}, {1, "f8_e4m3fnuz"},
    {1, "f8_e5m2fnuz"}, {8, "i64"},     {4, "i32"},     {2, "i16"},
    {1, "i8"},          {8, "u64"},     {4, "u32"},     {2, "u16"},
    {1, "u8"},          {1, "bool"},
};
static_assert(sizeof(kDTypes) / sizeof(kDTypes[0]) == size_t(DType::Bool) + 1);

constexpr const char *kOpcodeNames[] = {
#define DTRT_OPCODE_NAME(Name, Text, Doc) Text,
    DTRT_OPCODES(DTRT_OPCODE_NAME)
#undef DTRT_OPCODE_NAME
};
} // namespace

int64_t byteWidth(DType type) { return kDTypes[size_t(type)].width; }

static bool isPlainFloat(DType type) {
  return type == DType::F64 || type == DType::F32 || type == DType::F16 ||
         type == DType::BF16;
}

bool canConvert(DType from, DType to) {
  return from == to || (isPlainFloat(from) && isPlainFloat(to));
}

DType wireDType(const StateInfo &state) {
  return byteWidth(state.sourceDType) < byteWidth(state.destinationDType)
             ? state.sourceDType
             : state.destinationDType;
}

const char *dtypeName(DType type) { return kDTypes[size_t(type)].name; }

const char *opcodeName(Opcode op) { return kOpcodeNames[size_t(op)]; }

int64_t Family::numMembers() const {
  int64_t members = 1;
  for (const LeadingDim &dim : leading)
    members *= dim.count;
  return members;
}

std::string Family::tensorName(const std::vector<int64_t> &member) const {
  std::string text;
  size_t from = 0;
  for (size_t dim = 0; dim < leading.size(); ++dim) {
    size_t hole = name.find("{}", from);
    if (hole == std::string::npos || dim >= member.size())
      break;
    text.append(name, from, hole - from);
    text +=
        std::to_string(leading[dim].first + leading[dim].step * member[dim]);
    from = hole + 2;
  }
  return text.append(name, from, std::string::npos);
}

double ClusterInfo::GBps(uint32_t source, uint32_t target) const {
  auto fits = [&](bool isNode, int64_t index, uint32_t device) {
    return uint64_t(index) == (isNode ? node(device) : device);
  };
  for (size_t i = links.size(); i-- > 0;)
    if (fits(links[i].fromNode, links[i].from, source) &&
        fits(links[i].toNode, links[i].to, target))
      return links[i].GBps;
  return node(source) == node(target) ? intraNodeGBps : interNodeGBps;
}

} // namespace dtrt
