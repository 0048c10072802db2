// NBSync: the local steps of one window run while the updates of the window before are averaged, so
// that no worker waits for the network.
//   Zhou et al., "NBSync: parallelism of local computing and global synchronization for fast
//   distributed machine learning in WANs", IEEE Transactions on Services Computing, 2023; update,
//   swap and mean as in its authors' public code (zhouhuaman/NBSync).
//
// In the paper's terms, round t of the base class is window t + 1. The paper's server adds the mean
// of the round to W; here every worker adds it to its own copy of W.
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/round_times.h"
#include "longhaul/sync/step_norm.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {
namespace {

class NBSync final : public Synchronous {
 public:
  // Without an outer optimiser: with a delay of one window, momentum overshoots.
  static SyncEntry entry() {
    return strategy_entry<NBSync>(
        {.name = "nbsync",
         .summary = "continue local steps while the updates of the last window are averaged",
         .traits = {.bits = Bits::schedule,
                    .takes_outer = false,
                    .takes_gaps = true,
                    .when_lost = "the open window ends without it, no worker pauses for it",
                    .lets_return = true},
         // Short windows, so that a few rounds make progress, and some windows are full.
         .small = {{"max_steps", {std::int64_t{4}}}},
         .costs = {{.rounds = "when the last mean has arrived",
                    .sent = "an exchange of S",
                    .waits_for = "no node",
                    .staleness = "1 round",
                    .memory = "W, mark, update: 3 S"}}});
  }

  struct Config {
    std::uint32_t first = 1;
    std::uint32_t max_steps = 0;
    std::string weights = "equal";
    double effective_steps = 0;
    double global_rate = 1;
    double keep = 0;
    std::uint32_t min_sites = 1;
    double orphan_s = 60;
    bool reset_optimizer = false;
    double window_deadline = 0;
    std::string late = "fold";
    std::uint32_t min_clients = 1;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(first, "local steps before the first exchange", .min = 1);
      LONGHAUL_KEY(max_steps, "most local steps in a window (h_max); 0: as many as fit");
      LONGHAUL_KEY(weights,
                   "updates count equally, or by the samples of their sites; steps, fednova: the "
                   "same two, each divided by its steps, the mean times the mean number of steps",
                   .choices = {"equal", "samples", "steps", "fednova"});
      LONGHAUL_KEY(effective_steps,
                   "with weights steps or fednova: most steps that the mean is multiplied by "
                   "(tau_eff); 0: the mean number of steps",
                   .max = 1e6);
      LONGHAUL_KEY(global_rate,
                   "factor of the mean update when it is added to the global model (eta_g); 0.25 "
                   "to 0.5 where windows cover most of the way to a site's own minimum",
                   .max = 10, .positive = true);
      LONGHAUL_KEY(keep,
                   "share of its own progress in the window that a worker keeps on top of the new "
                   "global model (beta)",
                   .min = 0, .max = 1);
      visit_min_sites(visit, self.min_sites);
      LONGHAUL_KEY(
          orphan_s,
          "without a global model for this long, and five times the last window, a worker pauses",
          .max = 1e9, .unit = "s", .positive = true);
      LONGHAUL_KEY(reset_optimizer, "start every window with a fresh local optimiser");
      LONGHAUL_KEY(
          window_deadline,
          "a worker is late if its step lasts this many times the median of its windows; the next "
          "window continues without it. The time counts from the global model; 0: windows wait",
          .min = 0, .max = 1e6);
      visit_late(visit, self.late, self.min_clients);
    }
  };

  NBSync(const Config& config, SyncParts parts)
      : Synchronous(entry(), std::move(parts), config.min_sites), config_(config) {}
  static Status check(const Config& config, const Place&) {
    if (config.max_steps > 0 && config.max_steps < config.first)
      return invalid("[sync] max_steps = " + std::to_string(config.max_steps) +
                     " is less than first = " + std::to_string(config.first) +
                     ": nothing would ever be exchanged");
    return Ok{};
  }

  void on_step(const StepResult& result, Turn&) override {
    if (!resetting_) window_.add(result);
  }

  void on_computed(const Computed&, Turn& turn) override {
    computing_ = false;
    const bool was_reset = std::exchange(resetting_, false);
    deadline_.reset();
    is_overdue_ = false;
    if (is_behind_) return catch_up(turn);
    if (was_reset) return;
    if (round() > 0 || !working() || window_.steps < config_.first) return;
    take_progress(turn);
    hand_over(turn);
  }

  void on_timer(TimerId, Turn& turn) override {
    if (!deadline_ || turn.now() < *deadline_) return;
    deadline_.reset();
    is_overdue_ = computing_ && mean_is_here(turn);
    on_progress(turn);
  }

  void state(Archive& ar) override {
    Synchronous::state(ar);
    ar(w_, mark_, progress_, window_, since_, last_, paused_, computing_, stands_by_, closing_,
       to_reset_, resetting_);
    ar(late_, given_, version_, times_, deadline_, is_overdue_, is_behind_);
  }

 private:
  struct Progress {
    std::vector<float> update;  // d
    std::vector<float> buffers;
    Computed computed;  // of h steps
    Round since = 0;    // number of windows in the model that the first step started from
    void add(Progress later) {
      LH_CHECK(update.size() == later.update.size());
      for (std::size_t i = 0; i < update.size(); ++i) update[i] += later.update[i];
      buffers = std::move(later.buffers);
      computed.add(later.computed);
    }

    void state(Archive& ar) { ar(update, buffers, computed, since); }
  };

  // x = mark = W_0
  void begin_run(Turn& turn) override {
    assign(w_, turn.params());
    assign(mark_, parameters(turn));
    since_ = turn.now();
  }

  // The first steps make the update of the first window. Later updates are taken at the swap.
  void begin_round(Turn& turn) override {
    if (std::exchange(stands_by_, false)) return stand_by(turn);
    if (round() == 0) return;
    const bool has_some = progress_.computed.steps > 0 || late_;
    has_some ? hand_over(turn) : stand_by(turn);
  }

  bool takes_mean(Turn&) const override {
    return is_overdue_ || (!computing_ && window_.steps > 0);
  }
  std::size_t quorum() const override { return config_.min_clients; }
  std::span<float> model(Turn& turn) override {
    return is_behind_ ? std::span<float>(w_) : turn.params();
  }
  bool has_model(const Turn& turn) const override {
    return is_behind_ || Synchronous::has_model(turn);
  }
  // Called when MODEL(t) has arrived and x is at a step boundary.
  void mean_came(Turn& turn) override {
    if (!is_overdue_) return take_progress(turn);
    is_behind_ = true;
  }

  // W_t = W_{t-1} + eta_g sum p_i d_i
  void use_mean(std::span<float> mean, Turn& turn) override {
    norm().multiply(mean, mean_scalars());
    const auto eta_g = float(config_.global_rate);
    for (std::size_t i = 0; i < mean.size(); ++i) w_[i] += eta_g * mean[i];
    given_.reset();
    if (is_behind_) return end_window(turn);
    std::ranges::copy(buffers(turn), w_.begin() + std::ptrdiff_t(mark_.size()));
    swap(turn);
  }

  // Keeps the contribution for the next mean if this one has too few contributions. If all workers
  // are late, the next window waits for the deadline again.
  void use_nothing(Turn& turn) override {
    if (auto again = std::exchange(given_, std::nullopt)) {
      if (late_) again->add(*std::move(late_));
      late_ = std::move(again);
    }
    is_overdue_ = false;
    is_behind_ ? end_window(turn) : swap(turn);
  }

  // Drops the steps since the last swap, whose window does not take place.
  bool close(Turn& turn) override {
    closing_ = true;
    if (computing_) return false;
    if (late_) turn.record("late_dropped", round(), double(late_->computed.steps));
    late_.reset();
    std::ranges::copy(w_, turn.params().begin());
    return true;
  }

  // Called when this worker has received W_t. Drops the sender's progress in its windows. The first
  // update of this worker follows one window later.
  void on_returned(Turn& turn) override {
    progress_ = {};
    window_ = {};
    w_.resize(turn.params().size());  // already this size, unless the sender's state is wrong
    std::ranges::copy(w_, turn.params().begin());
    std::copy_n(w_.begin(), mark_.size(), mark_.begin());
    since_ = turn.now();
    last_ = Time{0};
    paused_.reset();
    computing_ = closing_ = resetting_ = to_reset_ = is_overdue_ = is_behind_ = false;
    deadline_.reset();
    late_.reset();
    given_.reset();
    times_ = {};
    version_ = round();
    stands_by_ = true;
  }

  bool fits(std::size_t parameters) const override {
    return Synchronous::fits(parameters) && mark_.size() == parameters && w_.size() >= parameters;
  }
  // Starts the next step, unless the window is full or no model has arrived for long.
  void on_idle(Turn& turn) override {
    if (computing_) return watch_step(turn);
    if (closing_) return;
    const bool full = config_.max_steps > 0 && window_.steps >= config_.max_steps;
    if (full || orphaned(turn)) {
      if (!paused_) paused_ = turn.now();
      return;
    }
    if (paused_) turn.record("window_wait_s", round(), seconds(turn.now() - *paused_));
    paused_.reset();
    computing_ = true;
    resetting_ = std::exchange(to_reset_, false);
    if (resetting_) return turn.compute(ResetOptimizer{});
    turn.compute(LocalStep{});
  }

  // Called after a wait, during which this worker has computed.
  void waited(Wait what, Time took, Turn& turn) override {
    if (what == Wait::exchange) turn.record("sync_s", round(), seconds(took));
  }

  std::size_t scalars() const override { return norm().scalars(); }
  StepNorm norm() const {
    return {.weights = config_.weights, .effective_steps = config_.effective_steps};
  }

  // d = x - mark;  mark = x;  h = 0
  void take_progress(Turn& turn) {
    const auto x = turn.params();
    progress_.update.resize(mark_.size());
    for (std::size_t i = 0; i < mark_.size(); ++i)
      progress_.update[i] = x[i] - std::exchange(mark_[i], x[i]);
    progress_.buffers.assign(x.begin() + std::ptrdiff_t(mark_.size()), x.end());
    progress_.computed = std::exchange(window_, {});
    progress_.since = version_;
  }

  // Sends DELTA(t, d, h). p_i = 1/N, or by samples; normalised: the mean of d_i / h_i times that of
  // h_i.
  void hand_over(Turn& turn) {
    Progress d = std::exchange(progress_, {});  // the overlay now has the progress
    if (late_) {
      if (d.computed.steps > 0) late_->add(std::move(d));
      d = std::exchange(late_, std::nullopt).value();
    }
    std::vector<float> steps = norm().divide(d.update, d.computed);
    turn.record("steps", round(), double(d.computed.steps));
    // Updates are 1 window old at any speed (the weak dependency), and older if they are late.
    const Round staleness = round() - d.since;
    turn.record("staleness", round(), double(staleness));
    if (staleness > 1) turn.record("late", round(), double(staleness - 1));
    contribute({.values = d.update,
                .buffers = d.buffers,
                .weight = norm().weight(d.computed),
                .loss = d.computed.loss,
                .samples = d.computed.samples,
                .scalars = std::move(steps)},
               turn);
    if (quorum() > 1) given_ = std::move(d);
  }

  void swap(Turn& turn) {
    install(config_.keep, turn);
    version_ = round() + 1;
    to_reset_ = config_.reset_optimizer;
    end_window(turn);
  }

  // x = W_t + keep (x - mark);  mark = x. The part of x - mark that is not kept is in W_{t+1}.
  void install(double keep, Turn& turn) {
    const auto x = turn.params();
    const auto beta = float(keep);
    std::ranges::copy(w_, x.begin());
    if (beta > 0)
      for (std::size_t i = 0; i < mark_.size(); ++i) x[i] += beta * progress_.update[i];
    std::copy_n(x.begin(), mark_.size(), mark_.begin());
  }

  // Called when the step that windows did not wait for is done. x becomes the newest W, and the
  // progress since the old one is late.
  void catch_up(Turn& turn) {
    const bool drops = config_.late == "drop";
    take_progress(turn);
    is_behind_ = false;
    install(drops ? 0 : config_.keep, turn);
    version_ = round();
    to_reset_ = config_.reset_optimizer;
    Progress d = std::exchange(progress_, {});
    if (d.computed.steps == 0) return;
    if (drops) return turn.record("late_dropped", round(), double(d.computed.steps));
    if (late_)
      late_->add(std::move(d));
    else
      late_ = std::move(d);
  }

  void end_window(Turn& turn) {
    last_ = turn.now() - std::exchange(since_, turn.now());
    if (!is_catching_up()) times_.add(last_);
    end_round(w_, turn);
  }

  // Sets the deadline of this worker's step, which the other workers wait for.
  void watch_step(Turn& turn) {
    if (config_.window_deadline == 0 || deadline_ || is_overdue_ || !mean_is_here(turn)) return;
    const auto allowed = times_.medians(config_.window_deadline);
    if (!allowed) return;
    deadline_ = turn.now() + *allowed;
    turn.set_timer(*this, kDeadline, *deadline_);
  }

  bool orphaned(const Turn& turn) const {
    return turn.now() - since_ > std::max(from_seconds(config_.orphan_s), 5 * last_) &&
           window_.steps > 0;
  }

  static constexpr TimerId kDeadline{1};

  const Config config_;
  std::vector<float> w_;     // W_t, with its buffers
  std::vector<float> mark_;  // parameters up to which this worker's progress is handed over
  Progress progress_;        // progress of the last window, until it is handed over
  // Progress that earlier windows did not wait for; handed over with the next progress.
  std::optional<Progress> late_;
  std::optional<Progress> given_;  // contribution to this window, with a quorum
  Computed window_;                // steps of the current window
  Round version_ = 0;  // number of windows in the model that the current window started from
  Time since_{0};      // start of the current window
  Time last_{0};       // duration of the window before
  std::optional<Time> paused_;
  RoundTimes times_;
  std::optional<Time> deadline_;  // deadline of the current step, while a mean waits for its end
  bool is_overdue_ = false;       // whether the deadline has passed
  bool is_behind_ = false;        // whether a mean was used during this step: w_ is ahead of x
  bool computing_ = false;
  bool stands_by_ = false;  // whether it has just returned, without progress to hand over
  bool closing_ = false;
  bool to_reset_ = false;   // whether to reset the optimiser before the next step
  bool resetting_ = false;  // whether the learner is resetting the optimiser
};

}  // namespace

SyncEntry nbsync_entry() { return NBSync::entry(); }

}  // namespace longhaul::sync
