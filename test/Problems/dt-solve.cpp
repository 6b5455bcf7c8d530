//===- dt-solve.cpp - Answers problems by themselves ----------------------===//
//
// Reads a routing or a wave problem (`write-problem` of --dt-route and
// --dt-schedule writes them), checks it, asks a solver, verifies the answer and
// prints what it costs. A routing is timed by its best schedule.
//
//===----------------------------------------------------------------------===//

#include "dt/Routing/ProblemText.h"
#include "dt/Routing/RoutingSolver.h"
#include "dt/Scheduling/BestSchedule.h"
#include "dt/Scheduling/RouteSchedule.h"
#include "dt/Scheduling/WaveProblemText.h"

#include <CLI/CLI.hpp>

#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

using namespace dt;

namespace {

constexpr const char *kExamples = R"(Examples:
  dt-solve ring.json --solver=exact --print
  dt-opt request.json --dt-route="write-problem=route.json" && dt-solve route.json)";

struct Options {
  std::string problem;
  std::string solver = "best";
  int64_t effort = WaveOptions().effort;
  int64_t minPieceBytes = RouterOptions().minPieceBytes;
  bool prints = false;
};

int fail(const std::string &message) {
  std::cerr << "error: " << message << "\n";
  return 1;
}

/// Seconds in a form that people compare.
void printTimes(double predicted, double bound) {
  std::cout << "predicted " << predicted << " s, bound " << bound << " s";
  if (bound > 0)
    std::cout << ", ratio " << predicted / bound;
  std::cout << "\n";
}

//===----------------------------------------------------------------------===//
// Waves
//===----------------------------------------------------------------------===//

size_t countWaves(const WaveSchedule &schedule) {
  std::set<int32_t> waves;
  for (const ScheduledMove &piece : schedule.moves)
    waves.insert(piece.wave);
  for (const ScheduledCopy &copy : schedule.copies)
    waves.insert(copy.wave);
  return waves.size();
}

/// A line per message or copy, by wave.
void printWaves(const WaveProblem &problem, const WaveSchedule &schedule) {
  std::map<int32_t, std::ostringstream> lines;
  forEachMessage(schedule.moves, [&](size_t first, size_t last) {
    const ScheduledMove &piece = schedule.moves[first];
    std::vector<ScheduledMove> own(schedule.moves.begin() + first,
                                   schedule.moves.begin() + last);
    std::ostringstream &out = lines[piece.wave];
    out << "  " << piece.move.source << " -> " << piece.move.destination << ", "
        << problem.messages(own).front().bytes << " bytes:";
    for (const ScheduledMove &part : own)
      out << " flow " << part.move.flow << " " << toString(part.move.box);
    out << "\n";
  });
  for (const auto &[copy, wave] : schedule.copies)
    lines[wave] << "  copy on " << copy.device << ": flow " << copy.flow << " "
                << toString(copy.box) << "\n";
  for (const auto &[wave, text] : lines)
    std::cout << "wave " << wave << "\n" << text.str();
}

int solveWaves(const std::string &text, const Options &options) {
  std::string error;
  auto problem = readWaveProblem(text, error);
  if (!problem)
    return fail(error);
  if (auto fault = problem->check())
    return fail(*fault);
  WaveSolver solver = findWaveSolver(options.solver);
  if (!solver)
    return fail("there is no solver '" + options.solver + "', expected " +
                waveSolverNames());
  WaveOptions waveOptions;
  waveOptions.effort = options.effort;
  WaveSchedule schedule;
  if (auto reason = solver(*problem, waveOptions, schedule))
    return fail("the problem " + *reason);
  if (auto broken = problem->verify(schedule))
    return fail("the solver '" + options.solver + "' is wrong: " + *broken);
  std::cout << "waves: " << problem->moves.size() << " moves, "
            << problem->copies.size() << " copies\n";
  printTimes(problem->seconds(schedule.moves), problem->lowerBound());
  std::cout << countWaves(schedule) << " waves, "
            << problem->messages(schedule.moves).size() << " messages\n";
  if (options.prints)
    printWaves(*problem, schedule);
  return 0;
}

//===----------------------------------------------------------------------===//
// Routes
//===----------------------------------------------------------------------===//

void printMoves(const Routing &routing) {
  for (const LocalMove &local : routing.locals)
    std::cout << "copy on " << local.device << ": flow " << local.flow << " "
              << toString(local.box) << "\n";
  for (const Move &move : routing.moves)
    std::cout << "hop " << move.hop << ": " << move.source << " -> "
              << move.destination << ": flow " << move.flow << " "
              << toString(move.box) << "\n";
}

int solveRoute(const std::string &text, const Options &options) {
  std::string error;
  auto problem = readRoutingProblem(text, error);
  if (!problem)
    return fail(error);
  if (auto fault = problem->check())
    return fail(*fault);
  RoutingSolver solver = findRoutingSolver(options.solver);
  if (!solver)
    return fail("there is no solver '" + options.solver + "', expected " +
                routingSolverNames());
  RouterOptions routerOptions;
  routerOptions.minPieceBytes = options.minPieceBytes;
  routerOptions.seconds = [&](const std::vector<Move> &moves) {
    return routeSeconds(*problem, moves);
  };
  Routing routing;
  if (auto reason = solver(*problem, routerOptions, routing))
    return fail("the problem " + *reason);
  if (auto broken = problem->verify(routing))
    return fail("the solver '" + options.solver + "' is wrong: " + *broken);
  WaveProblem waves = waveProblem(*problem, routing.moves);
  WaveSchedule schedule;
  WaveOptions waveOptions;
  waveOptions.effort = options.effort;
  if (auto reason = scheduleBest(waves, waveOptions, schedule))
    return fail("the problem " + *reason);
  if (auto broken = waves.verify(schedule))
    return fail("the best schedule is wrong: " + *broken);
  std::cout << "routing: " << problem->flows().size() << " flows, "
            << routing.moves.size() << " moves, " << routing.locals.size()
            << " copies\n";
  printTimes(waves.seconds(schedule.moves), problem->lowerBound());
  std::cout << countWaves(schedule) << " waves, "
            << waves.messages(schedule.moves).size() << " messages\n";
  if (options.prints)
    printMoves(routing);
  return 0;
}

int run(const Options &options) {
  std::ostringstream text;
  if (options.problem == "-") {
    text << std::cin.rdbuf();
  } else {
    std::ifstream file(options.problem);
    if (!file)
      return fail("cannot read '" + options.problem + "'");
    text << file.rdbuf();
  }
  std::string error, kind = problemKind(text.str(), error);
  if (!error.empty())
    return fail(error);
  if (kind == "routing")
    return solveRoute(text.str(), options);
  if (kind == "waves")
    return solveWaves(text.str(), options);
  return fail("the problem is '" + kind + "', expected routing or waves");
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Answers routing and wave problems by themselves");
  app.footer(kExamples);
  app.set_version_flag("--version", DT_VERSION);
  Options options;
  app.add_option("problem", options.problem, "problem file; - is stdin")
      ->required();
  app.add_option("--solver", options.solver,
                 "of routes: " + routingSolverNames() +
                     "; of waves: " + waveSolverNames())
      ->capture_default_str();
  app.add_option("--effort", options.effort,
                 "pieces scheduled to compare schedules")
      ->capture_default_str();
  app.add_option("--min-piece-bytes", options.minPieceBytes,
                 "routes cut no piece below this for balance")
      ->capture_default_str();
  app.add_flag("--print", options.prints, "print the answer too");
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
