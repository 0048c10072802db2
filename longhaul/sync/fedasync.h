#pragma once
// Asynchronous federated learning: every worker takes local steps from the received model, with a
// proximal term, and sends its model. The server mixes it into its own model at once, with less
// weight if the received model was older. Then it sends the worker the new model.
//   Xie, Koyejo, Gupta, "Asynchronous federated optimization", OPT 2020, algorithm 1 and section 5
//   (functions of the staleness).
#include <cmath>

#include "longhaul/core/registry.h"
#include "longhaul/sync/server/entry.h"
#include "longhaul/sync/server/parameter_server.h"
#include "longhaul/sync/server/parameter_server_worker.h"

namespace longhaul::sync {

struct FedAsyncConfig {
  std::uint32_t steps = 20;
  double alpha = 0.6;
  std::string rule = "poly";
  double rule_a = 0.5;
  double rule_b = 4;
  double prox = 0.005;
  std::uint32_t max_staleness = 16;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(steps, "local steps between two pushes (H)", .min = 1);
    LONGHAUL_KEY(alpha, "share of a model of staleness 0 in the server's", .max = 1,
                 .positive = true);
    LONGHAUL_KEY(rule,
                 "factor of alpha at staleness t: constant: 1; poly: (1+t)^-a; hinge: 1 up to b, "
                 "then 1/(a(t-b)+1)",
                 .choices = {"constant", "poly", "hinge"});
    LONGHAUL_KEY(rule_a, "a of the rule; published: 0.5 poly, 10 hinge", .min = 0);
    LONGHAUL_KEY(rule_b, "b of rule hinge", .min = 0);
    LONGHAUL_KEY(prox, "weight of the proximal term of local steps; 0: none", .min = 0);
    LONGHAUL_KEY(max_staleness, "the server takes nothing from older models", .unit = "versions");
  }
};

// Returns s(t), the factor of alpha.
inline double share_at(const FedAsyncConfig& config, std::uint64_t staleness) {
  const auto t = double(staleness);
  if (config.rule == "poly") return std::pow(1 + t, -config.rule_a);
  if (config.rule == "hinge" && t > config.rule_b)
    return 1 / (config.rule_a * (t - config.rule_b) + 1);
  return 1;
}

class FedAsyncWorker final : public server::ParameterServerWorker {
 public:
  FedAsyncWorker(const FedAsyncConfig& config, const server::Setup& setup)
      : ParameterServerWorker(setup), config_(config) {}

 private:
  void begin(Turn& turn) override { compute_near(config_.prox, config_.steps, turn); }

  void computed(const Computed& done, Turn& turn) override {
    push(parameters(turn), done, /*asks=*/true, turn);
  }

  const FedAsyncConfig config_;
};

class FedAsyncServer final : public server::ParameterServer {
 public:
  FedAsyncServer(const FedAsyncConfig& config, const server::Setup& setup)
      : ParameterServer(setup), config_(config) {}

 private:
  // Sets x to (1 - alpha_t) x + alpha_t w, buffers too.
  Taken commit(Rank, const server::ServerHeader& header, std::span<const float> w, Turn&) override {
    const std::uint64_t staleness = store().version() - header.version;
    if (staleness > config_.max_staleness) return Taken::discarded;
    mix(store().change(), w, config_.alpha * share_at(config_, staleness));
    return Taken::committed;
  }

  const FedAsyncConfig config_;
};

struct FedAsync {
  using Config = FedAsyncConfig;
  using Worker = FedAsyncWorker;
  using Server = FedAsyncServer;
  // A worker sends its model, not an update: an error fed back would belong to another model.
  static SyncEntry entry() {
    return server::strategy_entry<FedAsync>(
        {.name = "fedasync",
         .summary = "mix every worker's model into the server's as it comes, the less the older it "
                    "is",
         .traits = {.no_feedback = "sends its model, which must not hold what was lost of another",
                    .takes_unbiased = false,
                    .when_lost = "continues without it, its updates stay; without the server the "
                                 "others wait, unless [server] standby_every gives it a follower",
                    .lets_return = true},
         .costs = {{.rounds = "every H steps (20)",
                    .sent = "S, and receives S",
                    .waits_for = "the server: 2 (L + T)",
                    .staleness = "at most 16",
                    .memory = "anchor: S",
                    .when_lost = "continues"}}});
  }
};

}  // namespace longhaul::sync
