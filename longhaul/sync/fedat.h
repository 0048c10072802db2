#pragma once
// FedAT: workers are sorted by the time that an update of theirs takes and cut into tiers. Each
// tier averages in step with itself alone; the server's model is a mean of the tiers' models, in
// which slow tiers get the weights that fast ones have earned by their number of rounds.
//   Chai et al., "FedAT: a high-performance and communication-efficient federated learning system
//   with asynchronous tiers", SC 2021 (arXiv 2010.05958); docs/sync/fedat.md says what is recalled.
#include "longhaul/core/registry.h"
#include "longhaul/sync/server/parameter_server.h"
#include "longhaul/sync/server/parameter_server_worker.h"

namespace longhaul::sync {

// What only the updates of fedat say.
struct FedAtUpdate {
  static constexpr std::uint16_t kKind = 1;
  static constexpr std::string_view kName = "update";
  std::uint64_t shard = 0;  // samples that the worker holds; 0: it does not tell
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(shard, .max = 0x1p40);
  }
};

struct FedAtConfig {
  std::uint32_t tiers = 4;
  std::uint32_t steps = 10;
  double prox = 0.4;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(tiers, .doc = "tiers of equally many workers (M); with fewer workers, one each",
                   .min = 1, .max = 1000);
    LONGHAUL_FIELD(steps, .doc = "local steps between two pushes (H)", .min = 1);
    LONGHAUL_FIELD(prox, .doc = "weight of the proximal term of local steps (lambda); 0: none",
                   .min = 0, .max = 1e6);
  }
};

namespace fedat {
// Ranks by (time of an update, rank), in `tiers` parts of which the first are one longer where the
// number does not divide. None is empty: 1 <= tiers <= times.size().
std::vector<std::vector<Rank>> cut_tiers(const std::map<Rank, Time>& times, std::uint64_t tiers);
// Of tier m, the share T_{M+1-m} / T of its model; T is the sum of the tiers' rounds.
std::vector<double> tier_shares(const std::vector<std::uint64_t>& rounds);
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
  void state(Archive&) override;

 private:
  struct Held {  // a model that waits for the rest of its tier
    std::uint64_t samples = 0;
    std::vector<float> model;
    void state(auto& ar) { ar(samples, model); }
  };
  Taken commit(Rank from, const server::ServerHeader&, std::span<const float> values,
               Turn&) override;
  Status check_extension(Rank, const server::ServerHeader&) const override;
  bool may_read(Rank rank) const override { return !held_.contains(rank); }
  void on_model_sent(Rank rank, Turn& turn) override { given_at_[rank] = turn.now(); }
  void on_loss(Turn& turn) override { advance(turn); }
  void on_return(Rank) override;

  void advance(Turn&);
  bool complete(std::size_t tier, const Turn&) const;
  void fold(std::size_t tier, Turn&);

  const FedAtConfig config_;
  std::map<Rank, Time> given_at_, times_;  // times_: of each worker's first update
  std::map<Rank, Held> held_;
  // Once all have given an update: the tiers, the model w_m of each and its rounds T_m.
  std::vector<std::vector<Rank>> tiers_;
  std::vector<std::vector<float>> models_;
  std::vector<std::uint64_t> rounds_;
};

struct FedAt {
  using Config = FedAtConfig;
  using Worker = FedAtWorker;
  using Server = FedAtServer;
  static SyncEntry entry();
  static server::Extension update_extension(std::uint64_t shard) {
    return server::to_extension(FedAtUpdate{shard});
  }
  // A round is one of every tier, on average.
  static std::uint64_t commits(const Config& config, const server::Setup& setup) {
    return std::min<std::uint64_t>(config.tiers, setup.workers.size());
  }
};

}  // namespace longhaul::sync
