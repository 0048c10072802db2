#pragma once
// What [[wan.shared]], [[wan.trace]] and a preset's redraws add to a network that has its sites and
// pairs.
#include "longhaul/run/job/job.h"
#include "longhaul/run/job/wan_preset.h"

namespace longhaul::run {

void add_shared(flow::Wan&, const Job&);
// A quantity that an earlier table follows stays with it; the preset's come last. `preset`: nullptr
// if there is none.
// A table all of whose quantities earlier ones follow is an Error; so is none of the preset's, and
// a pair whose rate a [[wan.link]] says keeps that.
Status add_traces(flow::Wan&, const Document&, const Job&, const WanPreset* preset);

// The index of a site that check_job knows.
std::uint32_t site_index(const Job&, const std::string& name);

}  // namespace longhaul::run
