#include "longhaul/sync/registry.h"

#include "longhaul/sync/asp.h"
#include "longhaul/sync/bsp.h"
#include "longhaul/sync/diloco.h"
#include "longhaul/sync/easgd.h"
#include "longhaul/sync/easgd_synchronous.h"
#include "longhaul/sync/esync.h"
#include "longhaul/sync/fedasync.h"
#include "longhaul/sync/fedat.h"
#include "longhaul/sync/fedavg.h"
#include "longhaul/sync/fedgsync.h"
#include "longhaul/sync/fedprox.h"
#include "longhaul/sync/fedssgd.h"
#include "longhaul/sync/nbsync.h"
#include "longhaul/sync/relay.h"
#include "longhaul/sync/server/server_strategy.h"
#include "longhaul/sync/ssp.h"

namespace longhaul::sync {
namespace {

// Reads and checks the table on every node; those without a learner serve the overlay alone.
template <class Part>
Result<std::unique_ptr<Strategy>> make(const Settings& settings, SyncParts parts,
                                       const Place& place) {
  typename Part::Config config;
  LH_TRY(read_settings(settings, config));
  LH_TRY(Part::check(config, place));
  if (!place.me().is(Role::worker)) {
    std::unique_ptr<Machine> service;
    if constexpr (requires { Part::service(config); }) service = Part::service(config);
    return std::unique_ptr<Strategy>(
        std::make_unique<Relay>(std::move(parts), Part::kLetsReturn, std::move(service)));
  }
  return std::unique_ptr<Strategy>(std::make_unique<Part>(config, std::move(parts)));
}

template <class Part>
std::vector<FieldDoc> describe() {
  return longhaul::describe(typename Part::Config{});
}

std::vector<Preset> nothing() { return {}; }

// Those that talk to a server by themselves: a worker, the server, or both, by the node's roles.
template <class Part>
Result<std::unique_ptr<Strategy>> make_served(const Settings& settings, SyncParts parts,
                                              const Place& place) {
  typename Part::Config config;
  LH_TRY(read_settings(settings, config));
  auto strategy = std::make_unique<server::ServerStrategy>(Part::kName, std::move(parts), place);
  const server::Setup& setup = strategy->setup();
  LH_TRY(server::check_roles(setup.name, setup.server, place));
  LH_TRY(Part::check(config, setup));
  if constexpr (requires { Part::commits(config, setup); })
    strategy->commits_a_round(Part::commits(config, setup));
  strategy->put(place.me().is(Role::worker) ? Part::worker(config, setup) : nullptr,
                place.self == setup.server ? Part::server(config, setup) : nullptr);
  return std::unique_ptr<Strategy>(std::move(strategy));
}

Result<std::unique_ptr<Strategy>> make_easgd(const Settings& settings, SyncParts parts,
                                             const Place& place) {
  EasgdConfig config;
  LH_TRY(read_settings(settings, config));
  return config.synchronous ? make<SynchronousEasgd>(settings, std::move(parts), place)
                            : make_served<Easgd>(settings, std::move(parts), place);
}

Result<std::unique_ptr<Strategy>> make_fedssgd(const Settings& settings, SyncParts parts,
                                               const Place& place) {
  FedSsgdConfig config;
  LH_TRY(read_settings(settings, config));
  return config.reading == "step" ? make<FedSsgdByStep>(settings, std::move(parts), place)
                                  : make<FedSsgdByTime>(settings, std::move(parts), place);
}
std::vector<FieldDoc> describe_fedssgd() { return longhaul::describe(FedSsgdConfig{}); }

std::vector<Preset> over_hub() { return {{"overlay", "kind", {std::string("hub")}}}; }

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
    {"fedprox",
     "FedAvg with steps pulled to the common model, and a deadline",
     make<FedProx>,
     describe<FedProx>,
     nothing,
     {.when_lost = "goes on without it, weights renormalised; ends the run below min_sites",
      .lets_return = FedProx::kLetsReturn}},
    {"fedssgd", "sites count by their samples: every step, or after the time of the slowest's",
     make_fedssgd, describe_fedssgd, nothing, FedSsgd::kTraits, nullptr, FedSsgd::traits_with},
    {"esync",
     "fast workers take local steps until the slowest is about to arrive",
     make<ESync>,
     describe<ESync>,
     nothing,
     {.bits = Bits::schedule,
      .when_lost = "goes on without it; another state server begins with what it is told"}},
    {"nbsync",
     "local steps go on while the updates of the last window are averaged",
     make<NBSync>,
     describe<NBSync>,
     nothing,
     {.bits = Bits::schedule,
      .takes_outer = NBSync::kTakesOuter,
      .when_lost = "the open window ends without it, nobody pauses for it"},
     NBSync::small},
    {"asp", "add every worker's step to the server's model as it comes (ASP, DC-ASGD)",
     make_served<Asp>, describe<Asp>, over_hub, Asp::kTraits, nullptr, Asp::traits_with},
    {"ssp", "step on copies of the server's model, the fastest a few steps ahead of the slowest",
     make_served<Ssp>, describe<Ssp>, over_hub, Ssp::kTraits},
    {"fedasync", "mix every worker's model into the server's as it comes, the less the older it is",
     make_served<FedAsync>, describe<FedAsync>, over_hub, FedAsync::kTraits},
    {"fedat", "tiers of equally fast workers average in step, the server mixes their models",
     make_served<FedAt>, describe<FedAt>, over_hub, FedAt::kTraits},
    {"fedgsync", "workers grouped by their data: a round waits for a quota of each group",
     make_served<FedGSync>, describe<FedGSync>, over_hub, FedGSync::kTraits, FedGSync::small},
    {"easgd", "workers' models and the server's centre pull each other (elastic averaging)",
     make_easgd, describe<Easgd>, over_hub, Easgd::kTraits, nullptr, Easgd::traits_with},
};

}  // namespace

std::span<const SyncEntry> registry() { return kEntries; }

}  // namespace longhaul::sync
