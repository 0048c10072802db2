#include "longhaul/sync/shadowsync.h"

#include "longhaul/sync/entry.h"
#include "longhaul/sync/shadow/elastic_node.h"
#include "longhaul/sync/shadow/mean_trainer.h"

namespace longhaul::sync {
namespace {

Result<ShadowConfig> config_of(const Settings& settings) {
  ShadowConfig config;
  LH_TRY(read_settings(settings, config));
  return config;
}

void adapt_shadowsync(const Settings& settings, SyncTraits& traits) {
  const auto config = config_of(settings);
  if (!config) return;  // make() reports the error
  if (config->algorithm == "easgd") {
    traits.when_lost =
        "training continues; the next site serves the centre, with a worker's parameters";
  } else if (config->is_foreground()) {
    traits.bits = Bits::rank;
    traits.when_lost = "continues without it";
  }
}

Result<std::unique_ptr<Strategy>> make_shadowsync(const Settings& settings, SyncParts parts,
                                                  const Place& place) {
  LH_LET(config, config_of(settings));
  if (config.lane_threads && config.is_foreground())
    return invalid(
        "[sync] lane_threads: expected false with mode = \"foreground\", where lanes stop for "
        "exchanges");
  if (config.algorithm != "easgd")
    return make_strategy<shadow::MeanTrainer>(settings, std::move(parts), place);
  LH_TRY(check_min_sites(config.min_sites, place));
  return std::unique_ptr<Strategy>(
      std::make_unique<shadow::ElasticNode>(config, std::move(parts), place));
}

}  // namespace

SyncEntry ShadowSync::entry() {
  return strategy_entry<shadow::MeanTrainer>(
      {.name = "shadowsync",
       .summary = "synchronise in the background while training continues (MA, BMUF, EASGD)",
       .traits = {.bits = Bits::schedule,
                  .takes_outer = false,
                  .no_feedback = "keeps what was not sent by itself",
                  .when_lost = "training continues; the open round repeats without it",
                  .lets_return = true},
       .costs = {{.rounds = "when the last has ended",
                  .sent = "an exchange of S",
                  .waits_for = "no node",
                  .staleness = "steps of 1 round",
                  .memory = "y, m: 2 S (bmuf 4 S)",
                  .when_lost = "continues"},
                 {.variant = "foreground",
                  .settings = {{"mode", {std::string("foreground")}}},
                  .rounds = "every k steps (30)",
                  .sent = "an exchange of S",
                  .waits_for = "all, every k steps",
                  .staleness = "0",
                  .memory = "y, m: 2 S (bmuf 4 S)"},
                 {.variant = "easgd",
                  .settings = {{"algorithm", {std::string("easgd")}}},
                  .rounds = "when n exchanges have ended",
                  .sent = "S, and S back",
                  .waits_for = "no node",
                  .staleness = "steps of 1 exchange",
                  .memory = "S",
                  .when_lost = "continues"}},
       .adapt = adapt_shadowsync},
      make_shadowsync);
}

}  // namespace longhaul::sync
