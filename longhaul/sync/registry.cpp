#include "longhaul/sync/registry.h"

#include "longhaul/sync/bsp.h"
#include "longhaul/sync/diloco.h"
#include "longhaul/sync/fedavg.h"
#include "longhaul/sync/relay.h"

namespace longhaul::sync {
namespace {

// Reads and checks the table on every node; those without a learner serve the overlay alone.
template <class Part>
Result<std::unique_ptr<Strategy>> make(const Settings& settings, SyncParts parts,
                                       const Place& place) {
  typename Part::Config config;
  LH_TRY(read_settings(settings, config));
  LH_TRY(Part::check(config, place));
  if (!place.me().is(Role::worker))
    return std::unique_ptr<Strategy>(std::make_unique<Relay>(std::move(parts), Part::kLetsReturn));
  return std::unique_ptr<Strategy>(std::make_unique<Part>(config, std::move(parts)));
}

template <class Part>
std::vector<FieldDoc> describe() {
  return longhaul::describe(typename Part::Config{});
}

std::vector<Preset> nothing() { return {}; }

constexpr SyncEntry kEntries[] = {
    {"bsp",
     "average the gradients of every step",
     make<Bsp>,
     describe<Bsp>,
     nothing,
     {.when_lost = "waits until the others agree that it is gone, repeats the step without it"}},
    {"fedavg",
     "average the updates of some local steps (FedAvg, local SGD)",
     make<FedAvg>,
     describe<FedAvg>,
     nothing,
     {.when_lost = "goes on without it, weights renormalised; ends the run below min_sites",
      .lets_return = FedAvg::kLetsReturn}},
    {"diloco",
     "average the updates of many local steps, Nesterov momentum outside",
     make<DiLoCo>,
     describe<DiLoCo>,
     DiLoCo::presets,
     {.when_lost = "goes on without it; ends the run below min_sites",
      .lets_return = DiLoCo::kLetsReturn}},
};

}  // namespace

std::span<const SyncEntry> registry() { return kEntries; }

}  // namespace longhaul::sync
