#pragma once
// Asynchronous parallel training with a parameter server. Every worker takes a step from its copy
// of the model. The server adds each step to its current model at once, in the order of arrival,
// and returns the new model. No worker waits for another one.
//   Dean et al., "Large scale distributed deep networks", NIPS 2012, section 4.1 (Downpour SGD,
//   with one step a push).
// `compensation` corrects for changes by other workers in the meantime:
//   Zheng et al., "Asynchronous stochastic gradient descent with delay compensation", ICML 2017,
//   equation 10 (constant) and section 4 (adaptive).
//
// A push is an update u = -eta g by the worker's own optimiser, so that all of [optimizer] counts.
// The compensation takes g = -u / eta from it, with eta = [optimizer] rate: exact for plain SGD.
#include <cmath>

#include "longhaul/core/registry.h"
#include "longhaul/sync/local_update.h"
#include "longhaul/sync/server/entry.h"
#include "longhaul/sync/server/parameter_server.h"
#include "longhaul/sync/server/parameter_server_worker.h"

namespace longhaul::sync {

struct AspConfig {
  std::string compensation = "none";
  double lambda = 0.04;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(
        compensation,
        "correction for changes by others since the worker received its model (DC-ASGD); constant: "
        "by lambda; adaptive: by lambda over the root mean square of the gradients",
        .choices = {"none", "constant", "adaptive"});
    LONGHAUL_KEY(lambda, "how much is made up for; published: 0.04 constant, 2 adaptive", .min = 0,
                 .max = 1e6);
  }
};

class AspWorker final : public server::ParameterServerWorker {
 public:
  AspWorker(const AspConfig&, const server::Setup& setup) : ParameterServerWorker(setup) {}
  void state(Archive& ar) override {
    ParameterServerWorker::state(ar);
    ar(local_);
  }

 private:
  void begin(Turn& turn) override {
    local_.anchor(turn);
    compute(LocalStep{}, 1, turn);
  }

  // u = x' - x of one step
  void computed(const Computed& done, Turn& turn) override {
    push(local_.update(turn), done, /*asks=*/true, turn);
  }

  LocalUpdate local_;
};

class AspServer final : public server::ParameterServer {
 public:
  AspServer(const AspConfig& config, const server::Setup& setup)
      : ParameterServer(setup), config_(config) {}
  void state(Archive& ar) override {
    ParameterServer::state(ar);
    archive_snapshots(ar, bak_);
    ar(mean_square_);
    const std::size_t size = setup().place.phantom ? 0 : setup().place.layout->size();
    for (const auto& [rank, model] : bak_)
      if (model->size() != size) return ar.fail("holds a model of another size");
  }

 private:
  // x <- x + u - eta lambda_t g^2 (x - bak)
  Taken commit(Rank from, const server::ServerHeader&, std::span<const float> values,
               Turn& turn) override {
    mix_buffers(values, turn);
    const auto x = store().change().first(parameters().length);
    if (compensates() && config_.compensation == "adaptive") mean_square_.resize(x.size());
    const auto bak = bak_.find(from);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double u = double(values[i]);
      const double apart = bak == bak_.end() ? 0 : double(x[i]) - double((*bak->second)[i]);
      x[i] = float(double(x[i]) + u - (compensates() ? compensation(i, u, apart) : 0));
    }
    return Taken::committed;
  }

  void on_model_sent(Rank rank, Turn&) override {
    if (compensates()) bak_[rank] = store().snapshot();
  }

  void drop(Rank rank) override { bak_.erase(rank); }
  bool compensates() const { return config_.compensation != "none"; }
  double compensation(std::size_t i, double u, double apart) {
    const double g = -u / setup().rate;
    double lambda_t = config_.lambda;
    if (!mean_square_.empty()) {
      mean_square_[i] = 0.95 * mean_square_[i] + 0.05 * g * g;
      lambda_t /= std::sqrt(mean_square_[i] + 1e-7);
    }
    return setup().rate * lambda_t * g * g * apart;
  }

  const AspConfig config_;
  std::map<Rank, Snapshot> bak_;     // last model sent to each worker
  std::vector<double> mean_square_;  // mean squares of the gradients; adaptive only
};

struct Asp {
  using Config = AspConfig;
  using Worker = AspWorker;
  using Server = AspServer;
  static SyncEntry entry() {
    return server::strategy_entry<Asp>(
        {.name = "asp",
         .summary = "add every worker's step to the server's model as it comes (ASP, DC-ASGD)",
         .traits = {.when_lost = "continues without it, its updates stay; without the server the "
                                 "others wait, unless [server] standby_every gives it a follower",
                    .lets_return = true},
         .costs = {{.rounds = "every step",
                    .sent = "S, and receives S",
                    .waits_for = "the server: 2 (L + T)",
                    .staleness = "n - 1 at equal speeds",
                    .memory = "a step: S",
                    .when_lost = "continues"},
                   {.variant = "compensated",
                    .settings = {{"compensation", {std::string("constant")}}},
                    .rounds = "every step",
                    .sent = "the same",
                    .waits_for = "the same",
                    .staleness = "the same",
                    .memory = "the server n S more",
                    .when_lost = "continues"}},
         // g is squared: it must not contain earlier errors, and must be accurate in every push.
         .adapt = [](const Settings& settings, SyncTraits& traits) {
           if (settings.text("compensation").value_or("none") == "none") return;
           traits.no_feedback = "squares what it gets, which must not hold what was lost before";
           traits.takes_unbiased = false;
         }});
  }

  static Status check(const Config& config, const server::Setup& setup) {
    if (config.compensation == "none" || setup.rate > 0) return Ok{};
    return invalid("[sync] compensation = \"" + config.compensation +
                   "\" needs to know [optimizer] rate, which this job does not tell");
  }
};

}  // namespace longhaul::sync
