#pragma once
// What [[wan.shared]], [[wan.trace]] and a preset's redraws add to a network that has its sites and
// pairs.
#include "longhaul/run/job/job.h"
#include "longhaul/run/job/site_index.h"
#include "longhaul/run/job/wan_preset.h"

namespace longhaul::run {

// In bytes per second, seconds and shares; rates times `rate_scale`.
flow::Trace trace_of(const TraceTable&, double rate_scale);

// Both with the index of the job's sites.
void add_shared(flow::Wan&, const Job&, const SiteIndex&);
// A quantity that an earlier table follows stays with it; the preset's come last. `preset`: nullptr
// if there is none.
// A table all of whose quantities earlier ones follow is an Error; so is none of the preset's, and
// a pair whose rate a [[wan.link]] says keeps that.
Status add_traces(flow::Wan&, const Document&, const Job&, const SiteIndex&,
                  const WanPreset* preset);

}  // namespace longhaul::run
