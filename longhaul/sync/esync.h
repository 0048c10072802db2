#pragma once
// ESync: in every round the fast workers go on with local steps until the slowest is about to
// arrive; then all updates are averaged.
//   Li et al., "ESync: accelerating intra-domain federated learning in heterogeneous data centers",
//   IEEE Transactions on Services Computing, 2020; rule and defaults of mode = "public" as in its
//   authors' public code (Lizonghang/ESync).
#include "longhaul/sync/deadline.h"
#include "longhaul/sync/esync_states.h"
#include "longhaul/sync/round_times.h"
#include "longhaul/sync/step_norm.h"

namespace longhaul::sync {

class ESync final : public RoundsWithDeadline {
 public:
  static SyncEntry entry();
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

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(mode,
                     .doc =
                         "leases: the state server is asked ahead, and grants several steps at a "
                         "time; public: asked before every step, as in the authors' code",
                     .choices = {"leases", "public"});
      LONGHAUL_FIELD(margin_s,
                     .doc =
                         "how long before the slowest a worker is to arrive (eps; absent: 0.05 of "
                         "its step; public: 0.5 s)",
                     .min = 0, .max = 1e9, .unit = "s");
      LONGHAUL_FIELD(lease, .doc = "most steps granted at a time (public: 1)", .min = 1,
                     .max = 100000);
      LONGHAUL_FIELD(max_steps, .doc = "most local steps in a round (k_max)", .min = 1, .max = 1e6);
      LONGHAUL_FIELD(smoothing,
                     .doc = "weight of a new step or push time (public: 1, the last one)", .max = 1,
                     .positive = true);
      LONGHAUL_FIELD(weights,
                     .doc =
                         "updates count alike, by the samples of their sites, or by 1/k of their k "
                         "steps; steps, fednova: alike or by samples, each divided by its steps, "
                         "the mean times the mean number of steps",
                     .choices = {"equal", "samples", "inverse_steps", "steps", "fednova"});
      LONGHAUL_FIELD(effective_steps,
                     .doc =
                         "with weights steps or fednova: the mean is times so many steps at most "
                         "(tau_eff); 0: the mean number of steps",
                     .max = 1e6);
      visit_min_sites(visit, self.min_sites);
      LONGHAUL_FIELD(state_timeout_s,
                     .doc =
                         "without an answer of the state server for so long, and three steps, a "
                         "worker takes as many as in the last round",
                     .max = 1e9, .unit = "s", .positive = true);
      LONGHAUL_FIELD(round_deadline,
                     .doc =
                         "a worker that has no step done after so many times the median of its "
                         "rounds is late, and the round goes on without it; 0: the round waits",
                     .min = 0, .max = 1e6);
      visit_late(visit, self.late, self.min_clients);
    }
  };

  ESync(const Config&, SyncParts);
  static Status check(const Config&, const Place&);
  // The state server, which nodes without a learner have, too.
  static std::unique_ptr<Machine> service(const Config&);

  void on_step(const StepResult&, Turn&) override;
  void on_computed(const Computed&, Turn&) override;
  void on_timer(TimerId, Turn&) override;
  std::string waiting_for() const override;
  void state(Archive&) override;

 private:
  static constexpr TimerId kUnanswered{1};
  bool is_public() const { return config_.mode == "public"; }

  void begin_round(Turn&) override;
  void use_mean(std::span<float> mean, Turn&) override;
  std::size_t scalars() const override { return norm().scalars(); }
  StepNorm norm() const {
    return {.weights = config_.weights, .effective_steps = config_.effective_steps};
  }
  void on_idle(Turn&) override;
  void on_returned(Turn&) override;
  void on_deadline(Turn&) override;

  void take_step(Turn&);
  void ask(std::uint32_t ahead, Turn&);
  std::uint32_t look_ahead() const;
  void give(Turn&);

  const Config config_;
  esync::States* const states_;   // the base class's service
  std::optional<double> step_s_;  // c
  Computed taken_;                // k steps of this round
  std::uint32_t granted_ = 0;     // of this round
  bool last_ = false;             // no more will be
  bool is_cut_ = false;           // the deadline has come while steps were done already
  std::uint32_t steps_before_ = 1;
  bool computing_ = false;
  std::optional<Time> waits_;  // for a grant, without a step to take
  std::optional<Time> began_;  // the round
  RoundTimes times_;
};

}  // namespace longhaul::sync
