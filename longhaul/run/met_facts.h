#pragma once
// facts.bin of a site's run folder: the facts that all sites sent about their own data at the
// meeting. A site that rejoins, scores the model or replays may need those of absent sites.
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
// Returns nothing if the folder has none, or an unreadable one.
std::optional<MetFacts> read_facts(const std::string& folder);

// Calls Workload::meet() with the facts of the nodes. Errors name the site.
Status meet(Workload&, const Members&, const net::Words&);
// Returns the workload of a run from its folder: a site's own data, or those of all sites.
Result<Workload> workload_of_run(const Job&, const std::string& folder, bool numbers = true,
                                 const OwnLearners* = nullptr);

// Returns nothing if the folder has none, or unreadable ones.
std::optional<net::KeptVotes> read_votes(const std::string& folder);
// Returns an Error for votes of another node, because two nodes would then vote as one.
Result<std::optional<net::KeptVotes>> read_own_votes(const std::string& folder, const Members&,
                                                     Rank self);
// Returns a function that writes the votes, on any thread. After an Error there is no file, so that
// older votes never replace these.
std::function<Status(const net::KeptVotes&)> keeps_votes(const std::string& folder);

}  // namespace longhaul::run
