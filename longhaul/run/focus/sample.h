#pragma once
// What `longhaul sample` does: runs the models of a job with [focus] over the first objects of each
// site's stream, says which cheap model, K and T would be chosen and what they reach on later
// objects, and writes what the accurate model said as data sets on which a cheap model is trained.
#include <nlohmann/json_fwd.hpp>

#include "longhaul/run/job/job.h"

namespace longhaul::run {

struct SampleOptions {
  std::uint64_t objects = 0;   // of each site; 0: [focus] sample
  std::uint64_t every = 1;     // objects 1, 1 + every ...
  std::uint64_t held_out = 0;  // objects after them on which what is chosen is tried
  std::string labels = {};     // folder of the data sets, one folder a site; empty: none
  std::function<void(const std::string&)> note = {};
};

// One JSON object for each site, in the order of the job. Error: a model or the data cannot be had,
// or a file not be written.
Result<nlohmann::ordered_json> sample_streams(const Job&, const SampleOptions&);

}  // namespace longhaul::run
