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

void FedAsyncWorker::begin(Turn& turn) {
  if (config_.prox == 0 || turn.place().phantom) return compute(LocalStep{}, config_.steps, turn);
  const auto x = turn.params();
  const auto anchor = std::make_shared<const std::vector<float>>(x.begin(), x.end());
  compute(ProximalStep{config_.prox, anchor}, config_.steps, turn);
}

void FedAsyncWorker::computed(const Computed& done, Turn& turn) {
  push(parameters(turn), done, /*asks=*/true, turn);
}

// x <- (1 - alpha_t) x + alpha_t w; buffers alike
bool FedAsyncServer::commit(Rank, const server::Label& label, std::span<const float> w, Turn&) {
  const std::uint64_t staleness = store().version() - label.version;
  if (staleness > config_.max_staleness) return false;
  mix(store().change(), w, config_.alpha * share_at(config_, staleness));
  return true;
}

}  // namespace longhaul::sync
