#pragma once
// FedAT: workers are sorted by the duration of an update and cut into tiers. Each tier averages in
// step, without the others. The server's model is a mean of the tiers' models. In it, slow tiers
// get the weights that fast tiers have earned by their number of rounds.
//   Chai et al., "FedAT: a high-performance and communication-efficient federated learning system
//   with asynchronous tiers", SC 2021 (arXiv 2010.05958). Recalled details: docs/sync/fedat.md.
#include <numeric>

#include "longhaul/core/registry.h"
#include "longhaul/sync/server/entry.h"
#include "longhaul/sync/server/parameter_server.h"
#include "longhaul/sync/server/parameter_server_worker.h"

namespace longhaul::sync {

// Extension of an update of fedat.
struct FedAtUpdate {
  LONGHAUL_MESSAGE(1, "update");
  std::uint64_t shard = 0;  // samples that the worker holds; 0 if not reported
  static void fields(auto& self, auto&& visit) { LONGHAUL_FIELD(shard, .max = 0x1p40); }
};

struct FedAtConfig {
  std::uint32_t tiers = 4;
  std::uint32_t steps = 10;
  double prox = 0.4;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(tiers, "tiers of equally many workers (M); with fewer workers, one each", .min = 1,
                 .max = 1000);
    LONGHAUL_KEY(steps, "local steps between two pushes (H)", .min = 1);
    LONGHAUL_KEY(prox, "weight of the proximal term of local steps (lambda); 0: none", .min = 0,
                 .max = 1e6);
  }
};

namespace fedat {
// Returns the ranks by (duration of an update, rank), in `tiers` parts. If the number does not
// divide, the first parts are one longer. None is empty: 1 <= tiers <= times.size().
inline std::vector<std::vector<Rank>> cut_tiers(const std::map<Rank, Time>& times,
                                                std::uint64_t tiers) {
  LH_CHECK(tiers >= 1 && tiers <= times.size());
  std::vector<std::pair<Time, Rank>> order;
  for (const auto& [rank, time] : times) order.emplace_back(time, rank);
  std::ranges::sort(order);
  std::vector<std::vector<Rank>> cut(tiers);
  for (std::size_t m = 0, next = 0; m < tiers; ++m) {
    const std::size_t end = next + order.size() / tiers + (m < order.size() % tiers ? 1 : 0);
    for (; next < end; ++next) cut[m].push_back(order[next].second);
    std::sort(cut[m].begin(), cut[m].end());
  }
  return cut;
}

// Returns for tier m the share T_{M+1-m} / T of its model; T is the sum of the tiers' rounds.
inline std::vector<double> tier_shares(const std::vector<std::uint64_t>& rounds) {
  const auto all = double(std::accumulate(rounds.begin(), rounds.end(), std::uint64_t{0}));
  std::vector<double> shares;
  for (std::size_t m = 0; m < rounds.size(); ++m)
    shares.push_back(double(rounds[rounds.size() - 1 - m]) / all);
  return shares;
}

}  // namespace fedat

class FedAtWorker final : public server::ParameterServerWorker {
 public:
  FedAtWorker(const FedAtConfig& config, const server::Setup& setup)
      : ParameterServerWorker(setup), config_(config) {}

 private:
  void begin(Turn& turn) override { compute_near(config_.prox, config_.steps, turn); }
  void computed(const Computed& done, Turn& turn) override {
    push(parameters(turn), done, /*asks=*/true, turn);
  }
  server::Extension push_extension(const Computed& done) const override {
    return server::to_extension(FedAtUpdate{done.shard_size});
  }

  const FedAtConfig config_;
};

class FedAtServer final : public server::ParameterServer {
 public:
  FedAtServer(const FedAtConfig& config, const server::Setup& setup)
      : ParameterServer(setup), config_(config) {}
  void state(Archive& ar) override {
    ParameterServer::state(ar);
    ar(given_at_, times_, held_, tiers_, models_, rounds_);
    if (!ar.loading()) return;
    const std::size_t size = setup().place.phantom ? 0 : setup().place.layout->size();
    bool fits = models_.size() == tiers_.size() && rounds_.size() == tiers_.size();
    for (const auto& model : models_) fits &= model.size() == size;
    for (const auto& [rank, held] : held_) fits &= held.model.size() == size;
    if (!fits) ar.fail("holds models of another size or number");
  }

 private:
  struct Held {  // model that waits for the rest of its tier
    std::uint64_t samples = 0;
    std::vector<float> model;
    void state(auto& ar) { ar(samples, model); }
  };
  Taken commit(Rank from, const server::ServerHeader& header, std::span<const float> values,
               Turn& turn) override {
    const std::uint64_t shard = server::from_extension<FedAtUpdate>(header.extension)->shard;
    times_.try_emplace(from, turn.now() - given_at_[from]);
    held_[from] = {std::max<std::uint64_t>(shard, 1), {values.begin(), values.end()}};
    advance(turn);
    return Taken::kept;
  }

  Status check_extension(Rank from, const server::ServerHeader& header) const override {
    if (header.kind != server::ServerHeader::Kind::push)
      return ParameterServer::check_extension(from, header);
    const auto update = server::from_extension<FedAtUpdate>(header.extension);
    return update ? Status(Ok{}) : update.error();
  }

  bool may_read(Rank rank) const override { return !held_.contains(rank); }
  void on_model_sent(Rank rank, Turn& turn) override { given_at_[rank] = turn.now(); }
  void on_loss(Turn& turn) override { advance(turn); }
  // Keeps the worker in its tier. A worker that was lost before tiers were cut joins the slowest
  // one.
  void on_return(Rank rank) override {
    if (tiers_.empty()) return;
    for (const std::vector<Rank>& tier : tiers_)
      if (std::ranges::binary_search(tier, rank)) return;
    tiers_.back().insert(std::ranges::upper_bound(tiers_.back(), rank), rank);
  }

  // Tiers are cut when every live worker has sent an update, which is then its tier's first.
  void advance(Turn& turn) {
    if (tiers_.empty()) {
      for (Rank rank : live_workers(turn))
        if (!held_.contains(rank)) return;
      if (held_.empty()) return;
      tiers_ = fedat::cut_tiers(times_, std::min<std::uint64_t>(config_.tiers, times_.size()));
      const auto w = store().values();
      models_.assign(tiers_.size(), {w.begin(), w.end()});
      rounds_.assign(tiers_.size(), 1);
    }
    for (std::size_t m = 0; m < tiers_.size() && !over(); ++m)
      if (complete(m, turn)) fold(m, turn);
  }

  bool complete(std::size_t m, const Turn& turn) const {
    bool any = false;
    for (Rank rank : tiers_[m]) {
      any |= held_.contains(rank);
      if (turn.view().has(rank) && !held_.contains(rank)) return false;
    }
    return any;
  }

  // w_m = sum n_i x_i / sum n_i;  T_m += 1;  W = sum (T_{M+1-m} / T) w_m. The same for buffers.
  void fold(std::size_t m, Turn& turn) {
    double samples = 0;
    std::vector<double> sum(models_[m].size());
    for (Rank rank : tiers_[m]) {
      const auto found = held_.find(rank);
      if (found == held_.end()) continue;
      const auto n_i = double(found->second.samples);
      samples += n_i;
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += n_i * double(found->second.model[k]);
      held_.erase(found);
      used_samples(rank, turn);
    }
    for (std::size_t k = 0; k < sum.size(); ++k) models_[m][k] = float(sum[k] / samples);
    ++rounds_[m];
    turn.record("tier", rounds(), double(m + 1));
    const std::vector<double> shares = fedat::tier_shares(rounds_);
    const auto w = store().change();
    for (std::size_t k = 0; k < w.size(); ++k) {
      double mean = 0;
      for (std::size_t t = 0; t < shares.size(); ++t) mean += shares[t] * double(models_[t][k]);
      w[k] = float(mean);
    }
    committed(turn);
  }

  const FedAtConfig config_;
  std::map<Rank, Time> given_at_, times_;  // times_: duration of each worker's first update
  std::map<Rank, Held> held_;
  // After the first updates: the tiers, the model w_m of each tier, and its rounds T_m.
  std::vector<std::vector<Rank>> tiers_;
  std::vector<std::vector<float>> models_;
  std::vector<std::uint64_t> rounds_;
};

struct FedAt {
  using Config = FedAtConfig;
  using Worker = FedAtWorker;
  using Server = FedAtServer;
  // A worker sends its model, not an update: an error fed back would belong to another model.
  static SyncEntry entry() {
    return server::strategy_entry<FedAt>(
        {.name = "fedat",
         .summary = "tiers of equally fast workers average in step, the server mixes their models",
         .traits = {.no_feedback = "sends its model, which must not hold what was lost of another",
                    .takes_unbiased = false,
                    .when_lost =
                        "its tier goes on without it, what it gave counts; without the server the "
                        "others wait, unless [server] standby_every gives it a follower",
                    .lets_return = true},
         .costs = {{.rounds = "a tier's H steps (10)",
                    .sent = "S, and receives S",
                    .waits_for = "its tier",
                    .staleness = "as tiers differ",
                    .memory = "server (M+n) S",
                    .when_lost = "goes on"}}});
  }

  static server::Extension update_extension(std::uint64_t shard) {
    return server::to_extension(FedAtUpdate{shard});
  }
  // Returns the commits in a round, which is one round of every tier on average.
  static std::uint64_t commits(const Config& config, const server::Setup& setup) {
    return std::min<std::uint64_t>(config.tiers, setup.workers.size());
  }
};

}  // namespace longhaul::sync
