#pragma once
// The measured network as the [wan] of a job file.
#include <string>

#include "longhaul/base/result.h"
#include "longhaul/doctor/report.h"

namespace longhaul::doctor {

// TOML: [wan] with model = "fair", and a [[wan.link]] for every direction that was measured. Rates
// are of IP bytes, delays half of the smallest round trip. Pairs without a measurement are named in
// a comment and get the smallest rate and the longest delay of the others. Error: nothing was
// measured.
Result<std::string> wan_toml(const Report&);

}  // namespace longhaul::doctor
