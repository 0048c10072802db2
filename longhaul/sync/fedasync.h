#pragma once
// Asynchronous federated learning: every worker takes local steps from the model it was given,
// tied to it by a proximal term, and sends its model; the server mixes it into its own at once, the
// less the older the one was that the worker began with, and gives the worker the new one.
//   Xie, Koyejo, Gupta, "Asynchronous federated optimization", OPT 2020, algorithm 1 and section 5
//   (functions of the staleness).
#include "longhaul/core/registry.h"
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
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(steps, .doc = "local steps between two pushes (H)", .min = 1);
    LONGHAUL_FIELD(alpha, .doc = "share of a model of staleness 0 in the server's", .max = 1,
                   .positive = true);
    LONGHAUL_FIELD(rule,
                   .doc =
                       "by what alpha is multiplied at staleness t: constant: 1; poly: (1+t)^-a; "
                       "hinge: 1 up to b, then 1/(a(t-b)+1)",
                   .choices = {"constant", "poly", "hinge"});
    LONGHAUL_FIELD(rule_a, .doc = "a of the rule; published: 0.5 poly, 10 hinge", .min = 0);
    LONGHAUL_FIELD(rule_b, .doc = "b of rule hinge", .min = 0);
    LONGHAUL_FIELD(prox, .doc = "weight of the proximal term of local steps; 0: none", .min = 0);
    LONGHAUL_FIELD(max_staleness, .doc = "of older models the server takes nothing",
                   .unit = "versions");
  }
};

// s(t): what alpha is multiplied by.
double share_at(const FedAsyncConfig&, std::uint64_t staleness);

class FedAsyncWorker final : public server::ParameterServerWorker {
 public:
  FedAsyncWorker(const FedAsyncConfig& config, const server::Setup& setup)
      : ParameterServerWorker(setup), config_(config) {}

 private:
  void begin(Turn&) override;
  void computed(const Computed&, Turn&) override;

  const FedAsyncConfig config_;
};

class FedAsyncServer final : public server::ParameterServer {
 public:
  FedAsyncServer(const FedAsyncConfig& config, const server::Setup& setup)
      : ParameterServer(setup), config_(config) {}

 private:
  Taken commit(Rank from, const server::ServerHeader&, std::span<const float> values,
               Turn&) override;

  const FedAsyncConfig config_;
};

struct FedAsync {
  using Config = FedAsyncConfig;
  using Worker = FedAsyncWorker;
  using Server = FedAsyncServer;
  static SyncEntry entry();
};

}  // namespace longhaul::sync
