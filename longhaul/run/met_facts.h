#pragma once
// facts.bin of a site's run folder: what all sites said of their own data when they met. Whoever
// comes back, scores the model or replays the site may need that of sites which are not there.
#include <functional>
#include <optional>
#include <string>

#include "longhaul/net/event_loop.h"
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

// Null: the folder has none, or what cannot be read.
std::optional<net::KeptVotes> read_votes(const std::string& folder);
// Error: they are of another node, and two would vote as one.
Result<std::optional<net::KeptVotes>> read_own_votes(const std::string& folder, const Members&,
                                                     Rank self);
// Writes them, on any thread. After an Error there is no file: older votes are never taken for
// these.
std::function<Status(const net::KeptVotes&)> keeps_votes(const std::string& folder);

}  // namespace longhaul::run
