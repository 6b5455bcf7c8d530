//===- JobTesting.h - Jobs for tests of advice ------------------*- C++ -*-===//

#ifndef DT_TEST_UNIT_ADVISE_JOBTESTING_H
#define DT_TEST_UNIT_ADVISE_JOBTESTING_H

#include "dt/Advise/Job.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

namespace dt::advise {

using Text = nlohmann::ordered_json;

/// A job of one of examples/models on `devices` devices, as JSON to change.
inline Text jobOf(const std::string &model, int64_t devices) {
  return {
      {"model", "models/" + model + ".json"},
      {"state",
       {{"param", "bf16"},
        {"master", "f32"},
        {"exp_avg", "f32"},
        {"exp_avg_sq", "f32"}}},
      {"cluster",
       {{"devices", devices}, {"devices_per_node", 4}, {"memory", "80GiB"}}},
      {"layout", {{"world", devices}, {"dp", devices}}},
      {"batch", {{"global", 64}, {"sequence", 512}}}};
}

inline std::optional<Job> readText(const Text &json, std::string &error,
                                   const JobChanges &changes = {}) {
  return readJob(json.dump(), DT_SOURCE_DIR "/examples", changes, error);
}

inline Job mustRead(const Text &json, const JobChanges &changes = {}) {
  std::string error;
  auto job = readText(json, error, changes);
  EXPECT_TRUE(job) << error;
  return job ? *job : Job();
}

} // namespace dt::advise

#endif // DT_TEST_UNIT_ADVISE_JOBTESTING_H
