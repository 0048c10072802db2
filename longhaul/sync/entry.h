#pragma once
// strategy_entry() completes the entry() of a strategy: how a node's strategy is made from the
// settings of [sync], and how those are documented. min_sites and min_clients are checked here.
//
// A strategy is a class `Part` with `struct Config` (fields()), a constructor from (Config,
// SyncParts) or (Config, SyncParts, Place), and if it needs them
//   static Status check(const Config&, const Place&);            // beside the ranges of the keys
//   static std::unique_ptr<Machine> service(const Config&);      // what nodes without a learner
//                                                                // serve beside the overlay
#include <concepts>

#include "longhaul/core/registry.h"
#include "longhaul/sync/quorum.h"
#include "longhaul/sync/relay.h"

namespace longhaul::sync {

// Reads and checks the table on every node; those without a learner serve the overlay alone.
template <class Part>
Result<std::unique_ptr<Strategy>> make_strategy(const Settings& settings, SyncParts parts,
                                                const Place& place) {
  using Config = typename Part::Config;
  Config config;
  LH_TRY(read_settings(settings, config));
  if constexpr (requires { Part::check(config, place); }) LH_TRY(Part::check(config, place));
  if constexpr (requires { config.fraction; })
    LH_TRY(check_min_clients(config.min_clients, place, config.fraction));
  else if constexpr (requires { config.min_clients; })
    LH_TRY(check_min_clients(config.min_clients, place));
  if constexpr (requires { config.min_sites; }) LH_TRY(check_min_sites(config.min_sites, place));
  if (place.me().is(Role::worker)) {
    if constexpr (std::constructible_from<Part, const Config&, SyncParts, const Place&>)
      return std::unique_ptr<Strategy>(std::make_unique<Part>(config, std::move(parts), place));
    else
      return std::unique_ptr<Strategy>(std::make_unique<Part>(config, std::move(parts)));
  }
  std::unique_ptr<Machine> service;
  if constexpr (requires { Part::service(config); }) service = Part::service(config);
  return std::unique_ptr<Strategy>(std::make_unique<Relay>(
      std::move(parts), Part::entry().traits.lets_return, std::move(service)));
}

// Returns the Config that `adapt` of an entry uses; the defaults if the settings are invalid.
template <class Config>
Config config_of(const Settings& settings) {
  Config config;
  return read_settings(settings, config) ? config : Config{};
}

template <class Config>
std::vector<FieldDoc> describe_settings() {
  return describe(Config{});
}

// `make`: of a kind whose settings choose between several classes.
template <class Part>
SyncEntry strategy_entry(SyncEntry said, decltype(SyncEntry::make) make = make_strategy<Part>) {
  said.make = make;
  said.describe = describe_settings<typename Part::Config>;
  return said;
}

}  // namespace longhaul::sync
