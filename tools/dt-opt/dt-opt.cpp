//===- dt-opt.cpp - The compiler's driver ---------------------------------===//

#include "dt/Dialect/Dialect.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<dt::DTDialect>();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "DynaTrain compiler\n", registry));
}
