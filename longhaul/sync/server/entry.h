#pragma once
// As sync/entry.h, of a strategy with a parameter server. `Part` names its Config, its Worker and
// its Server, which are made from (Config, Setup), and if it needs them has
//   static Status check(const Config&, const Setup&);            // what no range of a key says
//   static std::uint64_t commits(const Config&, const Setup&);   // that a round is
#include "longhaul/sync/entry.h"
#include "longhaul/sync/server/server_strategy.h"

namespace longhaul::sync::server {

// A worker, the server, or both, by the node's roles; of a witness neither.
template <class Part>
Result<std::unique_ptr<Strategy>> make_strategy(const Settings& settings, SyncParts parts,
                                                const Place& place) {
  typename Part::Config config;
  LH_TRY(read_settings(settings, config));
  if (place.me().is(Role::witness))
    return std::unique_ptr<Strategy>(
        std::make_unique<Relay>(SyncParts{}, Part::entry().traits.lets_return));
  auto strategy = std::make_unique<ServerStrategy>(Part::entry().name, std::move(parts), place);
  strategy->let_return(Part::entry().traits.lets_return);
  const Setup& setup = strategy->setup();
  LH_TRY(check_roles(setup.name, setup.server, place));
  if constexpr (requires { Part::check(config, setup); }) LH_TRY(Part::check(config, setup));
  if constexpr (requires { Part::commits(config, setup); })
    strategy->commits_a_round(Part::commits(config, setup));
  std::unique_ptr<ParameterServerWorker> worker;
  std::unique_ptr<ParameterServer> server;
  if (place.me().is(Role::worker)) worker = std::make_unique<typename Part::Worker>(config, setup);
  if (strategy->may_serve()) server = std::make_unique<typename Part::Server>(config, setup);
  strategy->put(std::move(worker), std::move(server));
  return std::unique_ptr<Strategy>(std::move(strategy));
}

// Adds what all of them have in common: the server commits in order of arrival, and the model is
// changed there, by the strategy's own rule.
template <class Part>
SyncEntry strategy_entry(SyncEntry said, decltype(SyncEntry::make) make = make_strategy<Part>) {
  constexpr std::string_view kOverlay = "hub";
  said.traits.bits = Bits::schedule;
  said.traits.takes_outer = false;
  said.traits.served = true;
  said.traits.server_is_needed = true;
  said.traits.only_overlay = kOverlay;
  said.presets.push_back({"overlay", "kind", {std::string(kOverlay)}});
  return sync::strategy_entry<Part>(std::move(said), make);
}

}  // namespace longhaul::sync::server
