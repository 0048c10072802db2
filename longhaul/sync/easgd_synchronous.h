#pragma once
// Elastic averaging in rounds: all workers and the centre pull each other at once.
//   Zhang, Choromanska, LeCun, "Deep learning with elastic averaging SGD", NIPS 2015, section 2,
//   equations (5) and (6); collective, so that every worker holds the centre and none serves it.
//
//   d_i = x_i - c of the same c; x_i <- x_i - alpha d_i; c <- c + beta mean(d_i), beta = n alpha
#include <algorithm>

#include "longhaul/sync/easgd.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {

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
  void begin_run(Turn& turn) override {
    const auto x = parameters(turn);
    centre_.assign(x.begin(), x.end());
  }

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
    std::copy(centre_.begin(), centre_.end(), turn.params().begin());
    return true;
  }

  // What is scored is the centre, with the running statistics that all have in common.
  void end_with_centre(Turn& turn) {
    std::vector<float> model(turn.params().begin(), turn.params().end());
    std::copy(centre_.begin(), centre_.end(), model.begin());
    end_round(model, turn);
  }

  const Config config_;
  std::vector<float> centre_;  // c, bit-equal at all workers; a phantom's is empty
};

}  // namespace longhaul::sync
