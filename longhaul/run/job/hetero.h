#pragma once
// How fast the sites of a job are: what [hetero] comes to for each of them, and whether what they
// say of their steps fits together.
#include "longhaul/run/job/job.h"

namespace longhaul::run {

// Puts step_ms and drift of every site with workers in the place of [hetero], so that the job and
// its hash hold what it comes to. A site with a step time of its own beside a spread is an Error.
Status expand_hetero(Document&);

// Checks what the sites say of traces and drift; a site with a trace has its first value as
// step_ms from then on.
Status settle_step_times(const Document&, Job&);

}  // namespace longhaul::run
