#include "longhaul/sync/fedasync.h"

#include <cmath>

#include "longhaul/sync/server/entry.h"

namespace longhaul::sync {

// A worker sends its model, not an update: an error fed back would be of another model.
SyncEntry FedAsync::entry() {
  return server::strategy_entry<FedAsync>(
      {.name = "fedasync",
       .summary = "mix every worker's model into the server's as it comes, the less the older it "
                  "is",
       .traits = {.no_feedback = "sends its model, which must not hold what was lost of another",
                  .takes_unbiased = false,
                  .when_lost = "goes on without it, its updates stay; without the server the run "
                               "ends, unless [server] standby_every gives it a follower",
                  .lets_return = true},
       .costs = {{.rounds = "every H steps (20)",
                  .sent = "S, and receives S",
                  .waits_for = "the server: 2 (L + T)",
                  .staleness = "at most 16",
                  .memory = "anchor: S",
                  .when_lost = "goes on"}}});
}

double share_at(const FedAsyncConfig& config, std::uint64_t staleness) {
  const auto t = double(staleness);
  if (config.rule == "poly") return std::pow(1 + t, -config.rule_a);
  if (config.rule == "hinge" && t > config.rule_b)
    return 1 / (config.rule_a * (t - config.rule_b) + 1);
  return 1;
}

void FedAsyncWorker::begin(Turn& turn) { compute_near(config_.prox, config_.steps, turn); }

void FedAsyncWorker::computed(const Computed& done, Turn& turn) {
  push(parameters(turn), done, /*asks=*/true, turn);
}

// x <- (1 - alpha_t) x + alpha_t w; buffers alike
server::ParameterServer::Taken FedAsyncServer::commit(Rank, const server::ServerHeader& header,
                                                      std::span<const float> w, Turn&) {
  const std::uint64_t staleness = store().version() - header.version;
  if (staleness > config_.max_staleness) return Taken::discarded;
  mix(store().change(), w, config_.alpha * share_at(config_, staleness));
  return Taken::committed;
}

}  // namespace longhaul::sync
