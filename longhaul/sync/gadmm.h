#pragma once
// GADMM: group alternating direction method of multipliers, for convex models on a chain of workers
// without a server. Heads, at even positions, solve their local problem and send the solution to
// their neighbours; then tails do. A worker waits for its neighbours alone.
//   Elgabli, Park, Bedi, Bennis, Aggarwal, "GADMM", JMLR 2020 (D-GADMM too: chains that change);
//   "Q-GADMM", arXiv 1910.10453; details as in the authors' code. Ours: duals apart (dual_ledger.h)
//   and all that follows a loss or a return.
//
// f_n is the sum of the losses of worker n's samples, plus mu/2 |theta|^2. In an iteration, with m
// for the current neighbours and p for every worker that n has ever been a neighbour of, in fp64:
//   theta_n <- argmin f_n(t) + <sum_p c_np, t> + rho/2 sum_m |t - theta_m|^2    heads, then tails
//   c_nm <- c_nm + rho (theta_n - theta_m)
// theta_n on the right is the model as the neighbours decode it. On the same chain and messages:
// decentralised methods without solves (gadmm/gradient_step.h), and ADMM with a hub (chain "star").
#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/gadmm/chain.h"
#include "longhaul/sync/gadmm/dual_ledger.h"
#include "longhaul/sync/gadmm/inbox.h"
#include "longhaul/sync/gadmm/quantiser.h"
#include "longhaul/sync/gadmm/stopping.h"
#include "longhaul/sync/gossip/final_return.h"
#include "longhaul/sync/gossip/newcomers.h"

namespace longhaul::sync {

class Gadmm final : public Strategy {
 public:
  static SyncEntry entry();
  struct Config {
    std::string method = "admm";
    double rho = 3;
    double step = 0.01;
    double mu = 0;
    std::string chain = "rank";
    Round chain_every = 0;
    std::string send = "fp64";
    std::uint32_t bits = 2;
    std::string stop_when = "rounds";
    double least = 0;
    double tolerance = 1e-4;
    Round hold = 100;

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(method,
                     .doc =
                         "admm: exact solves and duals (GADMM); dgd, dual_averaging: a mean with "
                         "the neighbours and one gradient an iteration",
                     .choices = {"admm", "dgd", "dual_averaging"});
      LONGHAUL_FIELD(rho, .doc = "penalty on the distance of neighbours", .max = 1e12,
                     .positive = true);
      LONGHAUL_FIELD(step, .doc = "dgd, dual_averaging: of the gradient of each worker's sum",
                     .max = 1e300, .positive = true);
      LONGHAUL_FIELD(mu, .doc = "mu/2 |model|^2 is added to each worker's loss", .min = 0,
                     .max = 1e12);
      LONGHAUL_FIELD(chain,
                     .doc =
                         "order of the workers: rank: as the sites stand in the file; nearest: "
                         "from the first one on the nearest that is left, by the delays of [wan]; "
                         "bottleneck: whose longest edge is as short as can be; random; strides: "
                         "every s-th, for each s without a common divisor; star: all are "
                         "neighbours of the last one alone",
                     .choices = {"rank", "nearest", "bottleneck", "random", "strides", "star"});
      LONGHAUL_FIELD(chain_every,
                     .doc =
                         "iterations after which random and strides take the next chain "
                         "(D-GADMM); 0: never",
                     .max = 1e12);
      LONGHAUL_FIELD(send,
                     .doc =
                         "how models travel: fp64; codec: in the job's codec; quantised: "
                         "their changes in `bits` bits a value (Q-GADMM)",
                     .choices = {"fp64", "codec", "quantised"});
      LONGHAUL_FIELD(bits, .doc = "of a value, quantised; with 1 it diverges", .min = 2,
                     .max = gadmm::kMostBits);
      LONGHAUL_FIELD(stop_when,
                     .doc =
                         "ends the run beside [stop] when published: the sum of each worker's "
                         "loss at its own model is within tolerance of least; settled: and has "
                         "been for `hold` iterations; every_model: the loss over all data (the "
                         "test set) of every worker's model is",
                     .choices = {"rounds", "published", "settled", "every_model"});
      LONGHAUL_FIELD(least, .doc = "stop_when: the least loss, summed over all samples",
                     .min = -1e300, .max = 1e300);
      LONGHAUL_FIELD(tolerance, .doc = "stop_when", .max = 1e300, .positive = true);
      LONGHAUL_FIELD(hold, .doc = "stop_when = \"settled\"", .min = 1, .max = 1e12,
                     .unit = "iterations");
    }
  };
  static Status check(const Config&, const Place&);
  Gadmm(const Config&, SyncParts, const Place&);

  void on_start(Turn&) override;
  void on_view(const View& before, Turn&) override;
  void on_step(const StepResult&, Turn&) override;
  void on_computed(const Computed&, Turn&) override;
  void on_progress(Turn&) override;
  void on_scored(Round, const Evaluation&, Turn&) override;
  Round rounds_done() const override { return done_; }
  bool lets_return() const override { return true; }
  std::string waiting_for() const override;
  void state(Archive&) override;

 private:
  using Channel = VectorChannel<GadmmHeader>;
  using Kind = GadmmHeader::Kind;
  enum class Phase : std::uint8_t {
    unstarted,
    joining,    // in a new view: waits for where all others are
    gathering,  // waits for what it needs to solve
    solving,
    exchanging,  // a head waits for its neighbours' models
    deciding,    // waits for a verdict
    averaging,   // takes part in the mean that the run ends with
    ended
  };

  bool is_admm() const { return config_.method == "admm"; }
  Result<bool> admit(Rank from, const GadmmHeader&, const ContentShape&);
  Status check_shape(const GadmmHeader&, const ContentShape&) const;
  Status check_join(Rank from, const GadmmHeader&) const;
  bool is_near(Rank from, Round iteration) const;
  void enter_view(Turn&);
  void receive(Turn&);
  bool advance(Turn&);
  std::vector<Rank> missing() const;

  // gadmm_joining.cpp
  void send_joins(Turn&);
  void join(Turn&);
  bool take_joins(Round& first, Turn&);
  void skip_to(Round iteration, Turn&);
  void hand_over(Turn&);
  void archive_for_returned(Archive&);
  bool has_state(Turn&);
  bool take_final(Turn&);
  void enter_iteration(Turn&);
  bool decide(Turn&);
  // gadmm_models.cpp
  void solve(Turn&);
  std::vector<double> point() const;
  double penalty_of(const std::vector<double>& theta) const;
  void use_result(Turn&);
  void send_model(Turn&);
  void take_models(Turn&);
  bool read_model(Rank from, const VectorContent&, Turn&);
  void end_iteration(Turn&);
  void report_round(Turn&);
  void show_model(Turn&);
  // Of a stopping rule.
  Rank judge_rank() const { return live_with(Role::worker, place_, view_).front(); }
  bool may_judge_later() const;
  void tell_figure(Round, double value, Turn&);
  void judge(Turn&);
  VectorContent doubles(std::vector<double>) const;
  void send(const std::vector<Rank>& to, Kind, std::uint64_t steps, VectorContent, Turn&);
  void fail(const Error&, Turn&);

  const Config config_;
  const Place place_;
  const std::uint64_t size_;  // of theta: the layout's parameters
  const gadmm::Chains chains_;
  gossip::FinalMean final_;
  std::unique_ptr<Channel> channel_;
  StopRule stop_;
  StateTransfer state_transfer_;
  gossip::FinalReturn final_return_;
  gossip::Newcomers newcomers_;

  Phase phase_ = Phase::unstarted;
  Round done_ = 0;              // also the iteration that runs
  bool has_entered_ = false;    // its first view
  View view_;                   // the one it is in
  Round joined_at_ = 0;         // the first iteration in this view
  bool is_greeted_ = false;     // the new neighbours of this iteration have been sent a hello
  bool knows_model_ = true;     // false: it has returned, and has not joined since
  bool has_state_ = false;      // the same: verdicts and counts of the senior worker are here
  bool is_stale_ = false;       // what is being solved is of a view that is over
  std::vector<double> start_;   // x_0
  std::vector<double> theta_;   // as last sent; dual_averaging: z
  std::vector<double> solved_;  // the solution, or the gradient, that was found last
  double loss_ = 0;             // f_n there; with mu from use_result() on
  std::uint64_t samples_ = 0;   // that this worker has used
  gadmm::Position position_;    // in this iteration
  std::map<Rank, std::vector<double>> seen_;  // of the neighbours: their newest models
  gadmm::DualLedger duals_;
  gadmm::Inbox inbox_;
  Time asked_{0};  // since when the neighbours are awaited
  gadmm::Stopping stopping_;
  std::map<Round, double> penalties_;  // mu/2 |theta|^2 of the models that are being scored
  Round end_at_ = 0;                   // iterations; 0: not known
};

}  // namespace longhaul::sync
