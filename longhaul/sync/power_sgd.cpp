// PowerSGD: like bsp, but averages a product of rank r for each weight matrix of the gradient.
//   Vogels, Karimireddy, Jaggi, "PowerSGD: practical low-rank gradient compression for distributed
//   optimization", NeurIPS 2019, algorithms 1 (compression) and 2 (error feedback)
#include "longhaul/sync/entry.h"
#include "longhaul/sync/gradient_rounds.h"
#include "longhaul/sync/power/low_rank.h"

namespace longhaul::sync {
namespace {

class PowerSgd final : public GradientRounds {
 public:
  // Factors must not be sparse, and an error must not be added to other factors.
  static SyncEntry entry() {
    return strategy_entry<PowerSgd>(
        {.name = "power_sgd",
         .summary = "as bsp, gradients of weight matrices as products of low rank",
         .traits = {.no_feedback = "feeds back what its factors lose by itself",
                    .takes_unbiased = false,
                    .when_lost = "waits until the others agree that it is gone, repeats the step "
                                 "without it",
                    .lets_return = true},
         .costs = {{.rounds = "every step",
                    .sent = "two exchanges: r (rows + columns) of each matrix, the rest whole",
                    .waits_for = "all, twice every step",
                    .staleness = "0",
                    .memory = "error: S; factors: as sent",
                    .when_lost = "agreed mean, continues"}}});
  }

  struct Config {
    std::uint32_t rank = 2;
    bool warm_start = true;
    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(rank, "rank of the products that stand for matrices (r)", .min = 1, .max = 1024);
      LONGHAUL_KEY(warm_start, "begin with the last step's Q, not with a new one");
    }
  };

  PowerSgd(const Config& config, SyncParts parts, const Place& place)
      : GradientRounds(entry(), std::move(parts)),
        config_(config),
        factors_(*place.layout, config.rank) {}

  // D_k = g_k + e_k;  P <- sum B_k D_k Q / sum B_k
  void give_gradient(const Computed& computed, Turn& turn) override {
    std::vector<float> p;
    if (!turn.place().phantom) {
      draw(turn);
      const auto g = turn.grads().first(error_.size());
      for (std::size_t i = 0; i < error_.size(); ++i) error_[i] += g[i];
      p = factors_.left(error_, q_);
    }
    contribute(p, double(computed.samples), computed, turn);
  }

  void state(Archive& ar) override {
    Synchronous::state(ar);
    ar(error_, p_, q_, applying_, optimizer_);
  }

 private:
  void begin_run(Turn& turn) override {
    if (turn.place().phantom) return;
    error_.assign(parameter_count(turn.place()), 0.f);
    q_.assign(factors_.right_size(), 0.f);
  }

  std::size_t exchanged(const Turn&) const override { return factors_.left_size(); }
  std::size_t exchanged_second() const override { return factors_.right_size(); }
  // P <- orthonormal(P);  Q <- sum B_k D_k^T P / sum B_k
  void use_mean(std::span<float> mean, Turn& turn) override {
    p_.assign(mean.begin(), mean.end());
    if (factors_.right_size() == 0) return use_second_mean({}, turn);  // no matrix is factored
    std::vector<float> q;
    if (!turn.place().phantom) {
      factors_.orthonormalise(p_);
      q = factors_.right(error_, p_);
    }
    contribute_second(q, turn);
  }

  // gbar = P Q^T;  e_k <- D_k - gbar where factored, else 0;  x <- opt(x, outer(gbar))
  void use_second_mean(std::span<float> mean, Turn& turn) override {
    if (turn.place().phantom) return apply({}, turn);
    q_.assign(mean.begin(), mean.end());
    std::vector<float> gbar = factors_.product(p_, q_);
    if (!is_catching_up()) {  // else it had no gradient
      for (std::size_t i = 0; i < error_.size(); ++i) error_[i] -= gbar[i];
      factors_.clear_rest(error_);  // values that are not factored have no error
    }
    apply(gbar, turn);
  }

  // Clears the error, which belongs to the sender's factors.
  void on_returned(Turn& turn) override {
    std::ranges::fill(error_, 0.f);
    GradientRounds::on_returned(turn);
  }

  bool fits(std::size_t parameters) const override {
    return Synchronous::fits(parameters) && error_.size() == parameters &&
           p_.size() == (parameters > 0 ? factors_.left_size() : 0) &&
           q_.size() == (parameters > 0 ? factors_.right_size() : 0);
  }

  // Draws Q ~ N(0, 1), equal at all workers; with a warm start only for columns that became zero.
  void draw(Turn& turn) {
    if (!config_.warm_start) std::ranges::fill(q_, 0.f);
    Random random = turn.random(Purpose::codec, round(), 0);
    factors_.fill_empty(q_, [&] { return random.normal(); });
  }

  const Config config_;
  const power::LowRank factors_;
  std::vector<float> error_;  // e; between a gradient and its mean: g + e
  std::vector<float> p_, q_;  // newest means, equal at all workers
};

}  // namespace

SyncEntry power_sgd_entry() { return PowerSgd::entry(); }

}  // namespace longhaul::sync
