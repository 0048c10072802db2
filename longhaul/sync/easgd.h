#pragma once
// Elastic averaging: every worker trains its own model. From time to time, this model and the
// server's centre move towards each other by a share of their difference.
//   Zhang, Choromanska, LeCun, "Deep learning with elastic averaging SGD", NIPS 2015, algorithm 1
//   (asynchronous EASGD; with momentum in [optimizer], EAMSGD, algorithm 2, but for the order of
//   momentum and pull). In rounds: SynchronousEasgd.
//
// The codec's error of a pull stays in x - c at the worker, and is sent with the next pull.
#include <algorithm>

#include "longhaul/core/registry.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/server/parameter_server.h"
#include "longhaul/sync/server/parameter_server_worker.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {

struct EasgdConfig {
  std::uint32_t steps = 10;
  double beta = 0.9;
  bool synchronous = false;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(steps, "local steps between two pulls (tau)", .min = 1);
    LONGHAUL_KEY(
        beta,
        "n times the share alpha of x - c by which worker and centre move, n workers at the start",
        .max = 1, .positive = true);
    LONGHAUL_KEY(
        synchronous,
        "all pull at once, in rounds, over any overlay; false: each when it comes, at a server");
  }
};

class EasgdWorker final : public server::ParameterServerWorker {
 public:
  EasgdWorker(const EasgdConfig& config, const server::Setup& setup)
      : ParameterServerWorker(setup), config_(config) {}

 private:
  void begin(Turn&) override;
  void computed(const Computed&, Turn&) override;
  void read(const server::ServerHeader&, const Snapshot& model, Turn&) override;
  // Continues after a change of the server: the worker's model does not depend on it.
  void given_up(const Computed& done, Turn& turn) override { computed(done, turn); }
  void state(Archive&) override;

  const EasgdConfig config_;
  Computed done_;  // steps since the last push
};

class EasgdServer final : public server::ParameterServer {
 public:
  EasgdServer(const EasgdConfig& config, const server::Setup& setup)
      : ParameterServer(setup), config_(config) {}

 private:
  Taken commit(Rank from, const server::ServerHeader&, std::span<const float> values,
               Turn&) override;

  const EasgdConfig config_;
};

struct Easgd {
  using Config = EasgdConfig;
  using Worker = EasgdWorker;
  using Server = EasgdServer;
  static SyncEntry entry();
};

// Elastic averaging in rounds: all workers and the centre pull each other at once.
//   Zhang, Choromanska, LeCun, "Deep learning with elastic averaging SGD", NIPS 2015, section 2,
//   equations (5) and (6); collective, so that every worker holds the centre and none serves it.
//
//   d_i = x_i - c of the same c; x_i <- x_i - alpha d_i; c <- c + beta mean(d_i), beta = n alpha
class SynchronousEasgd final : public Synchronous {
 public:
  using Config = EasgdConfig;
  static SyncEntry entry() { return Easgd::entry(); }

  SynchronousEasgd(const Config& config, SyncParts parts)
      : Synchronous(entry(), std::move(parts)), config_(config) {}

  void on_computed(const Computed& computed, Turn& turn) override {
    contribute(difference_of(parameters(turn), centre_), 1, computed, turn);
  }

  void state(Archive& ar) override {
    Synchronous::state(ar);
    ar(centre_);
  }

 private:
  void begin_run(Turn& turn) override { assign(centre_, parameters(turn)); }

  void begin_round(Turn& turn) override { turn.compute(LocalStep{}, config_.steps); }

  // x <- x - alpha (x - c); c <- c + beta mean(x - c)
  void use_mean(std::span<float> mean, Turn& turn) override {
    const auto workers = std::ranges::count_if(
        *turn.place().members, [](const Member& member) { return member.is(Role::worker); });
    const double alpha = config_.beta / double(workers);
    const auto x = turn.params();
    for (std::size_t i = 0; i < centre_.size(); ++i) {
      const double c = double(centre_[i]);
      x[i] = float(double(x[i]) - alpha * (double(x[i]) - c));
      centre_[i] = float(c + config_.beta * double(mean[i]));
    }
    end_with_centre(turn);
  }

  void use_nothing(Turn& turn) override { end_with_centre(turn); }

  bool close(Turn& turn) override {
    std::ranges::copy(centre_, turn.params().begin());
    return true;
  }

  // Ends the round. The scored model is the centre, with the common running statistics.
  void end_with_centre(Turn& turn) {
    std::vector<float> model(turn.params().begin(), turn.params().end());
    std::ranges::copy(centre_, model.begin());
    end_round(model, turn);
  }

  const Config config_;
  std::vector<float> centre_;  // c, bit-identical at all workers; empty in a phantom job
};

}  // namespace longhaul::sync
