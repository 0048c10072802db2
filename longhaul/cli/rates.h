#pragma once
// Learning rates of a job, for commands that try several rates.
#include <optional>
#include <string_view>

#include "longhaul/run/job/job.h"

namespace longhaul::cli {

// Returns the value of a key of [optimizer], [outer] or [sync] that is a number, set or default;
// empty if the job has no such key.
std::optional<double> number_of(const run::Job&, std::string_view table, std::string_view key);

// Multiply [optimizer] rate (also that of sites with their own rate), or [outer] rate, and return
// the new rate. Return nothing, and leave the job unchanged, if it has no such rate.
std::optional<double> scale_rate(run::Job&, double factor);
std::optional<double> scale_outer_rate(run::Job&, double factor);
// Returns true if the job sets its learners' rate. For a loop of one's own: if it uses site.rate;
// an Error if it cannot begin.
Result<bool> says_rate(const run::Job&);
// Returns the rate that [optimizer] or the site's own table sets, not a preset; empty: none does.
std::optional<double> rate_of_site(const run::Job&, const run::SiteTable&);

}  // namespace longhaul::cli
