#pragma once
// The tables [model], [data] and [optimizer]: who reads them, and how their keys are documented.
#include <string>
#include <vector>

#include "longhaul/run/job/job.h"
#include "longhaul/run/job/reference.h"

namespace longhaul::run {

// Checks the three tables and fills in their documentation (Job::model_docs ...).
Status read_learning(Job&);

// The kinds of the three tables.
std::vector<PartInfo> learning_parts();
// The keys of [data] that hold for every kind, as a Markdown list.
std::string data_keys();

}  // namespace longhaul::run
