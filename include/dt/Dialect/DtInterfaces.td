//===- DtInterfaces.td - What ops on pieces share ----------*- tablegen -*-===//

#ifndef DT_DIALECT_DTINTERFACES_TD
#define DT_DIALECT_DTINTERFACES_TD

include "mlir/IR/OpBase.td"

def DT_MovementOpInterface : OpInterface<"MovementOpInterface"> {
  let cppNamespace = "::dt";
  let description = [{
    Ops that name pieces of one param: which device has them, which device
    gets them, for which states.
  }];
  let methods = [
    InterfaceMethod<"The param that the pieces are of.",
      "::mlir::FlatSymbolRefAttr", "getParamAttr">,
    InterfaceMethod<"The states moved; null means all of the param's.",
      "::mlir::ArrayAttr", "getStatesAttr">,
    InterfaceMethod<"The pieces.", "::dt::PiecesAttr", "getPieces">,
  ];
}

#endif // DT_DIALECT_DTINTERFACES_TD
