//===- PlanModel.cpp - Names and sizes of the plan model ------------------===//

#include "dtrt/format/PlanModel.h"

namespace dtrt {

namespace {
constexpr const char *kOpcodeNames[] = {
#define DTRT_OPCODE_NAME(Name, Text, Doc) Text,
    DTRT_OPCODES(DTRT_OPCODE_NAME)
#undef DTRT_OPCODE_NAME
};
} // namespace

const char *opcodeName(Opcode op) { return kOpcodeNames[size_t(op)]; }

int64_t Family::numMembers() const {
  int64_t members = 1;
  for (const LeadingDim &dim : leading)
    members *= dim.count;
  return members;
}

/// A name with a number for each "{}".
static std::string withNumbers(const std::string &name,
                               const std::vector<LeadingDim> &leading,
                               const DimVector &member) {
  std::string text;
  size_t from = 0;
  for (size_t dim = 0; dim < leading.size(); ++dim) {
    size_t hole = name.find("{}", from);
    if (hole == std::string::npos || dim >= member.size())
      break;
    text.append(name, from, hole - from);
    text += std::to_string(leading[dim].number(member[dim]));
    from = hole + 2;
  }
  return text.append(name, from, std::string::npos);
}

std::string Family::tensorName(const DimVector &member) const {
  return withNumbers(name, leading, member);
}

std::string NamedView::tensorName(const DimVector &member) const {
  return withNumbers(name, leading, member);
}

} // namespace dtrt
