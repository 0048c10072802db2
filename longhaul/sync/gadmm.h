#pragma once
// GADMM: group alternating direction method of multipliers, for convex models on a chain of workers
// without a server. Heads, at even positions, solve their local problem and send the solution to
// their neighbours; then tails do. A worker waits for its neighbours alone.
//   Elgabli, Park, Bedi, Bennis, Aggarwal, "GADMM", JMLR 2020 (D-GADMM too: chains that change);
//   "Q-GADMM", arXiv 1910.10453; details as in the authors' code. Ours: duals apart (dual_ledger.h)
//   and all that follows a loss.
//
// f_n is the sum of the losses of worker n's samples, plus mu/2 |theta|^2. In an iteration, with m
// for the current neighbours and p for every worker that n has ever been a neighbour of, in fp64:
//   theta_n <- argmin f_n(t) + <sum_p c_np, t> + rho/2 sum_m |t - theta_m|^2    heads, then tails
//   c_nm <- c_nm + rho (theta_n - theta_m)
// theta_n on the right is the model as the neighbours decode it.
#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/gadmm/chain.h"
#include "longhaul/sync/gadmm/dual_ledger.h"
#include "longhaul/sync/gadmm/inbox.h"
#include "longhaul/sync/gadmm/quantiser.h"
#include "longhaul/sync/gossip/final_mean.h"

namespace longhaul::sync {

class Gadmm final : public Strategy {
 public:
  static SyncEntry entry();
  struct Config {
    double rho = 3;
    double mu = 0;
    std::string chain = "rank";
    Round chain_every = 0;
    std::string send = "fp64";
    std::uint32_t bits = 2;

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(rho, .doc = "penalty on the distance of neighbours", .max = 1e12,
                     .positive = true);
      LONGHAUL_FIELD(mu, .doc = "mu/2 |model|^2 is added to each worker's loss", .min = 0,
                     .max = 1e12);
      LONGHAUL_FIELD(chain,
                     .doc =
                         "order of the workers: rank: as the sites stand in the file; nearest: "
                         "from the first one on the nearest that is left, by the delays of [wan]; "
                         "random; strides: every s-th, for each s without a common divisor",
                     .choices = {"rank", "nearest", "random", "strides"});
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
    }
  };
  static Status check(const Config&, const Place&);
  Gadmm(const Config&, SyncParts, const Place&);

  void on_start(Turn&) override;
  void on_step(const StepResult&, Turn&) override;
  void on_computed(const Computed&, Turn&) override;
  void on_progress(Turn&) override;
  Round rounds_done() const override { return done_; }
  std::string waiting_for() const override;
  void state(Archive&) override;

 private:
  using Channel = VectorChannel<GadmmHeader>;
  using Kind = GadmmHeader::Kind;
  enum class Phase : std::uint8_t {
    unstarted,
    joining,    // after a loss: waits for where all others are
    gathering,  // waits for what it needs to solve
    solving,
    exchanging,  // a head waits for its neighbours' models
    deciding,    // waits for a verdict
    averaging,   // takes part in the mean that the run ends with
    ended
  };

  Result<bool> admit(Rank from, const GadmmHeader&, const ContentShape&);
  Status check_shape(const GadmmHeader&, const ContentShape&) const;
  void enter_view(Turn&);
  void receive(Turn&);
  bool advance(Turn&);
  std::vector<Rank> missing() const;

  void join(Turn&);
  void enter_iteration(Turn&);
  void solve(Turn&);
  void send_model(Turn&);
  void take_models(Turn&);
  bool read_model(Rank from, const VectorContent&, Turn&);
  void end_iteration(Turn&);
  void skip_to(Round iteration, Turn&);
  void report_round(Turn&);
  void show_model(Turn&);
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

  Phase phase_ = Phase::unstarted;
  Round done_ = 0;              // also the iteration that runs
  bool has_entered_ = false;    // its first view
  View view_;                   // the one it is in
  Round joined_at_ = 0;         // the first iteration in this view
  bool is_greeted_ = false;     // the new neighbours of this iteration have been sent a hello
  bool is_stale_ = false;       // what is being solved is of a view that is over
  std::vector<double> theta_;   // as last sent
  std::vector<double> solved_;  // the solution that was found last
  double loss_ = 0;             // f_n there, without mu
  std::uint64_t samples_ = 0;   // that this worker has used
  gadmm::Position position_;    // in this iteration
  std::map<Rank, std::vector<double>> seen_;  // of the neighbours: their newest models
  gadmm::DualLedger duals_;
  gadmm::Inbox inbox_;
  Time asked_{0};  // since when the neighbours are awaited
};

}  // namespace longhaul::sync
