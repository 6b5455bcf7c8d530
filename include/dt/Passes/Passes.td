//===- Passes.td - The passes of dt-opt --------------------*- tablegen -*-===//

#ifndef DT_PASSES_PASSES_TD
#define DT_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

def GroupFamilies : Pass<"dt-group-families", "::mlir::ModuleOp"> {
  let summary = "forms families of tensors whose names differ in numbers";
  let description = [{
    Replaces `dt.param`s of equal shape and states, whose names differ only in
    numbers that fill a grid, by one param with a leading dim per number. A
    coordinate that a placement restricts each tensor to (`at {"pp" = [1]}`)
    becomes a cut of the leading dim that it follows. Params with explicit
    shards stay as they are.
  }];
  let statistics = [
    Statistic<"numTensors", "num-tensors", "params before">,
    Statistic<"numFamilies", "num-families", "params after">,
  ];
}

def VerifyLayout : Pass<"dt-verify-layout", "::mlir::ModuleOp"> {
  let summary = "checks that layouts place every state once and only once";
  let options = [
    Option<"complete", "complete", "bool", "true",
           "check too that the destination has all of every tensor">,
  ];
}

def RouteTransfers : Pass<"dt-route", "::mlir::ModuleOp"> {
  let summary = "names every destination byte once, with its source";
  let description = [{
    Intersects the regions of both layouts and fills each `dt.transition` with
    `dt.keep`, `dt.copy`, `dt.transfer` and `dt.zero`. Local first, then the
    same node, then across the network once per node, balanced over all
    devices that hold the data (see dt/Routing/RoutingProblem.h).
  }];
  let options = [
    Option<"balanceParts", "balance-parts", "int64_t", "64",
           "cut pieces that have a choice of route to this fraction of the "
           "busiest device's traffic">,
    Option<"solver", "solver", "std::string", "\"best\"",
           "solver: greedy, exact (few moves) or best">,
    Option<"writeProblem", "write-problem", "std::string", "\"\"",
           "also write the routing problem to this file, for dt-solve">,
  ];
  let statistics = [
    Statistic<"bytesMoved", "bytes-moved", "bytes that change device">,
    Statistic<"bytesKept", "bytes-kept", "bytes already where they are wanted">,
    Statistic<"numPieces", "num-pieces", "boxes routed">,
  ];
}

def VerifyRouting : Pass<"dt-verify-routing", "::mlir::ModuleOp"> {
  let summary = "checks that routing covers the destination exactly once";
  let description = [{
    Every destination region is named by exactly one piece, every padding
    region by one `dt.zero`, and every piece comes from a device that holds it
    at the source or receives it at a lower hop.
  }];
}

def FuseCollectives : Pass<"dt-fuse-collectives", "::mlir::ModuleOp"> {
  let summary = "raises transfers that form a collective into dt.collective";
  let description = [{
    Devices that exchange data of a param form groups. Where all of a group's
    transfers are a broadcast, a scatter, a gather, an all-gather or an
    all-to-all (see `dt.collective`), they go into an op that says so, one for all
    groups of a param and its states that do the same. The others stay: single
    sends, pairs, and groups that do several things at once. What moves does not
    change, nor how.

    Pieces are read class by class; time is linear in the classes and the pairs
    of devices that they name, beside the intersection of both layouts.
  }];
  let options = [
    Option<"forLibrary", "for-library", "bool", "false",
           "only where the cluster asks for library collectives, or has "
           "times of them">,
  ];
  let statistics = [
    Statistic<"numCollectives", "num-collectives", "dt.collective ops made">,
    Statistic<"numGroups", "num-groups", "groups of devices in them">,
    Statistic<"elementsFused", "elements-fused", "elements that they move">,
    Statistic<"elementsLeft", "elements-left",
              "elements of transfers that stay">,
  ];
}

def LowerCollectives : Pass<"dt-lower-collectives", "::mlir::ModuleOp"> {
  let summary = "chooses library calls, and replaces the other dt.collectives by their transfers";
  let description = [{
    A broadcast, an all-gather or an all-to-all becomes a library's call where
    the cluster says `library`, or where it leaves the choice and the call is at
    least 2 % faster by the cost model (see LibraryChoice.h). Its transfers
    then go from who has the data to all that get it, in one hop. Of all others
    transfers stay: where those of a param, of some states and of one hop stand
    in several ops, they become one op again.
  }];
  let statistics = [
    Statistic<"numLibrary", "num-library", "collectives that a library does">,
  ];
}

def ExplainTransition : Pass<"dt-explain", "::mlir::ModuleOp"> {
  let summary = "says on stderr why data moves the way it does";
  let description = [{
    Sorts what has to move into sends, scatters, all-to-alls, broadcasts and
    all-gathers, and prints per kind what sends, forwards and the collective
    would take by the cost model, and what the router takes (see
    dt/Routing/Explain.h). Of each `dt.collective` it says how it is lowered, and
    why. After `--dt-allocate-staging` it also says which
    messages are packed and what multicasts the waves hold. Changes nothing.
  }];
}

def ScheduleWaves : Pass<"dt-schedule", "::mlir::ModuleOp"> {
  let summary = "orders transfers into contention-free waves";
  let description = [{
    Replaces `dt.transfer` by `dt.wave`s of `dt.sendrecv` (see
    dt/Scheduling/WaveProblem.h). One message per ordered pair and wave; chunks are
    as large as the staging limit of the transition allows. Where the cluster
    has `relays`, messages of slow pairs may go over a third device (see
    dt/Scheduling/RelaySchedule.h). Library collectives have waves of their own,
    before all messages (see dt/Scheduling/LibraryWaves.h).
  }];
  let options = [
    Option<"effort", "effort", "int64_t", "500000",
           "try chunk sizes until this many moves have been scheduled">,
    Option<"solver", "solver", "std::string", "\"\"",
           "solver: greedy, exact (few messages), rounds, best or flat; best, and "
           "flat in flat mode, when none is named">,
    Option<"writeProblem", "write-problem", "std::string", "\"\"",
           "also write the wave problem to this file, for dt-solve">,
  ];
  let statistics = [
    Statistic<"numWaves", "num-waves", "waves">,
    Statistic<"numMessages", "num-messages", "messages">,
    Statistic<"relayedBytes", "relayed-bytes", "bytes that go over a relay">,
    Statistic<"predictedUs", "predicted-us", "predicted time, microseconds">,
    Statistic<"busiestNicUs", "busiest-nic-us",
              "time that the busiest NIC port carries bytes">,
    Statistic<"busiestIslandUs", "busiest-island-us",
              "time that the busiest island port carries bytes">,
  ];
}

def AllocateStaging : Pass<"dt-allocate-staging", "::mlir::ModuleOp"> {
  let summary = "gives every message its slots in the staging arenas";
  let statistics = [
    Statistic<"peakStagingBytes", "peak-staging-bytes",
              "largest arena of one device, bytes">,
    Statistic<"numDirect", "num-direct",
              "message ends that need no slot">,
  ];
}

def PlaceStorage : Pass<"dt-place-storage", "::mlir::ModuleOp"> {
  let summary = "places where storage is created and released (flat mode)";
  let description = [{
    In transitions of flat mode, forms windows of steps in which every device
    has room, and puts `dt.create` before the window that is first to write a
    page of a destination buffer and `dt.release` behind the window that is last
    to read a page of a source buffer; what nobody reads is released at the
    start. Transitions of rollback mode stay as they are.
  }];
  let statistics = [
    Statistic<"numWindows", "num-windows", "windows of steps">,
    Statistic<"numCreated", "num-created", "runs of pages created">,
    Statistic<"numReleased", "num-released", "runs of pages released">,
  ];
}

def VerifyTransport : Pass<"dt-verify-transport", "::mlir::ModuleOp"> {
  let summary = "checks waves: order, ports, slots, limits";
  let description = [{
    Only transport ops in a transition; waves ascend; every destination region
    arrives exactly once; forwards come after what they forward has arrived; in
    a wave each port carries one message each way at most; messages have their
    slots, and live slots never overlap and stay below the staging limit; nothing
    is written before its storage is created or read after its release, and what
    devices hold keeps to the limits. What passes can be emitted.
  }];
}

def ProvePlan : Pass<"dt-prove", "::mlir::ModuleOp"> {
  let summary = "proves coverage, freedom from deadlock and memory safety";
  let description = [{
    What makes plans safe are lemmas, which Z3 proves for any number of ranks,
    waves, messages and places of the cuts (docs/Proof.md). Z3 also proves
    what the plan's classes say: its waves, its arenas, and the ways in which
    pieces fill shards, each class quantified over all that is alike. That the
    plan keeps the rules and has these classes is checked piece by piece. What
    the solver refutes is refused. What it does not decide within its steps
    stands on that check: a class is then a remark, a lemma a warning, and the
    plan's stamp says so. `dt.program`s in the module are simulated, and
    ranks that wait on each other are named.
  }];
  let options = [
    Option<"emitSmtlib", "emit-smtlib", "std::string", "\"\"",
           "also write what is proved to this file, as SMT-LIB">,
    Option<"maxSteps", "max-steps", "unsigned",
           "::dt::kSolverSteps",
           "steps of the solver for each obligation, as it counts them itself">,
  ];
  let statistics = [
    Statistic<"numProved", "num-proved", "obligations proved by the solver">,
    Statistic<"mostSteps", "most-steps", "solver steps of the hardest of them">,
    Statistic<"numClasses", "num-classes", "classes of the plan, of these">,
    Statistic<"numOther", "num-other", "shards filled in other ways">,
    Statistic<"numPieces", "num-pieces", "pieces checked">,
    Statistic<"numSlots", "num-slots", "ends of messages checked">,
  ];
}

def SpecializePrograms : Pass<"dt-specialize", "::mlir::ModuleOp"> {
  let summary = "adds the dt.program of one device, or of all, to the module";
  let options = [
    Option<"device", "device", "int64_t", "-1", "the device; -1: all">,
  ];
}

def VerifyProgram : Pass<"dt-verify-program", "::mlir::ModuleOp"> {
  let summary = "checks programs as `dt-plan verify` checks those of a file";
}

def PrintPrograms : Pass<"dt-print-programs", "::mlir::ModuleOp"> {
  let summary = "prints programs as `dt-plan dump --rank` prints those of a file";
  let options = [
    Option<"output", "output", "std::string", "\"-\"",
           "path of the text; - is stdout">,
  ];
}

def EmitPlan : Pass<"dt-emit", "::mlir::ModuleOp"> {
  let summary = "writes the plan file of the module's transition";
  let options = [
    Option<"output", "output", "std::string", "\"-\"",
           "path of the plan file; - is stdout">,
  ];
  let statistics = [
    Statistic<"numPrograms", "num-programs", "programs written">,
  ];
}

#endif // DT_PASSES_PASSES_TD
