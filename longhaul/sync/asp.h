#pragma once
// Asynchronous parallel training with a parameter server: every worker takes a step from the model
// it was given, the server adds the step to the model that it has by then, at once and in the order
// of arrival, and gives the worker the new one. Nobody waits for another worker.
//   Dean et al., "Large scale distributed deep networks", NIPS 2012, section 4.1 (Downpour SGD,
//   with one step a push).
// With `compensation`, what other workers have changed meanwhile is made up for:
//   Zheng et al., "Asynchronous stochastic gradient descent with delay compensation", ICML 2017,
//   equation 10 (constant) and section 4 (adaptive).
//
// A push is an update u = -eta g by the worker's own optimiser, so that all of [optimizer] counts.
// The compensation takes g = -u / eta from it, with eta = [optimizer] rate: exact for plain SGD.
#include "longhaul/core/registry.h"
#include "longhaul/sync/local_update.h"
#include "longhaul/sync/server/parameter_server.h"
#include "longhaul/sync/server/parameter_server_worker.h"

namespace longhaul::sync {

struct AspConfig {
  std::string compensation = "none";
  double lambda = 0.04;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(compensation,
                   .doc =
                       "of what others changed since the worker was given its model (DC-ASGD): "
                       "none; constant: by lambda; adaptive: by lambda over the root mean square "
                       "of the gradients",
                   .choices = {"none", "constant", "adaptive"});
    LONGHAUL_FIELD(lambda, .doc = "how much is made up for; published: 0.04 constant, 2 adaptive",
                   .min = 0, .max = 1e6);
  }
};

class AspWorker final : public server::ParameterServerWorker {
 public:
  AspWorker(const AspConfig&, const server::Setup& setup) : ParameterServerWorker(setup) {}
  void state(Archive&) override;

 private:
  void begin(Turn&) override;
  void computed(const Computed&, Turn&) override;

  LocalUpdate local_;
};

class AspServer final : public server::ParameterServer {
 public:
  AspServer(const AspConfig& config, const server::Setup& setup)
      : ParameterServer(setup), config_(config) {}
  void state(Archive&) override;

 private:
  Taken commit(Rank from, const server::ServerHeader&, std::span<const float> values,
               Turn&) override;
  void on_model_sent(Rank, Turn&) override;
  void drop(Rank rank) override { bak_.erase(rank); }
  bool compensates() const { return config_.compensation != "none"; }
  double compensation(std::size_t i, double u, double apart);

  const AspConfig config_;
  std::map<Rank, Snapshot> bak_;     // the model as each worker was given it
  std::vector<double> mean_square_;  // of the gradients; adaptive only
};

struct Asp {
  using Config = AspConfig;
  using Worker = AspWorker;
  using Server = AspServer;
  static SyncEntry entry();
  static Status check(const Config&, const server::Setup&);
};

}  // namespace longhaul::sync
