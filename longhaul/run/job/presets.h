#pragma once
// Settings that come with the sync kind: what the job file writes for one kind only, and what the
// kind itself presets.
#include <string_view>
#include <vector>

#include "longhaul/run/job/job.h"

namespace longhaul::run {

// Lays [for.KIND.TABLE] over [TABLE] for the chosen kind; the command line stays on top. A KIND
// that does not exist is an Error.
Status apply_variants(Document&, std::string_view kind);
// Sets the kind's presets where the file says nothing. Answers with all of them.
std::vector<AppliedPreset> apply_presets(Document&, const SyncEntry&);

}  // namespace longhaul::run
