//===- LayoutOps.cpp - Text and lookups of the layout level ---------------===//

#include "Hops.h"
#include "LeadingLists.h"
#include "PieceChecks.h"
#include "RowText.h"
#include "TensorNames.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;

namespace dt {

//===----------------------------------------------------------------------===//
// Custom directives
//===----------------------------------------------------------------------===//

static ParseResult parseInts(OpAsmParser &parser,
                             SmallVector<int64_t> &values) {
  return parseIntList(parser, values);
}

static void printInts(OpAsmPrinter &printer, Operation *,
                      ArrayRef<int64_t> values) {
  printIntList(printer.getStream(), values);
}

// named "layers.{}.weight" [0 step 1, {0, 1, 3}]
static ParseResult parseNaming(OpAsmParser &parser, StringAttr &tensor,
                               SmallVector<int64_t> &first,
                               SmallVector<int64_t> &step,
                               SmallVector<int64_t> &lists) {
  if (failed(parser.parseOptionalKeyword("named")))
    return success();
  if (parser.parseAttribute(tensor, parser.getBuilder().getNoneType()))
    return failure();
  return parseNumbers(parser, first, step, lists);
}

static void printNaming(OpAsmPrinter &printer, Operation *, StringAttr tensor,
                        ArrayRef<int64_t> first, ArrayRef<int64_t> step,
                        ArrayRef<int64_t> lists) {
  if (!tensor)
    return;
  printer << " named ";
  printer.printString(tensor.getValue());
  printNumbers(printer.getStream(), first, step, lists);
}

// order 7 + [263]
static ParseResult parseOrder(OpAsmParser &parser, int64_t &order,
                              SmallVector<int64_t> &strides,
                              SmallVector<int64_t> &lists) {
  if (failed(parser.parseOptionalKeyword("order")))
    return success();
  if (parser.parseInteger(order))
    return failure();
  return parseOffsets(parser, strides, lists);
}

static void printOrder(OpAsmPrinter &printer, Operation *, int64_t order,
                       ArrayRef<int64_t> strides, ArrayRef<int64_t> lists) {
  if (order < 0)
    return;
  printer << " order " << order;
  printOffsets(printer.getStream(), strides, lists);
}

// A placement, or `shards` and rows.
static ParseResult parseHolder(OpAsmParser &parser, Attribute &how) {
  if (succeeded(parser.parseOptionalKeyword("shards")))
    how = ShardsAttr::parseBody(parser);
  else
    how = PlacementAttr::parseBody(parser);
  return success(bool(how));
}

static void printHolder(OpAsmPrinter &printer, Operation *, Attribute how) {
  if (auto placement = dyn_cast<PlacementAttr>(how)) {
    placement.printBody(printer);
    return;
  }
  printer << "shards ";
  cast<ShardsAttr>(how).printBody(printer);
}

static ParseResult parseOptionalBody(OpAsmParser &parser, Region &body) {
  OptionalParseResult parsed = parser.parseOptionalRegion(body);
  if (parsed.has_value() && failed(*parsed))
    return failure();
  if (body.empty())
    body.emplaceBlock();
  return success();
}

static void printOptionalBody(OpAsmPrinter &printer, Operation *,
                              Region &body) {
  if (body.empty() || body.front().empty())
    return;
  printer << " ";
  printer.printRegion(body);
}

//===----------------------------------------------------------------------===//
// dt.param
//===----------------------------------------------------------------------===//

void ParamOp::build(OpBuilder &, OperationState &state, StringRef name,
                    ArrayRef<int64_t> shape, StatesAttr states) {
  Properties &properties = state.getOrAddProperties<Properties>();
  properties.sym_name = StringAttr::get(state.getContext(), name);
  properties.shape.assign(shape.begin(), shape.end());
  properties.states = states;
}

int64_t ParamOp::numMembers() {
  int64_t count = 1;
  for (int64_t size : getShape().take_front(numLeading()))
    count *= size;
  return count;
}

StringRef ParamOp::nameTemplate() { return getTensor().value_or(getSymName()); }

std::string ParamOp::memberName(ArrayRef<int64_t> member) {
  return withNumbers(nameTemplate(), getLeadingFirst(), getLeadingStep(),
                     getLeadingLists(), member);
}

std::vector<Sequence> ParamOp::numbers() {
  return sequencesOf(getLeadingFirst(), getLeadingStep(), getLeadingLists());
}

std::vector<Sequence> ParamOp::orderOffsets() {
  return sequencesOf({}, getOrderStrides(), getOrderLists());
}

void ParamOp::setNumbers(ArrayRef<Sequence> numbers) {
  SmallVector<int64_t> first, step;
  for (const Sequence &sequence : numbers) {
    first.push_back(sequence.first);
    step.push_back(sequence.step);
  }
  setLeadingFirst(first);
  setLeadingStep(step);
  setLeadingLists(listsOf(numbers));
}

void ParamOp::setOrderOffsets(ArrayRef<Sequence> offsets) {
  SmallVector<int64_t> step;
  for (const Sequence &sequence : offsets)
    step.push_back(sequence.step);
  setOrderStrides(step);
  setOrderLists(listsOf(offsets));
}

LogicalResult ParamOp::forEachMember(
    llvm::function_ref<LogicalResult(ArrayRef<int64_t>)> fn) {
  SmallVector<int64_t> member(numLeading(), 0);
  while (succeeded(fn(member))) {
    size_t d = member.size();
    while (d > 0 && ++member[d - 1] == getShape()[d - 1])
      member[--d] = 0;
    if (d == 0)
      return success();
  }
  return failure();
}

//===----------------------------------------------------------------------===//
// Lookups
//===----------------------------------------------------------------------===//

// The op of a kind that a symbol of the enclosing module names, or null.
template <typename OpT>
static OpT lookup(Operation *user, FlatSymbolRefAttr name,
                  SymbolTableCollection &tables) {
  Operation *module = user->getParentOp();
  while (module && !isa<ModuleOp>(module))
    module = module->getParentOp();
  if (!module || !name)
    return {};
  return dyn_cast_or_null<OpT>(tables.lookupSymbolIn(module, name.getAttr()));
}

SpaceOp LayoutOp::lookupSpace(SymbolTableCollection &tables) {
  return lookup<SpaceOp>(*this, getSpaceAttr(), tables);
}

MeshOp LayoutOp::lookupMesh(SymbolTableCollection &tables,
                            FlatSymbolRefAttr name) {
  return lookup<MeshOp>(*this, name, tables);
}

std::optional<ArrayRef<int64_t>>
LayoutOp::lookupDevices(SymbolTableCollection &tables) {
  if (!getDevices().empty())
    return getDevices();
  if (!getMeshes())
    return std::nullopt;
  for (auto name : getMeshesAttr().getAsRange<FlatSymbolRefAttr>())
    if (MeshOp mesh = lookupMesh(tables, name))
      if (!mesh.getMesh().getDevices().empty())
        return mesh.getMesh().getDevices();
  return std::nullopt;
}

ParamOp PlaceOp::lookupParam(SymbolTableCollection &tables) {
  SpaceOp space = cast<LayoutOp>((*this)->getParentOp()).lookupSpace(tables);
  if (!space)
    return {};
  return dyn_cast_or_null<ParamOp>(
      tables.lookupSymbolIn(space, getParamAttr().getAttr()));
}

std::vector<int64_t> PlaceOp::placedShape(ParamOp param) {
  ArrayRef<int64_t> shape = param.getShape();
  if (!getTensorAttr())
    return shape.vec();
  std::vector<int64_t> out = shape.take_front(param.numLeading()).vec();
  std::vector<int64_t> own = getTensorAttr().toGeometry().shape();
  out.insert(out.end(), own.begin(), own.end());
  return out;
}

std::string PlaceOp::placedName() {
  std::string param = "@" + getParam().str();
  if (!getTensorAttr())
    return param;
  return "'" + getTensorAttr().getName().str() + "' of " + param;
}

MeshOp PlaceOp::lookupMesh(SymbolTableCollection &tables) {
  auto layout = cast<LayoutOp>((*this)->getParentOp());
  if (getMeshAttr())
    return layout.lookupMesh(tables, getMeshAttr());
  if (!layout.getMeshes() || layout.getMeshesAttr().empty())
    return {};
  return layout.lookupMesh(tables,
                           cast<FlatSymbolRefAttr>(layout.getMeshesAttr()[0]));
}

LayoutOp TransitionOp::lookupSource(SymbolTableCollection &tables) {
  return lookup<LayoutOp>(*this, getSourceAttr(), tables);
}

LayoutOp TransitionOp::lookupDestination(SymbolTableCollection &tables) {
  return lookup<LayoutOp>(*this, getDestinationAttr(), tables);
}

SpaceOp TransitionOp::lookupSpace(SymbolTableCollection &tables) {
  LayoutOp source = lookupSource(tables);
  return source ? source.lookupSpace(tables) : SpaceOp();
}

//===----------------------------------------------------------------------===//
// Holdings
//===----------------------------------------------------------------------===//

FailureOr<std::vector<Holding>>
PlaceOp::evaluate(SymbolTableCollection &tables) {
  ParamOp param = lookupParam(tables);
  if (!param)
    return emitOpError() << "names " << getParamAttr()
                         << ", which the space does not have";
  auto layout = cast<LayoutOp>((*this)->getParentOp());
  if (auto shards = dyn_cast<ShardsAttr>(getHow())) {
    ArrayRef<int64_t> devices =
        layout.lookupDevices(tables).value_or(ArrayRef<int64_t>());
    std::vector<HeldBox> rows;
    for (const RankBox &row : shards.toGeometry())
      rows.push_back(
          {devices.empty() ? row.rank : devices[row.rank], row.box, row.range});
    return holdingsOf(rows, param.numLeading());
  }
  MeshOp mesh = lookupMesh(tables);
  if (!mesh)
    return emitOpError("has a placement but no mesh to place it on");
  std::string error;
  std::optional<std::vector<Holding>> holdings = dt::evaluate(
      cast<PlacementAttr>(getHow()).toGeometry(), mesh.getMesh().toGeometry(),
      placedShape(param), param.numLeading(), error);
  if (holdings)
    return std::move(*holdings);
  InFlightDiagnostic diagnostic =
      emitOpError() << "does not fit " << placedName() << ": " << error;
  diagnostic.attachNote(mesh.getLoc()) << "on this mesh";
  return diagnostic;
}

} // namespace dt

using namespace dt;
#define GET_OP_CLASSES
#include "dt/Dialect/DtOps.cpp.inc"
