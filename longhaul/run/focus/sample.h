#pragma once
// The work of `longhaul sample`. It runs the models of a job with [focus] over the first objects of
// each site's stream. It reports the cheap model, K and T that would be chosen, and their results
// on later objects. It writes the verdicts of the accurate model as data sets, on which a cheap
// model is trained.
#include <nlohmann/json_fwd.hpp>

#include "longhaul/run/job/job.h"

namespace longhaul::run {

struct SampleOptions {
  std::uint64_t objects = 0;   // per site; 0: [focus] sample
  std::uint64_t every = 1;     // objects 1, 1 + every ...
  std::uint64_t held_out = 0;  // later objects, to test the choice
  std::string labels = {};     // folder of the data sets, one folder per site; empty: none
  std::function<void(const std::string&)> note = {};
};

// Returns one JSON object for each site, in job order. Returns an Error if a model or the data are
// not available, or if a file cannot be written.
Result<nlohmann::ordered_json> sample_streams(const Job&, const SampleOptions&);

}  // namespace longhaul::run
