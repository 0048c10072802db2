#pragma once
// The setting min_sites of synchronous strategies: how many sites with workers a run goes on with.
#include "longhaul/base/fields.h"
#include "longhaul/base/result.h"
#include "longhaul/core/place.h"

namespace longhaul::sync {

template <class Visit, class Value>
void visit_min_sites(Visit&& visit, Value& min_sites) {
  visit(Field{.name = "min_sites", .doc = "sites that must be left, else the run ends", .min = 1},
        min_sites);
}

// An Error if the job has fewer sites with workers than `min_sites`.
Status check_min_sites(std::uint32_t min_sites, const Place&);

}  // namespace longhaul::sync
