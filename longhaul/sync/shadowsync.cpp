#include "longhaul/sync/shadowsync.h"

#include "longhaul/sync/entry.h"
#include "longhaul/sync/shadow/mean_trainer.h"

namespace longhaul::sync {

SyncEntry ShadowSync::entry() {
  return strategy_entry<shadow::MeanTrainer>(
      {.name = "shadowsync",
       .summary = "synchronise in the background while training goes on (ShadowSync: MA, BMUF)",
       .traits = {.bits = Bits::schedule,
                  .takes_outer = false,
                  .when_lost = "training goes on; the open round repeats without it",
                  .lets_return = true},
       .small = {},
       .costs = {{.rounds = "when the last is over",
                  .sent = "an exchange of S",
                  .waits_for = "nobody",
                  .staleness = "steps of 1 round",
                  .memory = "y, m: 2 S"}}});
}

}  // namespace longhaul::sync
