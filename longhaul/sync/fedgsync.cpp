#include "longhaul/sync/fedgsync.h"

#include "longhaul/sync/server/entry.h"

namespace longhaul::sync {

SyncEntry FedGSync::entry() {
  return server::strategy_entry<FedGSync>(
      {.name = "fedgsync",
       .summary = "workers grouped by their data: a round waits for a quota of each group",
       .traits = {.when_lost = "what it gave counts, quotas are of who is left; without the server "
                               "the others wait, unless [server] standby_every gives it a follower",
                  .lets_return = true},
       // Groups are formed again within a few rounds.
       .small = {{"regroup", {std::int64_t{3}}}},
       .costs = {{.rounds = "a round of H steps (10)",
                  .sent = "S, and receives S",
                  .waits_for = "some of each group",
                  .staleness = "at most 16",
                  .memory = "server 2 n S",
                  .when_lost = "goes on"}}});
}

}  // namespace longhaul::sync
