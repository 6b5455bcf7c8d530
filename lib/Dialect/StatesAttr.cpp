//===- StatesAttr.cpp - The states of a param and their dtypes ------------===//

#include "dt/Dialect/Dialect.h"
#include "dt/Geometry/Limits.h"
#include "dt/Geometry/Names.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using EmitError = llvm::function_ref<InFlightDiagnostic()>;

namespace dt {

int StatesAttr::indexOf(llvm::StringRef name) const {
  for (auto [index, entry] : llvm::enumerate(getEntries()))
    if (entry.name == name)
      return index;
  return -1;
}

uint64_t StatesAttr::mask(ArrayAttr names) const {
  size_t count = getEntries().size();
  if (!names)
    return count == kMaxStates ? ~uint64_t(0) : (uint64_t(1) << count) - 1;
  uint64_t result = 0;
  for (auto name : names.getAsRange<StringAttr>())
    if (int index = indexOf(name.getValue()); index >= 0)
      result |= uint64_t(1) << index;
  return result;
}

DType StatesAttr::readDType(unsigned state) const {
  const StateEntry &entry = getEntries()[state];
  if (entry.source)
    return *entry.source;
  return *getEntries()[indexOf(entry.from)].source;
}

/// Sums over the states of a mask the width of `dtypeOf(state)`, if any.
template <typename Fn>
static int64_t sumWidths(StatesAttr states, uint64_t mask, Fn dtypeOf) {
  int64_t bytes = 0;
  for (unsigned state = 0; state < states.getEntries().size(); ++state)
    if (std::optional<DType> dtype = dtypeOf(state); dtype && mask >> state & 1)
      bytes += byteWidth(*dtype);
  return bytes;
}

int64_t StatesAttr::sourceBytes(uint64_t mask) const {
  return sumWidths(*this, mask,
                   [&](unsigned state) { return getEntries()[state].source; });
}

int64_t StatesAttr::destinationBytes(uint64_t mask) const {
  return sumWidths(*this, mask, [&](unsigned state) {
    return getEntries()[state].destination;
  });
}

int64_t StatesAttr::wireBytes(uint64_t mask) const {
  return sumWidths(*this, mask, [&](unsigned state) -> std::optional<DType> {
    std::optional<DType> destination = getEntries()[state].destination;
    if (!destination)
      return std::nullopt;
    return wireDType(readDType(state), *destination);
  });
}

/// What is wrong with one state by itself and its `from`; empty: nothing.
static std::string problemOf(const StateEntry &entry,
                             llvm::ArrayRef<StateEntry> entries) {
  if (!entry.source && !entry.destination)
    return "exists on neither side";
  if (!entry.source && !entry.from)
    return "is not in the source and made from no other state";
  std::optional<DType> read = entry.source;
  if (entry.from) {
    const auto *found = llvm::find_if(
        entries, [&](const StateEntry &e) { return e.name == entry.from; });
    if (found == entries.end() || found == &entry || !found->source)
      return "is made from '" + entry.from.str() +
             "', which is not another state of the source";
    if (entry.destination && !canConvert(*found->source, *entry.destination))
      return std::string("cannot be made from ") + dtypeName(*found->source);
    if (entry.source && entry.destination && found->destination &&
        !roundAlike(*found->source, *found->destination, *entry.source,
                    *entry.destination))
      return "may be made from '" + entry.from.str() +
             "', but is rounded differently when it is sent";
    if (!read)
      read = found->source;
  }
  if (entry.destination && !canConvert(*read, *entry.destination))
    return std::string("cannot change from ") + dtypeName(*read) + " to " +
           dtypeName(*entry.destination);
  return "";
}

LogicalResult StatesAttr::verify(EmitError emitError,
                                 llvm::ArrayRef<StateEntry> entries) {
  if (entries.empty() || entries.size() > kMaxStates)
    return emitError() << "expected 1 to " << kMaxStates << " states, found "
                       << entries.size();
  for (const StateEntry &entry : entries)
    if (std::string problem = problemOfName(entry.name.getValue());
        !problem.empty())
      return emitError() << "has a state whose name " << problem;
  llvm::SmallPtrSet<const void *, 8> seen;
  for (const StateEntry &entry : entries)
    if (!seen.insert(entry.name.getAsOpaquePointer()).second)
      return emitError() << "state " << entry.name << " appears twice";
  for (const StateEntry &entry : entries)
    if (std::string problem = problemOf(entry, entries); !problem.empty())
      return emitError() << "state " << entry.name << " " << problem;
  return success();
}

/// A dtype, or `none`.
static ParseResult parseSideDType(AsmParser &parser,
                                  std::optional<DType> &dtype) {
  llvm::StringRef spelling;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&spelling))
    return failure();
  dtype = std::nullopt;
  if (spelling == "none")
    return success();
  dtype = parseDType({spelling.data(), spelling.size()});
  if (dtype)
    return success();
  return parser.emitError(loc)
         << "unknown dtype '" << spelling << "', expected one such as bf16";
}

static ParseResult parseState(AsmParser &parser, StateEntry &entry) {
  std::string name, from;
  if (parser.parseKeywordOrString(&name) || parser.parseEqual() ||
      parseSideDType(parser, entry.source))
    return failure();
  entry.name = StringAttr::get(parser.getContext(), name);
  entry.destination = entry.source;
  if (succeeded(parser.parseOptionalArrow()) &&
      parseSideDType(parser, entry.destination))
    return failure();
  if (failed(parser.parseOptionalKeyword("from")))
    return success();
  if (parser.parseKeywordOrString(&from))
    return failure();
  entry.from = StringAttr::get(parser.getContext(), from);
  return success();
}

Attribute StatesAttr::parse(AsmParser &parser, Type) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  SmallVector<StateEntry> entries;
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, [&] {
        return parseState(parser, entries.emplace_back());
      }))
    return {};
  return parser.getChecked<StatesAttr>(loc, parser.getContext(),
                                       ArrayRef<StateEntry>(entries));
}

void StatesAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(getEntries(), printer, [&](const StateEntry &entry) {
    auto text = [](std::optional<DType> dtype) {
      return dtype ? dtypeName(*dtype) : "none";
    };
    printer.printKeywordOrString(entry.name);
    printer << " = " << text(entry.source);
    if (entry.source != entry.destination)
      printer << " -> " << text(entry.destination);
    if (entry.from) {
      printer << " from ";
      printer.printKeywordOrString(entry.from);
    }
  });
  printer << ">";
}

} // namespace dt
