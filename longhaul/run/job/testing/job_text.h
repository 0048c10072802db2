#pragma once
// Jobs of tests, from the text of a job file.
#include <stdexcept>
#include <string>
#include <vector>

#include "longhaul/run/job/job.h"

namespace longhaul::run::testing {

// As load_job() of a file job.toml that holds the text; `sets` as --set.
inline Result<Job> read_job(const std::string& text, const std::vector<std::string>& sets = {}) {
  LH_LET(doc, parse_document(text, "job.toml"));
  for (const std::string& set : sets) LH_TRY(override_setting(doc, set));
  return resolve_job(std::move(doc));
}

// The same of a text that is a job.
inline Job good_job(const std::string& text, const std::vector<std::string>& sets = {}) {
  auto job = read_job(text, sets);
  if (!job) throw std::invalid_argument(job.error().what + "\n" + text);
  return *std::move(job);
}

// What is wrong with it.
inline std::string job_error(const std::string& text, const std::vector<std::string>& sets = {}) {
  const auto job = read_job(text, sets);
  return job ? "no error" : job.error().what;
}

}  // namespace longhaul::run::testing
