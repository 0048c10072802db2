#pragma once
// NBSync: the local steps of one window run while the updates of the window before are averaged, so
// that nobody waits for the network.
//   Zhou et al., "NBSync: parallelism of local computing and global synchronization for fast
//   distributed machine learning in WANs", IEEE Transactions on Services Computing, 2023; update,
//   swap and mean as in its authors' public code (zhouhuaman/NBSync).
//
// In the paper's words: round t of the base class is window t + 1; the mean of the round is what
// the server adds, which every worker adds to its own copy of W instead.
#include "longhaul/sync/deadline.h"
#include "longhaul/sync/round_times.h"
#include "longhaul/sync/step_norm.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {

class NBSync final : public Synchronous {
 public:
  static SyncEntry entry();
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

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(first, .doc = "local steps before the first exchange", .min = 1);
      LONGHAUL_FIELD(max_steps, .doc = "most local steps in a window (h_max); 0: as many as fit");
      LONGHAUL_FIELD(
          weights,
          .doc =
              "updates count alike, or by the samples of their sites; steps, fednova: the "
              "same two, each divided by its steps, the mean times the mean number of "
              "steps",
          .choices = {"equal", "samples", "steps", "fednova"});
      LONGHAUL_FIELD(effective_steps,
                     .doc =
                         "with weights steps or fednova: the mean is times so many steps at most "
                         "(tau_eff); 0: the mean number of steps",
                     .max = 1e6);
      LONGHAUL_FIELD(global_rate,
                     .doc =
                         "of the mean update, how much is added to the global model (eta_g); 0.25 "
                         "to 0.5 where windows cover most of the way to a site's own minimum",
                     .max = 10, .positive = true);
      LONGHAUL_FIELD(
          keep,
          .doc =
              "share of its own progress in the window that a worker keeps on top of the "
              "new global model (beta)",
          .min = 0, .max = 1);
      visit_min_sites(visit, self.min_sites);
      LONGHAUL_FIELD(orphan_s,
                     .doc =
                         "without a global model for so long, and five times the last window, a "
                         "worker pauses",
                     .max = 1e9, .unit = "s", .positive = true);
      LONGHAUL_FIELD(reset_optimizer, .doc = "start every window with a fresh local optimiser");
      LONGHAUL_FIELD(window_deadline,
                     .doc =
                         "a worker whose step goes on for so many times the median of its windows "
                         "after the global model has come is late, and the next window goes on "
                         "without it; 0: the window waits",
                     .min = 0, .max = 1e6);
      visit_late(visit, self.late, self.min_clients);
    }
  };

  NBSync(const Config& config, SyncParts parts)
      : Synchronous(entry(), std::move(parts), config.min_sites), config_(config) {}
  static Status check(const Config&, const Place&);

  void on_step(const StepResult&, Turn&) override;
  void on_computed(const Computed&, Turn&) override;
  void on_timer(TimerId, Turn&) override;
  void state(Archive&) override;

 private:
  struct Progress {
    std::vector<float> update;  // d
    std::vector<float> buffers;
    Computed computed;  // h steps
    Round since = 0;    // windows that were in the model that the first of them started from
    void add(Progress later);
    void state(Archive& ar) { ar(update, buffers, computed, since); }
  };

  void begin_run(Turn&) override;
  void begin_round(Turn&) override;
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
  void mean_came(Turn&) override;
  void use_mean(std::span<float> mean, Turn&) override;
  void use_nothing(Turn& turn) override;
  bool close(Turn&) override;
  void on_returned(Turn&) override;
  bool fits(std::size_t parameters) const override {
    return Synchronous::fits(parameters) && mark_.size() == parameters && w_.size() >= parameters;
  }
  void on_idle(Turn&) override;
  void waited(Wait, Time took, Turn&) override;
  std::size_t scalars() const override { return norm().scalars(); }
  StepNorm norm() const {
    return {.weights = config_.weights, .effective_steps = config_.effective_steps};
  }

  void take_progress(Turn&);
  void hand_over(Turn&);
  void swap(Turn&);
  void install(double keep, Turn&);
  void catch_up(Turn&);
  void end_window(Turn&);
  void watch_step(Turn&);
  bool orphaned(const Turn&) const;
  static constexpr TimerId kDeadline{1};

  const Config config_;
  std::vector<float> w_;     // W_t, with the buffers that belong to it
  std::vector<float> mark_;  // up to where this worker's progress is handed over; parameters
  Progress progress_;        // of the last window, until it is handed over
  // What earlier windows went on without, to be handed over with the next progress.
  std::optional<Progress> late_;
  std::optional<Progress> given_;  // to this window, with a quorum
  Computed window_;                // the window that runs
  Round version_ = 0;              // windows that are in the model that it started from
  Time since_{0};                  // it began
  Time last_{0};                   // how long the one before took
  std::optional<Time> paused_;
  RoundTimes times_;
  std::optional<Time> deadline_;  // of the step under way, while a mean waits for its end
  bool is_overdue_ = false;       // it has passed
  bool is_behind_ = false;        // a mean was used since: w_ is ahead of x
  bool computing_ = false;
  bool stands_by_ = false;  // has nothing to hand over: it has just returned
  bool closing_ = false;
  bool to_reset_ = false;   // the optimiser, before the next step
  bool resetting_ = false;  // what is computed is that
};

}  // namespace longhaul::sync
