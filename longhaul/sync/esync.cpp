// ESync: in every round, fast workers take further local steps until the slowest is about to
// arrive. Then all updates are averaged.
//   Li et al., "ESync: accelerating intra-domain federated learning in heterogeneous data centers",
//   IEEE Transactions on Services Computing, 2020; rule and defaults of mode = "public" as in its
//   authors' public code (Lizonghang/ESync).
#include <algorithm>

#include "longhaul/base/decimal.h"
#include "longhaul/sync/deadline.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/esync_states.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/round_times.h"

namespace longhaul::sync {
namespace {

class ESync final : public RoundsWithDeadline {
 public:
  static SyncEntry entry() {
    return strategy_entry<ESync>(
        {.name = "esync",
         .summary = "fast workers take local steps until the slowest is about to arrive",
         .traits = {.bits = Bits::schedule,
                    .takes_gaps = true,
                    .when_lost =
                        "continues without it; another state server begins with what it receives",
                    .lets_return = true},
         .costs = {{.rounds = "every k steps, the slowest's 1",
                    .sent = "an exchange of S; 2 + k/16 questions",
                    .waits_for = "all",
                    .staleness = "0",
                    .memory = "anchor: S"}}});
  }

  struct Config {
    std::string mode = "leases";
    std::optional<double> margin_s = {};
    std::uint32_t lease = 16;
    std::uint32_t max_steps = 1000;
    double smoothing = 0.5;
    std::string weights = "equal";
    double effective_steps = 0;
    std::uint32_t min_sites = 1;
    double state_timeout_s = 10;
    double round_deadline = 0;
    std::string late = "fold";
    std::uint32_t min_clients = 1;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(mode,
                   "leases: the state server is asked ahead, and grants several steps at a time; "
                   "public: asked before every step, as in the authors' code",
                   .choices = {"leases", "public"});
      LONGHAUL_KEY(margin_s,
                   "how long before the slowest a worker is to arrive (eps; absent: 0.05 of its "
                   "step; public: 0.5 s)",
                   .min = 0, .max = 1e9, .unit = "s");
      LONGHAUL_KEY(lease, "most steps granted at a time (public: 1)", .min = 1, .max = 100000);
      LONGHAUL_KEY(max_steps, "most local steps in a round (k_max)", .min = 1, .max = 1e6);
      LONGHAUL_KEY(smoothing, "weight of a new step or push time (public: 1, the last one)",
                   .max = 1, .positive = true);
      LONGHAUL_KEY(weights,
                   "updates count equally, by the samples of their sites, or by 1/k of their k "
                   "steps. steps, fednova: equally or by samples, each divided by its steps, the "
                   "mean times the mean number of steps",
                   .choices = {"equal", "samples", "inverse_steps", "steps", "fednova"});
      LONGHAUL_KEY(effective_steps,
                   "with weights steps or fednova: most steps that the mean is multiplied by "
                   "(tau_eff); 0: the mean number of steps",
                   .max = 1e6);
      visit_min_sites(visit, self.min_sites);
      LONGHAUL_KEY(state_timeout_s,
                   "without an answer of the state server for this long, and three steps, a worker "
                   "takes as many as in the last round",
                   .max = 1e9, .unit = "s", .positive = true);
      LONGHAUL_KEY(round_deadline,
                   "a worker without a step after this many times the median of its rounds is "
                   "late, and the round continues without it; 0: the round waits",
                   .min = 0, .max = 1e6);
      visit_late(visit, self.late, self.min_clients);
    }
  };

  ESync(const Config& config, SyncParts parts)
      : RoundsWithDeadline(entry(), config, std::move(parts), service(config)),
        config_(config),
        states_(static_cast<esync::States*>(Synchronous::service())) {}

  static Status check(const Config& config, const Place&) {
    if (config.round_deadline > 0 && config.round_deadline < 1)
      return invalid("[sync] round_deadline: expected 0, or 1 and more medians of a round, found " +
                     std::to_string(config.round_deadline) + ": all workers would be late");
    return Ok{};
  }

  // Returns the state server, which nodes without a learner also run.
  static std::unique_ptr<Machine> service(const Config& config) {
    if (config.mode == "public")
      return std::make_unique<esync::States>(
          esync::ReachTime::Config{.margin_s = config.margin_s.value_or(0.5),
                                   .lease = 1,
                                   .smoothing = 1,
                                   .with_push = false},
          /*with_delay=*/false);
    return std::make_unique<esync::States>(
        esync::ReachTime::Config{
            .margin_s = config.margin_s, .lease = config.lease, .smoothing = config.smoothing},
        /*with_delay=*/true);
  }

  void on_step(const StepResult& step, Turn&) override {
    if (!times_copy()) taken_.add(step);
    step_s_ = seconds(step.elapsed);
  }

  void on_computed(const Computed&, Turn& turn) override {
    computing_ = false;
    if (ends_for_close(taken_.steps, turn)) return;
    if (is_behind()) give(turn);  // the round of these steps has ended
  }

  // Called when the state server does not answer and is not known to be lost. The worker then takes
  // as many steps as in the last round.
  void on_timer(TimerId id, Turn& turn) override {
    if (id != kUnanswered) return RoundsWithDeadline::on_timer(id, turn);
    if (!waits_) return;
    states_->give_up();
    turn.record("unanswered", round(), 1);
    granted_ = std::max(taken_.steps, std::min(steps_before_, config_.max_steps));
    last_ = true;
    on_progress(turn);
  }

  std::string waiting_for() const override {
    return working() && waits_ ? states_->waiting_for() : Synchronous::waiting_for();
  }

  void state(Archive& ar) override {
    RoundsWithDeadline::state(ar);
    ar(step_s_, taken_, granted_, last_, steps_before_, computing_, waits_, is_cut_, began_,
       times_);
  }

 private:
  static constexpr TimerId kUnanswered{1};
  bool is_public() const { return config_.mode == "public"; }
  // Returns true before this worker has timed a step, in the first round: it steps on a copy. A
  // returned worker times its first step of the round instead, as the others wait for its update.
  bool times_copy() const { return !step_s_ && round() == 0; }

  // base = w; k = 0
  void begin_round(Turn& turn) override {
    if (began_) times_.add(turn.now() - *began_);
    began_ = turn.now();
    if (continues_late(turn)) return;
    // Every worker takes one step without asking; public: unless it can ask with a time.
    granted_ = is_public() && (step_s_ || times_copy()) ? 0 : 1;
    last_ = false;
    is_cut_ = false;
    taken_ = {};
    const bool limited = config_.round_deadline > 0 && step_s_;
    begin_steps(limited ? times_.medians(config_.round_deadline) : std::nullopt, turn);
    if (!times_copy()) return;
    computing_ = true;
    turn.compute(ScratchStep{});
  }

  StepNorm norm() const override {
    return {.weights = config_.weights, .effective_steps = config_.effective_steps};
  }
  double weight(const Computed& steps) const override {
    return config_.weights == "inverse_steps" ? 1.0 / steps.steps : norm().weight(steps);
  }
  // GRANT(go, n): takes n local steps. GRANT(aggregate): sends the update at the step boundary.
  void on_idle(Turn& turn) override {
    if (!working() || computing_) return;
    if (const auto more = states_->granted()) {
      last_ |= *more == 0;
      granted_ = std::min(granted_ + *more, config_.max_steps);
    }
    last_ |= granted_ >= config_.max_steps;
    if (waits_ && (taken_.steps < granted_ || last_)) {
      turn.cancel_timer(*this, kUnanswered);
      turn.record("grant_wait_s", round(), seconds(turn.now() - *waits_));
      waits_.reset();
    }
    if (taken_.steps < granted_) return take_step(turn);
    if (last_ && taken_.steps > 0) return give(turn);
    if (!states_->asking()) ask(0, turn);
    if (waits_) return;
    waits_ = turn.now();
    const double patience = std::max(config_.state_timeout_s, 3 * step_s_.value_or(0));
    turn.set_timer(*this, kUnanswered, turn.now() + from_seconds(patience));
  }

  // Drops the sender's times and steps.
  void on_returned(Turn& turn) override {
    RoundsWithDeadline::on_returned(turn);
    began_.reset();
    times_ = {};
    step_s_.reset();
    taken_ = {};
    steps_before_ = 1;
    computing_ = false;
    waits_.reset();
  }

  // Contributes the finished steps at the next boundary. A worker without finished steps, or whose
  // step takes more than twice as long as its last one, does not contribute.
  void on_deadline(Turn& turn) override {
    if (taken_.steps > 0 && !is_cut_ && !is_behind()) {
      is_cut_ = last_ = true;
      granted_ = taken_.steps;
      states_->give_up();
      if (computing_) set_deadline(from_seconds(2 * *step_s_), turn);
      return;
    }
    if (!computing_) return extend_deadline(turn);  // no step is granted yet
    miss_deadline(turn);
    states_->tell_late(round(), within(*states_, turn));
  }

  // Takes one step. The next question goes with the last granted step, or sooner if answers take
  // longer.
  void take_step(Turn& turn) {
    computing_ = true;
    turn.compute(LocalStep{});
    const std::uint32_t left = granted_ - taken_.steps;
    if (!is_public() && step_s_ && !last_ && !states_->asking() && left <= look_ahead())
      ask(left, turn);
  }

  // QUERY(t, k, c, d)
  void ask(std::uint32_t ahead, Turn& turn) {
    states_->ask({.round = round(),
                  .steps = taken_.steps + ahead,
                  .ahead = ahead,
                  .step_s = *step_s_,
                  .push_s = seconds(gave())},
                 within(*states_, turn));
  }

  std::uint32_t look_ahead() const {
    if (*step_s_ <= 0) return 1;
    const double steps = whole_up(seconds(states_->rtt()) / *step_s_);
    return std::uint32_t(std::clamp(steps, 1.0, double(config_.lease)));
  }

  // PUSH(w - base)
  void give(Turn& turn) {
    steps_before_ = taken_.steps;
    turn.record("steps", round(), double(taken_.steps));
    end_steps(taken_, turn);
  }

  const Config config_;
  esync::States* const states_;   // service of the base class
  std::optional<double> step_s_;  // c
  Computed taken_;                // k steps of this round
  std::uint32_t granted_ = 0;     // steps granted in this round
  bool last_ = false;             // whether no more steps will be granted
  bool is_cut_ = false;           // whether the deadline passed after some steps were done
  std::uint32_t steps_before_ = 1;
  bool computing_ = false;
  std::optional<Time> waits_;  // start of the wait for a grant, without a step to take
  std::optional<Time> began_;  // start of the round
  RoundTimes times_;
};

}  // namespace

SyncEntry esync_entry() { return ESync::entry(); }

}  // namespace longhaul::sync
