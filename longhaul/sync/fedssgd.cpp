// FedSSGD: synchronous SGD whose sites count by their samples. A name without a definition that we
// know of (FedGSync, OpenReview UGpu360ONV, compares with it): both readings are ours.
//   step: Chen et al., "Revisiting distributed synchronous SGD", 2016, with weights of sites
//   semi: everybody trains for the same time, as in Stripelis, Thompson, Ambite, "Semi-synchronous
//   federated learning for energy-efficient training and accelerated convergence in cross-silo
//   settings", ACM TIST 2022, section 4
#include <algorithm>
#include <cmath>

#include "longhaul/sync/entry.h"
#include "longhaul/sync/gradient_rounds.h"
#include "longhaul/sync/local_update.h"

namespace longhaul::sync {

SyncEntry fedssgd_entry();  // of both readings

namespace {

// n_k; 1 of a learner that does not tell.
double samples_of_site(const Computed& computed) {
  return double(std::max<std::uint64_t>(computed.shard_size, 1));
}

struct FedSsgdConfig {
  std::string reading = "step";
  std::uint32_t steps = 10;
  std::uint32_t max_steps = 1000;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(reading,
                 "step: the mean gradient of every step; semi: the mean update of the steps that "
                 "fit into the slowest worker's time",
                 .choices = {"step", "semi"});
    LONGHAUL_KEY(steps, "semi: of the slowest in a round (H), and of all in the first", .min = 1,
                 .max = 1e6);
    LONGHAUL_KEY(max_steps, "semi: most local steps in a round", .min = 1, .max = 1e6);
  }
};

bool is_by_step(const Settings& settings) {
  return settings.text("reading").value_or(FedSsgdConfig{}.reading) == "step";
}

// x <- opt(x, sum n_k g_k / sum n_k)
class FedSsgdByStep final : public GradientRounds {
 public:
  using Config = FedSsgdConfig;
  static SyncEntry entry() { return fedssgd_entry(); }
  FedSsgdByStep(const Config&, SyncParts parts) : GradientRounds(entry(), std::move(parts)) {}

 private:
  double weight(const Computed& computed) const override { return samples_of_site(computed); }
};

// X <- X + outer(sum n_k (x_k - X) / sum n_k) after Delta = H max c_j, of the last round's step
// times c_j, which all learn from the exchange.
class FedSsgdByTime final : public Synchronous {
 public:
  using Config = FedSsgdConfig;
  static SyncEntry entry() { return fedssgd_entry(); }
  static Status check(const Config& config, const Place&) {
    if (config.steps <= config.max_steps) return Ok{};
    return invalid("[sync] steps = " + std::to_string(config.steps) + " is more than max_steps = " +
                   std::to_string(config.max_steps) + ": raise max_steps");
  }

  FedSsgdByTime(const Config& config, SyncParts parts, const Place& place)
      : Synchronous(entry(), std::move(parts)), config_(config), ranks_(place.size()) {}

  void on_computed(const Computed& computed, Turn& turn) override {
    step_s_ = seconds(computed.elapsed) / computed.steps;
    turn.record("steps", round(), computed.steps);
    const std::vector<float> update = local_.update(turn);
    LocalResult mine{.values = update,
                     .buffers = buffers(turn),
                     .weight = samples_of_site(computed),
                     .loss = computed.loss,
                     .samples = computed.samples,
                     .scalars = std::vector<float>(scalars())};
    mine.scalars[turn.self()] = float(step_s_);
    mine.scalars[ranks_ + turn.self()] = 1;
    contribute(mine, turn);
  }

  void state(Archive& ar) override {
    Synchronous::state(ar);
    ar(local_, step_s_, delta_s_);
  }

 private:
  void begin_run(Turn& turn) override { local_.anchor(turn); }

  // The number of steps that end within Delta, one at least. kSlack allows for steps measured a
  // little too long.
  void begin_round(Turn& turn) override {
    constexpr double kSlack = 1e-3;
    double steps = config_.steps;
    if (delta_s_ > 0 && step_s_ > 0) steps = std::floor(delta_s_ / step_s_ * (1 + kSlack));
    turn.compute(LocalStep{}, std::uint32_t(std::clamp(steps, 1.0, double(config_.max_steps))));
  }

  void use_mean(std::span<float> mean, Turn& turn) override {
    if (!turn.place().phantom) delta_s_ = config_.steps * slowest();
    local_.apply(mean, outer(), turn);
    end_round(turn);
  }

  void on_returned(Turn&) override { step_s_ = 0; }  // it is the sender's
  bool fits(std::size_t parameters) const override {
    return Synchronous::fits(parameters) && local_.fits(parameters);
  }
  // By rank: c_j, and 1; both 0 for ranks without a contribution. The ratio is free of weights.
  std::size_t scalars() const override { return 2 * std::size_t(ranks_); }
  double slowest() const {
    const auto all = mean_scalars();
    double most = 0;
    for (std::size_t j = 0; j < ranks_; ++j)
      if (all[ranks_ + j] > 0) most = std::max(most, double(all[j]) / double(all[ranks_ + j]));
    return most;
  }

  const Config config_;
  const std::uint32_t ranks_;
  LocalUpdate local_;
  double step_s_ = 0;   // c of this worker, in the last round
  double delta_s_ = 0;  // Delta of the round; 0: not known
};

}  // namespace

SyncEntry fedssgd_entry() {
  return strategy_entry<FedSsgdByTime>(
      {.name = "fedssgd",
       .summary = "sites count by their samples: every step, or after the time of the slowest's",
       // The number of steps in a time depends on times.
       .traits = {.bits = Bits::schedule,
                  .takes_gaps = true,
                  .when_lost = "continues without it, weights renormalised",
                  .lets_return = true},
       .costs = {{.variant = "by step",
                  .settings = {{"reading", {std::string("step")}}},
                  .rounds = "every step",
                  .sent = "an exchange of S",
                  .waits_for = "all, every step",
                  .staleness = "0",
                  .memory = "none"},
                 {.variant = "by time",
                  .settings = {{"reading", {std::string("semi")}}},
                  .rounds = "when the slowest has H steps (10)",
                  .sent = "an exchange of S",
                  .waits_for = "all",
                  .staleness = "0",
                  .memory = "anchor: S"}},
       .adapt =
           [](const Settings& settings, SyncTraits& traits) {
             if (is_by_step(settings)) traits.bits = Bits::rank;
           }},
      [](const Settings& settings, SyncParts parts, const Place& place) {
        const auto make =
            is_by_step(settings) ? make_strategy<FedSsgdByStep> : make_strategy<FedSsgdByTime>;
        return make(settings, std::move(parts), place);
      });
}

}  // namespace longhaul::sync
