// Bulk synchronous parallel training: in every step all workers average their gradients, and each
// applies the mean with its own copy of the optimiser.
//   Valiant, "A bridging model for parallel computation", CACM 1990, section 3 (supersteps);
//   Chen et al., "Revisiting distributed synchronous SGD", 2016, algorithms 1 and 2 (no backups).
#include "longhaul/sync/entry.h"
#include "longhaul/sync/gradient_rounds.h"

namespace longhaul::sync {
namespace {

class Bsp final : public GradientRounds {
 public:
  struct Config {  // no settings
    static void fields(auto&, auto&&) {}
  };

  static SyncEntry entry() {
    return strategy_entry<Bsp>(
        {.name = "bsp",
         .summary = "average the gradients of every step",
         .traits = {.takes_gaps = true,
                    .when_lost = "waits until the others agree that it is gone, repeats the step "
                                 "without it",
                    .lets_return = true},
         .costs = {{.rounds = "every step",
                    .sent = "an exchange of S",
                    .waits_for = "all, every step",
                    .staleness = "0",
                    .memory = "none",
                    .when_lost = "agreed mean, goes on"}}});
  }

  Bsp(const Config&, SyncParts parts) : GradientRounds(entry(), std::move(parts)) {}
};

}  // namespace

SyncEntry bsp_entry() { return Bsp::entry(); }

}  // namespace longhaul::sync
