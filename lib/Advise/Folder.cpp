//===- Folder.cpp - Advice as a folder of files ---------------------------===//

#include "dt/Advise/Folder.h"

#include "dt/Advise/AdvicePage.h"
#include "dt/Advise/CompileRequest.h"
#include "dt/Advise/Report.h"
#include "dt/Advise/RequestText.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace dt::advise {

namespace {

/// Operations of a step that are written; more are cut.
constexpr int64_t kMostWritten = 20000;

bool writeFile(const std::string &path, const std::string &text,
               std::string &error) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file)
    return true;
  error = path + " cannot be written: " + std::strerror(errno ? errno : EIO);
  return false;
}

/// A row is compiled once, whatever place it gets afterwards.
bool compileRow(const FolderOptions &options, AdviceRow &row,
                std::string &error) {
  std::string base = options.folder + "/" + row.request;
  std::string plan = base.substr(0, base.size() - 5) + ".dtplan";
  auto compiled = compileRequest(options.tools, base, plan, error);
  if (!compiled) {
    error = row.request + ": " + error;
    return false;
  }
  row.isCompiled = true;
  row.movedBytes = compiled->wireBytes;
  row.transitionSeconds = compiled->seconds;
  row.transitionPeak = compiled->devicePeak;
  std::error_code ignored;
  if (!options.keepPlans)
    std::filesystem::remove(plan, ignored);
  return true;
}

bool writeRequests(const Job &job, const FolderOptions &options, Advice &advice,
                   std::string &error) {
  for (AdviceRow &row : advice.rows) {
    row.request = row.name + ".json";
    // Layouts of one name differ in layers, devices or the batch.
    for (const AdviceRow &other : advice.rows) {
      if (&other == &row)
        break;
      if (other.request == row.request)
        row.request = row.name + "-" +
                      std::to_string(&row - advice.rows.data() + 1) + ".json";
    }
    if (!writeFile(options.folder + "/" + row.request,
                   requestText(job, advice, row, options.folder), error))
      return false;
  }
  return true;
}

bool compileRows(const Job &job, const FolderOptions &options, Advice &advice,
                 const Progress &progress, std::string &error) {
  size_t count = std::min(options.compiled, advice.rows.size());
  for (size_t i = 0; i < count; ++i) {
    if (progress)
      progress("plans", i, count);
    if (!compileRow(options, advice.rows[i], error))
      return false;
  }
  if (count > 0)
    rankRows(job, advice);
  return true;
}

} // namespace

bool writeFolder(const Job &job, const FolderOptions &options, Advice &advice,
                 const Progress &progress, std::string &error) {
  std::error_code failure;
  std::filesystem::create_directories(options.folder, failure);
  if (failure) {
    error = options.folder + " cannot be made: " + failure.message();
    return false;
  }
  if (!writeRequests(job, options, advice, error) ||
      !compileRows(job, options, advice, progress, error))
    return false;
  const Destination &best = advice.rows.front().destination;
  std::string stages = stageGraphJson(job, best, kMostWritten, error);
  std::string experts = expertsJson(job, best);
  const std::string &folder = options.folder;
  return !stages.empty() && writeFile(folder + "/stages.json", stages, error) &&
         (experts.empty() ||
          writeFile(folder + "/experts.json", experts, error)) &&
         writeFile(folder + "/advice.json", adviceJson(job, advice), error) &&
         writeFile(folder + "/advice.html", advicePage(job, advice), error);
}

} // namespace dt::advise
