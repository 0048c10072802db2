#pragma once
// facts.bin of a site's run folder: what all sites said of their own data when they met. Whoever
// comes back, scores the model or replays the site may need that of sites which are not there.
#include <optional>
#include <string>

#include "longhaul/net/hello.h"
#include "longhaul/run/workload.h"

namespace longhaul::run {

struct MetFacts {
  Rank self = 0;
  net::Introductions said;
  LONGHAUL_FIELDS(self, said)

  net::Words words() const;
};
Status write_facts(const std::string& folder, const MetFacts&);
// Nothing: the folder has none, or what cannot be read.
std::optional<MetFacts> read_facts(const std::string& folder);

// Workload::meet() with what the nodes have said. Errors name the site.
Status meet(Workload&, const Members&, const net::Words&);
// A run's workload as its folder has it: a site's own data, or those of all.
Result<Workload> workload_of_run(const Job&, const std::string& folder, bool numbers = true,
                                 const OwnLearners* = nullptr);

}  // namespace longhaul::run
