#include "longhaul/sync/fedasync.h"

#include <cmath>

namespace longhaul::sync {

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
