#pragma once
// LAG: lazily aggregated gradients, for convex models with a server. Each round is one step of
// gradient descent over all data; a worker whose gradient has barely moved since it last uploaded
// it uploads nothing, and the server uses the old one. Beside it, on the same messages: gradient
// descent, where all upload, and incremental aggregated gradient, where one does.
//   Chen, Giannakis, Sun, Yin, "LAG", NeurIPS 2018; formulas: lag/descent.h. Ours: messages without
//   a vector instead of silence, L_m by power iteration, and all that follows a loss.
//
// The server is the node of [roles] server if it lives, else the lowest live worker. A reign begins
// with the run, with a new server, and with each worker or server that returns. Then every worker
// sends the model that it knows, the server continues from the newest, and all workers upload in
// full: what the server keeps of their gradients and what they keep of it agree again. A worker
// that has returned knows no model until the server sends it one. f_m is the sum of the losses of
// worker m's samples, plus mu/2 |theta|^2. All in fp64; the learner's parameters are a copy.
#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/lag/descent.h"
#include "longhaul/sync/lag/smoothness.h"

namespace longhaul::sync {

struct LagHeader {
  static constexpr std::uint16_t kKind = 0;  // not a message by itself: it is in one
  static constexpr std::string_view kName = "header";
  static constexpr double kMost = 1e300;  // a larger number is one of a run that has diverged
  enum class Kind : std::uint8_t {
    resume,  // a reign begins: the newest model that the worker knows, and its round
    delta,   // to the server: gradient minus the one uploaded before
    skip,    // to the server: it has barely moved; no vector
    model,   // to the workers that are asked in this round
    end      // to all workers: the last model
  };
  Kind kind = Kind::resume;
  Epoch reign = 0;  // of the view with which it began
  Round round = 0;
  bool must_upload = false;  // model
  bool has_ended = false;    // resume: the worker has had the last model
  bool knows_model = true;   // resume: else the worker has returned, and sends no vector
  double rhs = 0;            // model: of the trigger
  double smoothness = 0;     // delta: L_m
  double objective = 0;      // delta, skip: f_m at the model
  // delta, skip: in the worker's shard. resume, model, end: that the run has used, as far as known.
  std::uint64_t samples = 0;

  bool is_for_server() const { return kind <= Kind::skip; }
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(kind, .max = 4);
    LONGHAUL_FIELD(reign);
    LONGHAUL_FIELD(round, .max = 0x1p50);
    LONGHAUL_FIELD(must_upload);
    LONGHAUL_FIELD(has_ended);
    LONGHAUL_FIELD(knows_model);
    LONGHAUL_FIELD(rhs, .min = 0, .max = kMost);
    LONGHAUL_FIELD(smoothness, .min = 0, .max = kMost);
    LONGHAUL_FIELD(objective, .min = -kMost, .max = kMost);
    LONGHAUL_FIELD(samples, .max = 0x1p50);
  }
};

class Lag final : public Strategy {
 public:
  static SyncEntry entry();
  struct Config {
    std::string rule = "worker";
    double xi = -1;
    std::uint32_t memory = 10;
    double smoothness = 0;
    double mu = 0;
    std::optional<double> least = {};
    double tolerance = 1e-4;

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(rule,
                     .doc =
                         "who uploads: worker: whose gradient has moved (LAG-WK); server: whom the "
                         "server asks (LAG-PS); always: all (gradient descent); cyclic, random: "
                         "one a round (incremental aggregated gradient)",
                     .choices = {"worker", "server", "always", "cyclic", "random"});
      LONGHAUL_FIELD(xi, .doc = "of the trigger; -1: 0.1 for worker, 1 for server", .min = -1,
                     .max = 1e6);
      LONGHAUL_FIELD(memory, .doc = "rounds whose steps the trigger looks at (D)", .min = 1,
                     .max = 1000);
      LONGHAUL_FIELD(smoothness,
                     .doc =
                         "L of the sum of all losses, of which the step is 1/L; 0: the sum of "
                         "those of the workers, which they measure",
                     .min = 0, .max = 1e300);
      LONGHAUL_FIELD(mu, .doc = "mu/2 |model|^2 is added to each worker's loss", .min = 0,
                     .max = 1e12);
      LONGHAUL_FIELD(least,
                     .doc =
                         "the least loss, summed over all samples; the run also ends when the loss "
                         "of a round in which all compute is within `tolerance` of it; with it all "
                         "compute in the rounds that are reported",
                     .min = -1e300, .max = 1e300);
      LONGHAUL_FIELD(tolerance, .doc = "of `least`", .max = 1e300, .positive = true);
    }
  };
  Lag(const Config&, SyncParts, const Place&);

  void on_start(Turn&) override;
  void on_step(const StepResult&, Turn&) override;
  void on_computed(const Computed&, Turn&) override;
  void on_progress(Turn&) override;
  void on_scored(Round, const Evaluation&, Turn&) override;
  Round rounds_done() const override { return round_; }
  bool lets_return() const override { return true; }
  std::string waiting_for() const override;
  void state(Archive&) override;

 private:
  using Channel = VectorChannel<LagHeader>;
  using Kind = LagHeader::Kind;
  using Model = std::vector<double>;

  // Both.
  Result<bool> admit(Rank from, const LagHeader&, const ContentShape&);
  void enter_view(Turn&);
  void begin_reign(Turn&);
  Rank server_of(const View&) const;
  bool is_worker() const { return place_.me().is(Role::worker); }
  bool is_server() const { return server_ == place_.self; }
  bool receive(Turn&);
  void send(const std::vector<Rank>& to, LagHeader, const Model*, Turn&);
  void fail(const Error&, Turn&);

  // A worker: lag.cpp.
  void take_model(const LagHeader&, Model, Turn&);
  void compute(Model at, Turn&);
  void next_gradient(Turn&);
  void answer(Turn&);
  void take_end(Turn&);

  // The server: lag_server.cpp.
  Status admit_answer(Rank from, const LagHeader&);
  void serve(Rank from, const LagHeader&, Model, Turn&);
  void advance(Turn&);
  bool resume_newest(Turn&);
  void begin_round(Turn&);
  void end_round(Turn&);
  void end_run(Turn&);
  std::vector<Rank> live_workers() const { return live_with(Role::worker, place_, view_); }

  const Config config_;
  const Place place_;
  const std::uint64_t size_;  // of theta: the layout's parameters
  const std::optional<Rank> named_server_;
  const StopConfig stop_;
  const std::unique_ptr<Overlay> overlay_;  // nothing goes through it
  std::unique_ptr<Channel> channel_;

  bool has_started_ = false, has_entered_ = false, has_ended_ = false, has_failed_ = false;
  View view_;
  Rank server_ = 0;
  Epoch reign_ = 0;
  Round round_ = 0;  // of the newest model that is known: steps behind it
  Model theta_;      // that model
  bool knows_model_ = false;
  std::uint64_t used_ = 0;  // samples; a worker's number is that of the newest model
  // A worker.
  std::optional<LagHeader> asked_;  // for an answer about theta_
  bool is_computing_ = false, is_stale_ = false;
  Model computed_at_;
  StepResult result_;
  Model gradient_, uploaded_;  // at theta_; g_m
  double loss_ = 0;            // f_m at theta_, without mu
  std::uint64_t samples_ = 0;  // in the shard
  lag::Smoothness smoothness_;
  // The server.
  enum class Phase : std::uint8_t { idle, resuming, collecting, ended };
  struct Answer {
    LagHeader header;
    Model delta;
    void state(Archive& ar) { ar(header, delta); }
  };
  Phase phase_ = Phase::idle;
  lag::Descent descent_;
  std::set<Rank> admitted_;         // whose answer of this round is here or on its way
  std::map<Rank, Answer> answers_;  // resumes, or of this round
  std::vector<Rank> awaited_;
  std::set<Round> open_;  // reported and not scored
  bool is_over_ = false;  // by [stop]
};

}  // namespace longhaul::sync
