#pragma once
// LAG: lazily aggregated gradients, for convex models with a server. Each round is one step of
// gradient descent over all data. A worker whose gradient has barely moved since its last upload
// uploads nothing, and the server uses the old gradient. The same messages serve gradient descent,
// where all workers upload, and incremental aggregated gradient, where one uploads.
//   Chen, Giannakis, Sun, Yin, "LAG", NeurIPS 2018; formulas: lag/descent.h. Not in the paper:
//   messages without a vector instead of silence, L_m by power iteration, the handling of losses.
//
// The server is the node of [roles] server if it is live, else the lowest live worker. A reign
// begins with the run, with a new server, and with each worker or server that returns. Every worker
// then sends the model that it knows, and the server continues from the newest. All workers upload
// in full, so that the server's copies of their gradients match their own again. A returned worker
// knows no model until the server sends it one. f_m is the sum of the losses of worker m's samples,
// plus mu/2 |theta|^2. Everything is in fp64; the learner's parameters are a copy.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

#include "longhaul/core/registry.h"
#include "longhaul/core/sample_count.h"
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/lag/descent.h"

namespace longhaul::sync {

struct LagHeader {
  LONGHAUL_MESSAGE(0, "header");          // part of another message
  static constexpr double kMost = 1e300;  // a larger number means that the run has diverged
  enum class Kind : std::uint8_t {
    resume,  // a reign begins: the newest model that the worker knows, and its round
    delta,   // to the server: gradient minus the last uploaded one
    skip,    // to the server: the gradient has barely moved; no vector
    model,   // to the workers that must answer in this round
    end      // to all workers: the last model
  };
  Kind kind = Kind::resume;
  Epoch reign = 0;  // epoch of the view that began it
  Round round = 0;
  bool must_upload = false;  // model
  bool has_ended = false;    // resume: the worker has had the last model
  bool knows_model = true;   // resume: false if the worker has returned, and sends no vector
  double rhs = 0;            // model: right-hand side of the trigger
  double smoothness = 0;     // delta: L_m
  double objective = 0;      // delta, skip: f_m at the model
  // delta, skip: samples in the worker's shard. resume, model, end: samples used by the run, as
  // known.
  std::uint64_t samples = 0;

  bool is_for_server() const { return kind <= Kind::skip; }
  LONGHAUL_FIELDS((kind, .max = 4), reign, (round, .max = 0x1p50), must_upload, has_ended,
                  knows_model, (rhs, .min = 0, .max = kMost), (smoothness, .min = 0, .max = kMost),
                  (objective, .min = -kMost, .max = kMost), (samples, .max = kMostSamples))
};

class Lag final : public Strategy {
 public:
  static SyncEntry entry() {
    return strategy_entry<Lag>(
        {.name = "lag",
         .summary = "gradient descent in which gradients that barely moved are not sent again",
         .traits = {.takes_outer = false,
                    .no_feedback = "sends fp64 differences of gradients, which lose nothing",
                    .takes_unbiased = false,
                    .when_lost = "its gradient is taken out of the sum and the others continue",
                    .lets_return = true,
                    .asks = "full gradient",
                    .served = true,
                    .only_overlay = "hub"},
         .presets = {{"overlay", "kind", {std::string("hub")}}},
         .small = {{"memory", {std::int64_t(2)}}},
         .costs = {{.rounds = "every step",
                    .sent = "2 S (fp64) if its gradient has moved; receives 2 S",
                    .waits_for = "all",
                    .staleness = "until the gradient has moved",
                    .memory = "6 S; server (2 n + 6) S",
                    .when_lost = "continues without"}}},
        make_lag);
  }

  struct Config {
    std::string rule = "worker";
    double xi = -1;
    std::uint32_t memory = 10;
    double smoothness = 0;
    double mu = 0;
    std::optional<double> least = {};
    double tolerance = 1e-4;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(rule,
                   "workers that upload; worker: those whose gradient has moved (LAG-WK); server: "
                   "those that the server asks (LAG-PS); always: all (gradient descent); cyclic, "
                   "random: one a round (incremental aggregated gradient)",
                   .choices = {"worker", "server", "always", "cyclic", "random"});
      LONGHAUL_KEY(xi, "xi of the trigger; -1: 0.1 for worker, 1 for server", .min = -1,
                   .max = 1e6);
      LONGHAUL_KEY(memory, "rounds whose steps the trigger looks at (D)", .min = 1, .max = 1000);
      LONGHAUL_KEY(smoothness,
                   "L of the sum of all losses, of which the step is 1/L; 0: the sum of those of "
                   "the workers, which they measure",
                   .min = 0, .max = 1e300);
      LONGHAUL_KEY(mu, "mu/2 |model|^2 is added to each worker's loss", .min = 0, .max = 1e12);
      LONGHAUL_KEY(least,
                   "the least loss, summed over all samples. The run also ends when the loss of a "
                   "round in which all compute is within `tolerance` of it; with `least` all "
                   "compute in the reported rounds",
                   .min = -1e300, .max = 1e300);
      LONGHAUL_KEY(tolerance, "of `least`", .max = 1e300, .positive = true);
    }
  };
  Lag(const Config& config, SyncParts parts, const Place& place)
      : config_(config),
        place_(place),
        size_(place.layout->parameters().length),
        named_server_(parts.server),
        stop_(parts.stop),
        overlay_(std::move(parts.overlay)),
        descent_(descent_config(config)) {
    own(*overlay_, kOverlayChild);
    channel_ = std::make_unique<Channel>(
        place,
        ChannelConfig{.stream = "lag",
                      .limits = ChannelLimits::models(kUnreadLagModels, *place.layout)},
        std::move(parts.transfer), nullptr, nullptr, std::bind_front(&Lag::admit, this));
    own(*channel_, {1, "channel"});
  }

  void on_start(Turn& turn) override {
    has_started_ = true;
    if (!is_worker()) return;
    assign(theta_, turn.params().first(parameter_count(place_)));
    knows_model_ = !place_.comes_back();
  }

  void on_step(const StepResult& result, Turn&) override { result_ = result; }

  void on_computed(const Computed& computed, Turn& turn) override {
    is_computing_ = false;
    samples_ = computed.samples;
    for (std::size_t i = 0; i < result_.solution.size(); ++i)
      result_.solution[i] += config_.mu * computed_at_[i];
    if (has_failed_) return;
    if (has_ended_) return take_end(turn);
    if (std::exchange(is_stale_, false)) {
      if (asked_) compute(theta_, turn);
      return;
    }
    next_gradient(turn);
  }

  void on_progress(Turn& turn) override {
    if (!has_started_ || has_failed_) return;
    if (place_.comes_back() && turn.view().epoch == 0) return;  // not admitted yet
    if (!has_entered_ || view_.epoch != turn.view().epoch) enter_view(turn);
    do {
      if (is_server()) advance(turn);
    } while (!has_failed_ && receive(turn));
  }

  void on_scored(Round round, const Evaluation& evaluation, Turn&) override {
    if (open_.erase(round) > 0) is_over_ |= stop_.reached(evaluation);
  }

  Round rounds_done() const override { return round_; }
  bool lets_return() const override { return true; }
  std::string waiting_for() const override {
    if (has_failed_ || is_computing_) return "";
    if (is_server() && !awaited_.empty()) {
      std::string text = "round " + std::to_string(round_) + ": answers of ranks";
      for (const Rank rank : awaited_)
        if (!answers_.contains(rank)) text += " " + std::to_string(rank);
      return text;
    }
    if (has_ended_ || is_server()) return "";
    if (!has_entered_) return place_.comes_back() ? "being let in by the others" : "";
    return "round " + std::to_string(round_) + ": the model of rank " + std::to_string(server_) +
           ", the server";
  }

  void state(Archive& ar) override {
    ar.expect("lag");
    ar(has_started_, has_entered_, has_ended_, has_failed_, view_, server_, reign_, round_, theta_);
    ar(knows_model_, used_);
    ar(asked_, is_computing_, is_stale_, computed_at_, result_, gradient_, uploaded_, loss_,
       samples_, smoothness_);
    ar(phase_, descent_, admitted_, answers_, awaited_, open_, is_over_);
  }

 private:
  // Maximum number of unread models of a peer, as fp32: a model or an answer. Each waits for the
  // other.
  static constexpr std::uint32_t kUnreadLagModels = 8;

  static lag::Descent::Config descent_config(const Config& config) {
    const lag::Rule rule = lag::rule_of(config.rule);
    const double usual = rule == lag::Rule::server ? 1 : 0.1;
    return {.rule = rule,
            .xi = config.xi < 0 ? usual : config.xi,
            .memory = config.memory,
            .smoothness = config.smoothness};
  }

  // Makes the strategy of any node. A node without a learner can also be the server.
  static Result<std::unique_ptr<Strategy>> make_lag(const Settings& settings, SyncParts parts,
                                                    const Place& place) {
    Config config;
    LH_TRY(read_settings(settings, config));
    return std::unique_ptr<Strategy>(std::make_unique<Lag>(config, std::move(parts), place));
  }

  using Channel = VectorChannel<LagHeader>;
  using Kind = LagHeader::Kind;
  using Model = std::vector<double>;

  // Admits vectors for the worker and for the server.
  Result<bool> admit(Rank from, const LagHeader& header, const ContentShape& shape) {
    const bool is_empty =
        header.kind == Kind::skip || (header.kind == Kind::resume && !header.knows_model);
    const bool fits = is_empty ? shape.kind == ContentKind::none
                               : shape.kind == ContentKind::doubles && shape.size == size_;
    if (!fits) return malformed("a vector of another size, or one where none belongs");
    if (header.reign > reign_) return malformed("a vector under a server to come");
    if (header.reign < reign_) return false;
    if (header.is_for_server()) {
      if (!is_server() || !place_.member(from).is(Role::worker))
        return malformed("an answer to a server that this node is not, or of no worker");
      LH_TRY(admit_answer(from, header));
      return true;
    }
    const bool is_due = header.round >= round_ && !asked_ && !has_ended_;
    if (from != server_ || !is_worker() || !is_due)
      return malformed("a model that this worker does not wait for");
    return true;
  }

  void enter_view(Turn& turn) {
    const bool is_first = !std::exchange(has_entered_, true);
    view_ = turn.view();
    if (live_workers().empty())
      return fail(state_lost("all workers are lost: restart them and resume"), turn);
    const Rank server = server_of(view_);
    const bool has_returned = std::ranges::any_of(view_.returned, [&](const auto& one) {
      return one.second == view_.epoch &&
             (place_.member(one.first).is(Role::worker) || one.first == server);
    });
    if (is_first || has_returned || server != server_) {
      server_ = server;
      return begin_reign(turn);
    }
    std::erase_if(awaited_, [&](Rank rank) { return !view_.has(rank); });
    for (Rank rank = 0; rank < place_.size(); ++rank)
      if (!view_.has(rank)) descent_.drop(rank);
  }

  // Starts a reign: every worker sends the server the model that it knows.
  void begin_reign(Turn& turn) {
    reign_ = view_.epoch;
    is_stale_ = is_computing_;
    asked_.reset();
    uploaded_.clear();
    if (is_server()) {
      phase_ = Phase::resuming;
      admitted_.clear();
      answers_.clear();
      awaited_ = live_workers();
    } else {
      phase_ = Phase::idle;
      awaited_.clear();
      answers_.clear();
      if (!is_worker() && !std::exchange(has_ended_, true))
        turn.finish();  // neither learns nor serves
    }
    if (is_worker())
      send({server_},
           {.kind = Kind::resume,
            .round = round_,
            .has_ended = has_ended_,
            .knows_model = knows_model_,
            .samples = used_},
           knows_model_ ? &theta_ : nullptr, turn);
  }

  Rank server_of(const View& view) const {
    if (named_server_ && view.has(*named_server_)) return *named_server_;
    const auto workers = live_with(Role::worker, place_, view);
    return workers.empty() ? view.lowest() : workers.front();
  }

  bool is_worker() const { return place_.me().is(Role::worker); }
  bool is_server() const { return server_ == place_.self; }
  bool receive(Turn& turn) {
    bool any = false;
    channel_->drop_lost();  // enter_view() has handled lost peers
    while (auto one = channel_->poll(within(*channel_, turn))) {
      if (one->header.reign != reign_ || has_failed_) continue;
      any = true;
      Model values = one->content.doubles();
      if (!are_finite(values)) {
        fail(not_finite("rank " + std::to_string(one->from) + " sent a vector that is not finite"),
             turn);
      } else if (one->header.is_for_server()) {
        serve(one->from, one->header, std::move(values), turn);
      } else {
        take_model(one->header, std::move(values), turn);
      }
    }
    return any;
  }

  void send(const std::vector<Rank>& to, LagHeader header, const Model* values, Turn& turn) {
    header.reign = reign_;
    VectorContent content;
    if (values && place_.phantom)
      content = VectorContent::phantom({.kind = ContentKind::doubles, .range = {}, .size = size_});
    else if (values)
      content = VectorContent::doubles(*values);
    channel_->send(to, header, std::move(content), {}, within(*channel_, turn));
  }

  void fail(const Error& error, Turn& turn) {
    has_failed_ = true;
    turn.fail({error.kind, who("lag, round " + std::to_string(round_), turn.place()) + error.what});
  }

  // --- a worker ------------------------------------------------------------------------------
  void take_model(const LagHeader& header, Model values, Turn& turn) {
    theta_ = std::move(values);
    round_ = header.round;
    used_ = header.samples;
    knows_model_ = true;
    if (header.kind == Kind::end) return take_end(turn);
    asked_ = header;
    if (!is_computing_) compute(theta_, turn);
  }

  void compute(Model at, Turn& turn) {
    is_computing_ = true;
    computed_at_ = at;
    turn.compute(FullGradient{std::move(at), true});
  }

  // Computes the gradient at theta_. The first time, also computes the gradients that determine
  // L_m.
  void next_gradient(Turn& turn) {
    if (!are_finite(result_.solution) || !std::isfinite(result_.loss))
      return fail(not_finite("its gradient is not finite; set a larger [sync] smoothness"), turn);
    if (smoothness_.is_known() || !smoothness_.has_begun() || computed_at_ == theta_) {
      gradient_ = result_.solution;
      loss_ = result_.loss;
      if (!smoothness_.has_begun())
        smoothness_.begin(theta_, gradient_, turn.random(Purpose::init, 0, place_.self, 1));
    } else {
      smoothness_.probed(result_.solution);
    }
    if (!smoothness_.is_known()) return compute(smoothness_.probe(), turn);
    answer(turn);
  }

  void answer(Turn& turn) {
    LagHeader header = *std::exchange(asked_, std::nullopt);
    double square = 0, moved = 0;
    uploaded_.resize(gradient_.size());
    Model delta = gradient_;
    for (std::size_t i = 0; i < delta.size(); ++i) {
      delta[i] -= uploaded_[i];
      moved += delta[i] * delta[i];
      square += theta_[i] * theta_[i];
    }
    header.objective = loss_ + config_.mu / 2 * square;
    header.samples = samples_;
    header.smoothness = smoothness_.value();
    const bool uploads = header.must_upload || moved > header.rhs;
    header.kind = uploads ? Kind::delta : Kind::skip;
    for (std::size_t i = 0; uploads && i < delta.size(); ++i) uploaded_[i] += delta[i];
    send({server_}, header, uploads ? &delta : nullptr, turn);
  }

  void take_end(Turn& turn) {
    has_ended_ = true;
    asked_.reset();
    if (is_computing_) return;  // for an earlier server; on_computed() calls again
    const auto x = turn.params();
    for (std::size_t i = 0; i < theta_.size() && i < x.size(); ++i) x[i] = float(theta_[i]);
    turn.finish();
  }

  // --- the server ----------------------------------------------------------------------------
  Status admit_answer(Rank from, const LagHeader& header) {
    const bool is_due = std::ranges::find(awaited_, from) != awaited_.end() &&
                        (header.kind == Kind::resume) == (phase_ == Phase::resuming) &&
                        (header.kind == Kind::resume || header.round == round_);
    if (!is_due || !admitted_.insert(from).second)
      return malformed("an unexpected answer, or a second one");
    return Ok{};
  }

  void serve(Rank from, const LagHeader& header, Model values, Turn&) {
    answers_[from] = {header, std::move(values)};
  }

  // Advances the run when every awaited worker has answered or is lost.
  void advance(Turn& turn) {
    while (!has_failed_ && (phase_ == Phase::resuming || phase_ == Phase::collecting)) {
      for (const Rank rank : awaited_)
        if (!answers_.contains(rank)) return;
      if (phase_ == Phase::collecting) {
        end_round(turn);
      } else if (!resume_newest(turn)) {
        return;
      }
      if (!has_failed_) is_over_ ? end_run(turn) : begin_round(turn);
    }
  }

  // Resumes from the newest model of a live node; if equal, from the lowest rank's. Returns false
  // if there is none.
  bool resume_newest(Turn& turn) {
    if (answers_.empty())
      return false;  // all awaited workers are lost: a new view will name the server
    const Answer* newest = nullptr;
    for (const auto& [rank, one] : answers_) {
      is_over_ |= one.header.has_ended;
      used_ = std::max(used_, one.header.samples);
      if (one.header.knows_model && (!newest || one.header.round > newest->header.round))
        newest = &one;
    }
    const bool own_is_newest = knows_model_ && (!newest || round_ > newest->header.round);
    if (!newest && !own_is_newest) {
      fail(state_lost("all sites that knew the model are lost; resume from a checkpoint"), turn);
      return false;
    }
    if (!own_is_newest) round_ = newest->header.round;
    descent_.begin(own_is_newest ? theta_ : newest->delta);
    return true;
  }

  void begin_round(Turn& turn) {
    phase_ = Phase::collecting;
    admitted_.clear();
    answers_.clear();
    const std::vector<Rank> live = live_workers();
    const auto asked = descent_.asked(live, turn.random(Purpose::members, round_, 0));
    // With `least`, all workers compute in reported rounds: only then the loss is known.
    const bool all_compute = config_.least && (round_ + 1) % stop_.report_every == 0;
    awaited_ = all_compute ? live : asked;
    if (!is_worker()) theta_ = descent_.model();
    knows_model_ = true;
    LagHeader ask{.kind = Kind::model,
                  .round = round_,
                  .must_upload = descent_.must_upload(),
                  .rhs = descent_.rhs(live.size()),
                  .samples = used_};
    if (!asked.empty()) send(asked, ask, &descent_.model(), turn);
    std::vector<Rank> others;
    std::ranges::set_difference(awaited_, asked, std::back_inserter(others));
    ask.must_upload = false;
    ask.rhs = LagHeader::kMost;  // no gradient moves that far
    if (!others.empty()) send(others, ask, &descent_.model(), turn);
  }

  void end_round(Turn& turn) {
    double objective = 0;
    std::uint64_t uploads = 0;
    for (const auto& [rank, one] : answers_) {  // in rank order
      objective += one.header.objective;
      used_ = plus_samples(used_, double(one.header.samples));
      if (!view_.has(rank) || one.header.kind == Kind::skip) continue;
      descent_.upload(rank, one.delta, one.header.smoothness);
      ++uploads;
    }
    const std::size_t live = live_workers().size();
    turn.record("uploads", round_, double(uploads));
    if (answers_.size() == live && !place_.phantom) {
      turn.record("objective", round_, objective);
      is_over_ |= config_.least && objective - *config_.least < config_.tolerance;
    }
    descent_.step(live);
    ++round_;
    theta_ = descent_.model();
    for (const double v : theta_)
      if (!std::isfinite(v))
        return fail(not_finite("the model is not finite; set a larger [sync] smoothness"), turn);
    if (round_ % stop_.report_every == 0 && open_.size() <= stop_.lag) {
      open_.insert(round_ - 1);
      auto model = std::make_shared<std::vector<float>>();
      if (stop_.snapshots) {
        for (const double v : theta_) model->push_back(float(v));
        model->resize(place_.layout->size());
      }
      turn.report(round_ - 1, std::move(model));
    }
    is_over_ |= round_ >= stop_.max_rounds ||
                (stop_.max_hours && seconds(turn.now()) >= *stop_.max_hours * 3600) ||
                (stop_.max_samples > 0 && used_ >= stop_.max_samples);
  }

  // Sends all workers the final model. A worker that had it before keeps it.
  void end_run(Turn& turn) {
    phase_ = Phase::ended;
    awaited_.clear();
    std::vector<Rank> to;
    for (const auto& rank : live_workers()) {
      const auto one = answers_.find(rank);
      if (one == answers_.end() || !one->second.header.has_ended) to.push_back(rank);
    }
    theta_ = descent_.model();
    if (!to.empty())
      send(to, {.kind = Kind::end, .round = round_, .samples = used_}, &theta_, turn);
    if (!is_worker() && !std::exchange(has_ended_, true)) turn.finish();
  }

  std::vector<Rank> live_workers() const { return live_with(Role::worker, place_, view_); }

  const Config config_;
  const Place place_;
  const std::uint64_t size_;  // size of theta: the layout's parameters
  const std::optional<Rank> named_server_;
  const StopConfig stop_;
  const std::unique_ptr<Overlay> overlay_;  // carries no data
  std::unique_ptr<Channel> channel_;

  bool has_started_ = false, has_entered_ = false, has_ended_ = false, has_failed_ = false;
  View view_;
  Rank server_ = 0;
  Epoch reign_ = 0;
  Round round_ = 0;  // steps before the newest known model
  Model theta_;      // that model
  bool knows_model_ = false;
  std::uint64_t used_ = 0;  // samples used; at a worker as of its newest model
  // At a worker.
  std::optional<LagHeader> asked_;  // request to answer for theta_
  bool is_computing_ = false, is_stale_ = false;
  Model computed_at_;
  StepResult result_;
  Model gradient_, uploaded_;  // at theta_; g_m
  double loss_ = 0;            // f_m at theta_, without mu
  std::uint64_t samples_ = 0;  // samples in the shard
  lag::Smoothness smoothness_;
  // At the server.
  enum class Phase : std::uint8_t { idle, resuming, collecting, ended };
  struct Answer {
    LagHeader header;
    Model delta;
    void state(Archive& ar) { ar(header, delta); }
  };
  Phase phase_ = Phase::idle;
  lag::Descent descent_;
  std::set<Rank> admitted_;  // senders whose answer of this round has arrived or is in transit
  std::map<Rank, Answer> answers_;  // resumes, or answers of this round
  std::vector<Rank> awaited_;
  std::set<Round> open_;  // rounds reported and not scored
  bool is_over_ = false;  // the run must end
};

}  // namespace longhaul::sync
