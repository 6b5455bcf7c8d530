//===- VerifyTensors.cpp - What a side's own tensors must be --------------===//
//
// A view may be anything of a param. All views of one param together are the
// param: so that every element has one place, and what a side holds of its own
// tensors is all that it holds.
//
//===----------------------------------------------------------------------===//

#include "VerifyTensors.h"

#include "dt/Geometry/Covers.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace dt {

namespace {

std::vector<int64_t> innerShape(ParamOp param) {
  return param.getShape().drop_front(param.numLeading()).vec();
}

/// Places of the param's tensors, one for each tensor.
using TensorPlaces = SmallVector<PlaceOp, 1>;

/// The place whose tensor has a box; one of them does.
PlaceOp holderOf(const Box &box, ArrayRef<PlaceOp> places,
                 const std::vector<int64_t> &shape) {
  for (PlaceOp place : places)
    for (const Box &own : regions(place.getTensorAttr().toGeometry(), shape))
      if (overlaps(own, box))
        return place;
  return {};
}

LogicalResult refuseTwice(const Box &box, TensorPlaces places, ParamOp param) {
  std::vector<int64_t> shape = innerShape(param);
  PlaceOp first = holderOf(box, places, shape);
  llvm::erase(places, first);
  InFlightDiagnostic error =
      holderOf(box, places, shape).emitOpError()
      << "has " << toString(box) << " of tensor '" << param.nameTemplate()
      << "' in '"
      << holderOf(box, places, shape).getTensorAttr().getName().str()
      << "', which '" << first.getTensorAttr().getName().str() << "' has too";
  error.attachNote(first.getLoc()) << "that tensor is here";
  return failure();
}

LogicalResult verifyCover(const TensorPlaces &places, ParamOp param) {
  std::vector<int64_t> shape = innerShape(param);
  std::vector<Box> boxes;
  for (PlaceOp place : places)
    for (const Box &box : regions(place.getTensorAttr().toGeometry(), shape))
      boxes.push_back(box);
  if (auto twice = firstTwice(boxes))
    return refuseTwice(*twice, places, param);
  auto hole = firstUncovered({Box::whole(shape)}, boxes);
  if (!hole)
    return success();
  PlaceOp place = places.front();
  InFlightDiagnostic error = place->getParentOp()->emitOpError()
                             << "has no tensor with " << toString(*hole)
                             << " of tensor '" << param.nameTemplate() << "'";
  error.attachNote(place.getLoc()) << "a tensor that has a part of it is here";
  return failure();
}

class Names {
public:
  LogicalResult add(PlaceOp place, ParamOp param) {
    return param.forEachMember(
        [&](ArrayRef<int64_t> member) { return add(place, param, member); });
  }

private:
  LogicalResult add(PlaceOp place, ParamOp param, ArrayRef<int64_t> member) {
    TensorAttr tensor = place.getTensorAttr();
    auto [known, isNew] = names.try_emplace(
        tensor ? tensor.memberName(member) : param.memberName(member), place);
    if (isNew)
      return success();
    InFlightDiagnostic error = place.emitOpError()
                               << "names tensor '" << known->first()
                               << "' a second time";
    error.attachNote(known->second.getLoc()) << "the first time is here";
    return failure();
  }

  llvm::StringMap<PlaceOp> names;
};

} // namespace

LogicalResult verifyTensors(LayoutOp layout, SymbolTableCollection &tables) {
  bool hasTensors = llvm::any_of(layout.getOps<PlaceOp>(), [](PlaceOp place) {
    return bool(place.getTensorAttr());
  });
  if (!hasTensors)
    return success();
  llvm::MapVector<Attribute, TensorPlaces> byParam;
  llvm::DenseSet<std::pair<Attribute, Attribute>> known;
  for (auto place : layout.getOps<PlaceOp>()) {
    Attribute param = place.getParamAttr().getAttr();
    if (known.insert({param, place.getTensorAttr()}).second)
      byParam[param].push_back(place);
  }
  Names names;
  for (auto &[name, places] : byParam) {
    ParamOp param = places.front().lookupParam(tables);
    for (PlaceOp place : places)
      if (failed(names.add(place, param)))
        return failure();
    // A place of the param itself, beside or alone, is no view.
    bool areViews = llvm::all_of(
        places, [](PlaceOp place) { return bool(place.getTensorAttr()); });
    if (areViews && failed(verifyCover(places, param)))
      return failure();
  }
  return success();
}

} // namespace dt
