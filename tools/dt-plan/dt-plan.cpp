//===- dt-plan.cpp - Looks at plan files ----------------------------------===//

#include "dtrt/format/OutputFile.h"
#include "dtrt/format/OutputFolder.h"
#include "dtrt/report/Deliveries.h"
#include "dtrt/report/Diff.h"
#include "dtrt/report/Draw.h"
#include "dtrt/report/Dump.h"
#include "dtrt/report/Inspect.h"
#include "dtrt/report/OutputFormat.h"
#include "dtrt/report/SetReport.h"
#include "dtrt/report/Simulate.h"
#include "dtrt/report/TerminalProgress.h"
#include "dtrt/verify/Verifier.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <new>

using namespace dtrt;

namespace {

constexpr const char *kExamples = R"(Examples:
  dt-plan inspect shrink.dtplan
  dt-plan dump shrink.dtplan --deliveries | grep '"dst": 3,'
  dt-plan simulate shrink.dtplan --jitter 5 --slow 3=2)";

/// diff(1): 0 same, 1 different, 2 trouble. Other commands: 1 on any error.
constexpr int kDiffTrouble = 2;

struct Options {
  std::string plan, other;
  std::string output = "-";
  std::optional<uint32_t> rank;
  bool allRanks = false;
  bool json = false;
  bool deliveries = false;
  bool losses = false;
  bool nccl = false;
  DiffLength diffLength = DiffLength::Screen;
  SimulationRequest simulation;
  OutputFormat format() const {
    return json ? OutputFormat::Json : OutputFormat::Text;
  }
};

int fail(const std::string &message, int code = 1) {
  std::cerr << "error: " << message << "\n";
  return code;
}

/// What has been printed has arrived, and `status` is the end of it.
int finish(Status status) {
  if (status.ok())
    status = flushStandardOutput();
  return status.ok() ? 0 : fail(status.message());
}

/// Opens a plan for people, who want to know of damage anywhere in it.
Result<PlanReader> openWhole(const std::string &path) {
  auto plan = PlanReader::open(path);
  DTRT_RETURN_IF_ERROR(plan);
  DTRT_RETURN_IF_ERROR(plan->checkSections());
  return plan;
}

/// Opens the plan and hands it to a command that writes to standard output.
template <typename Command>
int withPlan(const std::string &path, Command command) {
  auto plan = openWhole(path);
  if (!plan.ok())
    return fail(plan.status().message());
  return finish(command(*plan));
}

int list(const Options &options) {
  return finish(writeSetList(options.plan, options.format(), std::cout));
}

int inspect(const Options &options) {
  if (isFolder(options.plan)) {
    if (options.rank || options.nccl)
      return fail(std::string("inspect has no ") +
                  (options.rank ? "--rank" : "--nccl") +
                  " for a folder of plans");
    return finish(
        writeSetInspection(options.plan, options.format(), std::cout));
  }
  return withPlan(options.plan, [&](const PlanReader &plan) {
    bool tells = options.losses || !options.json;
    return writeInspection(plan, options.rank, options.format(), std::cout,
                           tells ? TellLosses::Yes : TellLosses::No,
                           options.nccl ? TellNccl::Yes : TellNccl::No);
  });
}

int dump(const Options &options) {
  if (options.deliveries + options.rank.has_value() + options.allRanks != 1)
    return fail("dump needs one of --deliveries, --rank and --all-ranks");
  return withPlan(options.plan, [&](const PlanReader &plan) {
    if (options.deliveries)
      return writeDeliveries(plan, std::cout);
    if (options.allRanks)
      return writePrograms(plan, options.format(), std::cout);
    return writeProgram(plan, *options.rank, options.format(), std::cout);
  });
}

int verifyFolder(const std::string &folder) {
  auto verifyAll = [&] {
    TerminalProgress progress;
    return verifySet(folder, [&](const SetPlan &plan) {
      progress.say("verifying " + plan.file);
    });
  };
  auto count = verifyAll();
  if (!count.ok())
    return fail(count.status().message());
  std::cerr << "verified: " << *count
            << " plans are those of the index; coverage, pairing and memory "
               "hold\n";
  return 0;
}

int verify(const Options &options) {
  if (isFolder(options.plan))
    return verifyFolder(options.plan);
  return withPlan(options.plan, [&](const PlanReader &plan) {
    VerifiedPlan facts;
    auto verifyAll = [&] {
      TerminalProgress progress;
      progress.say("verifying " + std::to_string(plan.devices().size()) +
                   " programs");
      return verifyPlan(plan, &facts);
    };
    Status status = verifyAll();
    if (status.ok())
      std::cerr << "verified: " << plan.devices().size()
                << " programs, coverage, pairing and memory hold; at most "
                << facts.mostAbove
                << " bytes above the larger of source and destination\n";
    return status;
  });
}

int finishDiff(const Result<bool> &same) {
  if (!same.ok())
    return fail(same.status().message(), kDiffTrouble);
  Status printed = flushStandardOutput();
  if (!printed.ok())
    return fail(printed.message(), kDiffTrouble);
  return *same ? 0 : 1;
}

int diff(const Options &options) {
  if (isFolder(options.plan) && isFolder(options.other))
    return finishDiff(writeSetDifferences(options.plan, options.other,
                                          std::cout, options.diffLength));
  auto a = openWhole(options.plan);
  if (!a.ok())
    return fail(a.status().message(), kDiffTrouble);
  auto b = openWhole(options.other);
  if (!b.ok())
    return fail(b.status().message(), kDiffTrouble);
  return finishDiff(writeDifferences(*a, *b, std::cout, options.diffLength));
}

int draw(const Options &options) {
  return withPlan(options.plan, [&](const PlanReader &plan) {
    if (options.output == "-")
      return writeDrawing(plan, std::cout);
    return writeTextFile(options.output, [&](std::ostream &out) {
      return writeDrawing(plan, out);
    });
  });
}

int simulate(const Options &options) {
  return withPlan(options.plan, [&](const PlanReader &plan) {
    return writeSimulation(plan, options.simulation, options.format(),
                           std::cout);
  });
}

std::string versionText() {
  return std::string("dt-plan ") + DT_VERSION + ", plan format " +
         std::to_string(kFormatMajor) + "." + std::to_string(kFormatMinor);
}

CLI::App *addCommand(CLI::App &app, Options &options, const char *name,
                     const char *what) {
  CLI::App *command = app.add_subcommand(name, what);
  command->add_option("PLAN", options.plan, "plan file, - for standard input")
      ->required();
  return command;
}

void addRank(CLI::App *command, Options &options, const char *what) {
  command->add_option("--rank", options.rank, what);
  command->add_flag("--json", options.json, "print JSON");
}

CLI::App *addSimulate(CLI::App &app, Options &options) {
  SimulationRequest &request = options.simulation;
  auto *command = addCommand(app, options, "simulate",
                             "run the plan event by event: how long it takes, "
                             "and where the time goes");
  command->add_option("--jitter", request.jitterPercent,
                      "percent by which each message and copy may take more or "
                      "less, drawn evenly");
  command->add_option("--seed", request.seed, "of what is drawn")
      ->capture_default_str();
  command->add_option("--slow", request.slow,
                      "DEVICE=FACTOR or FROM-TO=FACTOR, many times: a device, "
                      "or a link one way, that takes so many times as long");
  command->add_option("--latency", request.latencyUs,
                      "us per message; without it the cluster's");
  command->add_option("--launch", request.launchUs,
                      "us per wave and device, before it offers its messages; "
                      "without it the cluster's");
  command->add_flag("--json", options.json, "print JSON");
  return command;
}

void addList(CLI::App &app, Options &options) {
  auto *command =
      app.add_subcommand("list", "print what the plans of a folder are for");
  command->add_option("FOLDER", options.plan, "folder of plans")->required();
  command->add_flag("--json", options.json, "print the index");
}

} // namespace

int main(int argc, char **argv) {
  std::ios::sync_with_stdio(false);
  Options options;
  CLI::App app{"Looks at plan files"};
  app.set_version_flag("--version", versionText());
  app.footer(kExamples);
  app.require_subcommand(1);
  addList(app, options);
  auto *inspectCommand = addCommand(
      app, options, "inspect",
      "print the plan's numbers; a collective is data that receivers forward; "
      "a folder's: of each plan");
  addRank(inspectCommand, options, "add the numbers of this device");
  inspectCommand->add_flag("--losses", options.losses,
                           "add what a failure would lose to the JSON too");
  inspectCommand->add_flag("--nccl", options.nccl,
                           "add what the device that holds most over NCCL has, "
                           "NCCL's buffers among it; with --rank it is there");
  auto *dumpCommand =
      addCommand(app, options, "dump", "print every delivery, or one program");
  dumpCommand->add_flag("--deliveries", options.deliveries,
                        "one JSON object per region that arrives");
  addRank(dumpCommand, options, "print this device's program");
  dumpCommand->add_flag("--all-ranks", options.allRanks,
                        "print every device's program");
  auto *diffCommand = addCommand(app, options, "diff",
                                 "print what differs, by meaning; exit code "
                                 "0 same, 1 different, 2 error; of folders "
                                 "the plans of one name");
  diffCommand->add_option("OTHER", options.other, "the plan to compare with")
      ->required();
  diffCommand->add_flag_callback(
      "--all", [&] { options.diffLength = DiffLength::All; },
      "list every difference, uncut, in place of one screen");
  auto *verifyCommand =
      addCommand(app, options, "verify",
                 "check coverage, ownership, pairing, order and memory; of a "
                 "folder its index and every plan");
  auto *drawCommand =
      addCommand(app, options, "draw", "draw the plan as one HTML page");
  drawCommand->add_option("-o", options.output, "HTML file")
      ->capture_default_str();
  auto *simulateCommand = addSimulate(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      return app.exit(error);
    return fail(error.what(), diffCommand->parsed() ? kDiffTrouble : 1);
  }
  try {
    if (app.got_subcommand("list"))
      return list(options);
    if (inspectCommand->parsed())
      return inspect(options);
    if (dumpCommand->parsed())
      return dump(options);
    if (diffCommand->parsed())
      return diff(options);
    if (verifyCommand->parsed())
      return verify(options);
    if (simulateCommand->parsed())
      return simulate(options);
    return draw(options);
  } catch (const std::bad_alloc &) {
    return fail("not enough memory", diffCommand->parsed() ? kDiffTrouble : 1);
  }
}
