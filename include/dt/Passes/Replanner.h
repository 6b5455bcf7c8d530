//===- Replanner.h - A plan that is held to be replanned from ---*- C++ -*-===//
//
// Who expects that a plan has to change at once reads and verifies it before
// that. Then what a new plan has in common with it is known when it is asked
// for. Each new plan has the bytes that it has when `dt-opt --replan` makes it
// alone, whatever was asked before.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PASSES_REPLANNER_H
#define DT_PASSES_REPLANNER_H

#include "dtrt/types/Status.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringRef.h"

#include <memory>
#include <string>

namespace dt {

class Replanner {
public:
  /// Reads a plan file and verifies it.
  static dtrt::Result<Replanner> open(const std::string &path,
                                      mlir::MLIRContext::Threading threading);
  Replanner(Replanner &&) noexcept;
  ~Replanner();

  /// That it is ready, as one line of JSON without its end.
  std::string greeting() const;

  struct Answer {
    std::string line; // JSON, without its end
    bool isError = false;
  };
  /// Makes the plan that a line asks for: {"request": a path, or the request
  /// itself, "output": a path}. {"expect": a request} asks for none: those that
  /// come are like it, mostly.
  Answer answer(llvm::StringRef line);

  /// What is said of a line that could not be read.
  static Answer refuse(const std::string &error);

private:
  struct State;
  explicit Replanner(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace dt

#endif // DT_PASSES_REPLANNER_H
