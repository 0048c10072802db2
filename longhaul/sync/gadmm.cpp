// GADMM: group alternating direction method of multipliers, for convex models on a chain of workers
// without a server. Heads, at even positions, solve their local problem and send the solution to
// their neighbours; then tails do the same. A worker waits only for its neighbours.
//   Elgabli, Park, Bedi, Bennis, Aggarwal, "GADMM", JMLR 2020 (D-GADMM too: chains that change);
//   "Q-GADMM", arXiv 1910.10453; details as in the authors' code. Separate duals (dual_ledger.h)
//   and the handling of losses and returns are not in the papers.
//
// f_n is the sum of the losses of worker n's samples, plus mu/2 |theta|^2. m runs over the current
// neighbours, and p over every worker that n has ever been a neighbour of. In an iteration, in
// fp64:
//   theta_n <- argmin f_n(t) + <sum_p c_np, t> + rho/2 sum_m |t - theta_m|^2    heads, then tails
//   c_nm <- c_nm + rho (theta_n - theta_m)
// On the right-hand side, theta_n is the model as the neighbours decode it. The same chain and
// messages serve decentralised methods without solves (gadmm/gradient_step.h), and ADMM with a hub
// (chain "star").
#include <algorithm>
#include <cmath>

#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"
#include "longhaul/overlay/belief.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/gadmm/chain.h"
#include "longhaul/sync/gadmm/dual_ledger.h"
#include "longhaul/sync/gadmm/gradient_step.h"
#include "longhaul/sync/gadmm/inbox.h"
#include "longhaul/sync/gadmm/quantiser.h"
#include "longhaul/sync/gadmm/stopping.h"
#include "longhaul/sync/gossip/ends_in_mean.h"
#include "longhaul/sync/gossip/newcomers.h"

namespace longhaul::sync {
namespace {

// Maximum number of unread models, as fp32: the models of two iterations per neighbour, and a hello
// or a join (two models in fp64) from each other worker. Vectors are read on arrival.
constexpr std::uint32_t kUnreadModels = 16;

std::uint64_t worker_count(const Place& place) { return place.members.with(Role::worker).size(); }

// Returns the maximum number of iterations by which a worker can be ahead of another. A worker that
// has completed an iteration has its neighbours' models of the previous one, and they have those of
// theirs. With any chains, each step back reaches at least one more worker.
std::uint64_t iterations_apart(const Place& place) { return worker_count(place) + 1; }

enum class GadmmPhase : std::uint8_t {
  unstarted,
  joining,    // in a new view: waits for the joins of all other workers
  gathering,  // waits for the input of its solve
  solving,
  exchanging,  // a head waits for its neighbours' models
  deciding,    // waits for a verdict
  averaging,   // takes part in the final mean of the run
  ended
};

class Gadmm final : public gossip::EndsInMean<GadmmPhase> {
 public:
  static SyncEntry entry() {
    return strategy_entry<Gadmm>(
        {.name = "gadmm",
         .summary = "convex models on a chain of workers, each solving its own part exactly",
         .traits = {.takes_outer = false,
                    .no_feedback = "sends whole models, which carry no error of the one before",
                    .takes_unbiased = false,
                    .when_lost = "the chain closes over the gap and the others continue",
                    .lets_return = true,
                    .asks = "full gradient",
                    .mean_at_end = true},
         .small = {{"bits", {std::int64_t(8)}}},
         .costs = {{.rounds = "every iteration",
                    .sent = "2 S (fp64) to each of two neighbours",
                    .waits_for = "its neighbours in the chain",
                    .staleness = "0, with those",
                    .memory = "16 S",
                    .when_lost = "4 S to each other, and continues"},
                   {.variant = "quantised",
                    .settings = {{"send", {std::string("quantised")}}},
                    .rounds = "every iteration",
                    .sent = "b bits a value (2) to each of two neighbours",
                    .waits_for = "its neighbours in the chain",
                    .staleness = "0, with those",
                    .memory = "16 S",
                    .when_lost = "4 S to each other, and continues"}}});
  }

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

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(method,
                   "admm: exact solves and duals (GADMM); dgd, dual_averaging: a mean with the "
                   "neighbours and one gradient an iteration",
                   .choices = {"admm", "dgd", "dual_averaging"});
      LONGHAUL_KEY(rho, "penalty on the distance of neighbours", .max = 1e12, .positive = true);
      LONGHAUL_KEY(step, "dgd, dual_averaging: of the gradient of each worker's sum", .max = 1e300,
                   .positive = true);
      LONGHAUL_KEY(mu, "mu/2 |model|^2 is added to each worker's loss", .min = 0, .max = 1e12);
      LONGHAUL_KEY(chain,
                   "order of the workers. nearest: greedily, by the delays of [wan]; bottleneck: "
                   "the longest edge is as short as possible; strides: every s-th, for each s "
                   "without a common divisor; star: all are neighbours of the last",
                   .choices = {"rank", "nearest", "bottleneck", "random", "strides", "star"});
      LONGHAUL_KEY(
          chain_every,
          "iterations after which random and strides take the next chain (D-GADMM); 0: never",
          .max = 1e12);
      LONGHAUL_KEY(send,
                   "how models travel: fp64; codec: in the job's codec; quantised: their changes "
                   "in `bits` bits a value (Q-GADMM)",
                   .choices = {"fp64", "codec", "quantised"});
      LONGHAUL_KEY(bits, "bits of a quantised value; with 1 it diverges", .min = 2,
                   .max = gadmm::kMostBits);
      LONGHAUL_KEY(
          stop_when,
          "ends the run besides [stop]. published: when the sum of each worker's loss at its own "
          "model is within tolerance of least; settled: and has been for `hold` iterations. "
          "every_model: when the loss over all data (the test set) of every worker's model is",
          .choices = {"rounds", "published", "settled", "every_model"});
      LONGHAUL_KEY(least, "stop_when: the least loss, summed over all samples", .min = -1e300,
                   .max = 1e300);
      LONGHAUL_KEY(tolerance, "stop_when", .max = 1e300, .positive = true);
      LONGHAUL_KEY(hold, "stop_when = \"settled\"", .min = 1, .max = 1e12, .unit = "iterations");
    }
  };
  static Status check(const Config& config, const Place&) {
    const bool needs_losses = config.stop_when == "published" || config.stop_when == "settled";
    if (needs_losses && config.method == "admm" && config.send != "fp64")
      return invalid("[sync] stop_when = \"" + config.stop_when +
                     "\": expected send = \"fp64\", as "
                     "the loss is known at the solution and not at the model that neighbours read; "
                     "every_model goes with any");
    if (config.chain_every > 0 && config.chain != "random" && config.chain != "strides")
      return invalid("[sync] chain_every: expected 0 with chain = \"" + config.chain +
                     "\", of which there is one; chain = \"random\" or \"strides\" change");
    return Ok{};
  }

  Gadmm(const Config& config, SyncParts parts, const Place& place)
      : EndsInMean(std::move(parts.overlay)),
        config_(config),
        place_(place),
        size_(place.layout->parameters().length),
        chains_(chains_of(config, parts, place)),
        stop_(apart_by(iterations_apart(place), parts.stop)),
        stopping_({.rule = place.phantom ? "rounds" : config.stop_when,
                   .least = config.least,
                   .tolerance = config.tolerance,
                   .hold = config.hold}) {
    channel_ = std::make_unique<Channel>(
        place,
        ChannelConfig{.stream = "gadmm",
                      .limits = ChannelLimits::models(kUnreadModels, *place.layout)},
        std::move(parts.transfer), parts.make_codec(false), nullptr,
        [this](Rank from, const GadmmHeader& header, const ContentShape& shape) {
          return admit(from, header, shape);
        });
    own(*channel_, {1, "channel"});
    own(stop_, {2, "stop rule"});
    own(state_transfer_, {3, "state transfer"});
    own(final_return_, {4, "final model"});
  }

  void on_start(Turn& turn) override {
    phase_ = Phase::gathering;
    knows_model_ = !turn.place().comes_back();
    assign(start_, turn.params().first(parameter_count(turn.place())));
    theta_ = start_;
    if (config_.method == "dual_averaging") theta_.assign(theta_.size(), 0);
  }

  void on_view(const View&, Turn& turn) override { newcomers_.on_view(turn); }

  void on_step(const StepResult& result, Turn&) override {
    solved_ = result.solution;
    loss_ = result.loss;
  }

  void on_computed(const Computed& computed, Turn& turn) override {
    samples_ += computed.samples;
    if (std::exchange(is_stale_, false) || phase_ != Phase::solving) return;
    use_result(turn);
  }

  // The first iteration starts here, because the overlay starts after its parent.
  void on_progress(Turn& turn) override {
    if (phase_ == Phase::unstarted) return;
    if (place_.comes_back() && turn.view().epoch == 0) return;  // not admitted yet
    if (!has_entered_ || view_.epoch != turn.view().epoch) enter_view(turn);
    receive(turn);
    judge(turn);
    hand_over(turn);
    while (advance(turn)) {
    }
    if (phase_ != Phase::ended) return;
    final_return_.serve(within(final_return_, turn));
  }

  void on_scored(Round round, const Evaluation& evaluation, Turn& turn) override {
    if (!stopping_.wants_scores() || phase_ >= Phase::averaging) return;
    const auto penalty = penalties_.extract(round);
    if (penalty.empty()) return;
    const double value = evaluation.loss * double(evaluation.samples) +
                         penalty.mapped() * double(live_with(Role::worker, place_, view_).size());
    const bool is_known = evaluation.samples > 0 && std::isfinite(value);
    tell_figure(round, is_known ? value : gadmm::Stopping::kUnknown, turn);
    on_progress(turn);
  }

  Round rounds_done() const override { return done_; }
  bool lets_return() const override { return true; }
  std::string waiting_for() const override {
    if (phase_ == Phase::deciding) {
      const std::string text = stop_.waiting_for();
      if (!text.empty() || may_judge_later()) return text;
      return "figures of iteration " + std::to_string(stopping_.next()) + " of ranks" +
             listed(stopping_.missing(live_with(Role::worker, place_, view_)));
    }
    if (phase_ == Phase::averaging) return final_.waiting_for();
    const std::vector<Rank> ranks = missing();
    if (ranks.empty() && phase_ == Phase::joining && !knows_model_)
      return "the verdicts of the senior worker, as this node has returned";
    if (ranks.empty()) return "";
    std::string text = "iteration " + std::to_string(done_) + ": ";
    text += phase_ == Phase::joining ? "where ranks are:" : "models of ranks";
    text += listed(ranks);
    return channel_->waiting_after(text);
  }

  void state(Archive& ar) override {
    ar.expect("gadmm");
    ar(phase_, done_, has_entered_, view_, joined_at_, is_greeted_, is_stale_);
    ar(start_, theta_, solved_, loss_, samples_, position_.is_head, position_.neighbours);
    ar(seen_, duals_, inbox_, asked_, stopping_, penalties_, end_at_);
    ar(knows_model_, has_state_, newcomers_);
  }

 private:
  static gadmm::Chains chains_of(const Config& config, const SyncParts& parts, const Place& place) {
    gadmm::LinkCost round_trip;
    if (const auto delays = overlay::delays_of(parts.network, place))
      round_trip = [delays](Rank a, Rank b) { return delays(a, b) + delays(b, a); };
    return {{.order = config.chain, .every = config.chain_every, .seed = place.seed},
            place.members.with(Role::worker),
            round_trip};
  }

  using Channel = VectorChannel<GadmmHeader>;
  using Kind = GadmmHeader::Kind;
  using Phase = GadmmPhase;
  bool is_admm() const { return config_.method == "admm"; }
  Result<bool> admit(Rank from, const GadmmHeader& header, const ContentShape& shape) {
    if (!place_.member(from).is(Role::worker)) return malformed("a model of no worker");
    LH_TRY(check_shape(header, shape));
    if (header.epoch > view_.epoch) return malformed("a vector of a view to come");
    if (header.epoch < view_.epoch) return false;
    const Round k = header.iteration;
    if (header.end_at > 0 &&
        (!stopping_.is_on() || header.end_at > k + 4 * iterations_apart(place_)))
      return malformed("an end of the run that is not due");
    if (header.kind == Kind::figure) {
      if (!stopping_.is_on() || judge_rank() != place_.self || !is_near(from, k))
        return malformed("an unexpected figure");
      return true;
    }
    if (header.kind == Kind::join) {
      LH_TRY(check_join(from, header));
    } else {
      if (k < done_ || !is_near(from, k) || (header.kind == Kind::hello && !chains_.is_first(k)))
        return malformed("a vector of iteration " + std::to_string(k) + ", which is not due");
      const std::vector<Rank> near = chains_.position(place_.self, k, view_).neighbours;
      if (std::ranges::find(near, from) == near.end())
        return malformed("a vector of iteration " + std::to_string(k) + " of no neighbour");
    }
    LH_TRY(inbox_.admit(header.kind, from, k));
    return true;
  }

  Status check_shape(const GadmmHeader& header, const ContentShape& shape) const {
    const auto is_doubles = [&](std::uint64_t size) {
      return shape.kind == ContentKind::doubles && shape.size == size;
    };
    bool fits = false;
    if (header.kind == Kind::figure) {
      fits = shape.kind == ContentKind::none;
    } else if (header.kind == Kind::join) {
      fits = header.knows_model ? is_doubles(header.steps > 0 ? 2 * size_ : size_)
                                : shape.kind == ContentKind::none;
    } else if (header.kind == Kind::hello || config_.send == "fp64") {
      fits = is_doubles(size_);
    } else if (config_.send == "codec") {
      fits = shape.kind == ContentKind::values && shape.range.offset == 0 &&
             shape.range.length == size_;
    } else {
      fits = shape.kind == ContentKind::bytes &&
             (shape.size == sizeof(float) ||
              shape.size == gadmm::quantised_bytes(size_, config_.bits));
    }
    if (!fits) return malformed("a vector that is no model, or of another size");
    return Ok{};
  }

  Status check_join(Rank from, const GadmmHeader& header) const {
    const bool may_be = header.knows_model ? !knows_model_ || is_near(from, header.iteration)
                                           : view_.since(from) > 0 && header.iteration == 0;
    if (view_.epoch == 0 || !may_be) return malformed("an unexpected join");
    return Ok{};
  }

  // Returns true if `from` can be in the iteration. The upper bound is double, because `from` may
  // have joined. A returned worker uses the iteration of the sender's join.
  bool is_near(Rank from, Round iteration) const {
    Round mine = done_;
    if (!knows_model_) {
      const auto joins = inbox_.joins();
      const auto found = joins.find(from);
      if (found == joins.end()) return false;
      mine = found->second;
    }
    return iteration + iterations_apart(place_) >= mine &&
           iteration <= mine + 2 * iterations_apart(place_);
  }

  // Enters the current view. In the first view all workers start in iteration 0 with equal models.
  // In a new view, vectors in transit are dropped and each worker sends a join to the others. All
  // workers then continue after the most advanced one.
  void enter_view(Turn& turn) {
    const bool is_first = !std::exchange(has_entered_, true) && turn.view().epoch == 0;
    view_ = turn.view();
    inbox_.clear();
    penalties_.clear();  // rounds before the loss are not judged any longer
    seen_.clear();
    if (is_first) {
      for (const Rank rank : chains_.position(place_.self, 0, view_).neighbours)
        seen_[rank] = theta_;
      return;
    }
    for (Rank rank = 0; rank < place_.size(); ++rank)
      if (!view_.has(rank)) duals_.drop(rank);
    send_joins(turn);
    if (phase_ == Phase::averaging || phase_ == Phase::ended) return;
    is_stale_ = phase_ == Phase::solving || is_stale_;
    phase_ = Phase::joining;
    asked_ = turn.now();
  }

  void receive(Turn& turn) {
    channel_->drop_lost();  // enter_view() has handled lost neighbours
    while (auto one = channel_->poll(within(*channel_, turn))) {
      if (one->header.epoch != view_.epoch) continue;
      if (one->header.end_at > 0) end_at_ = one->header.end_at;
      if (one->header.kind == Kind::figure)
        stopping_.add(one->from, one->header.iteration, one->header.value);
      else
        inbox_.keep(one->header, one->from, std::move(one->content));
    }
  }

  // Makes one transition if possible. Returns true if another can follow at once.
  bool advance(Turn& turn) {
    switch (phase_) {
      case Phase::joining:
        if (is_stale_ || !missing().empty() || !has_state(turn)) return false;
        join(turn);
        return true;
      case Phase::gathering:
        if (!is_greeted_) enter_iteration(turn);
        if (!missing().empty()) return false;
        take_models(turn);
        if (phase_ == Phase::gathering) solve(turn);
        return false;
      case Phase::exchanging:
        if (!missing().empty()) return false;
        take_models(turn);
        if (phase_ == Phase::exchanging) end_iteration(turn);
        return true;
      case Phase::deciding:
        return decide(turn);
      case Phase::averaging:
        return end_with_mean(/*gives=*/true, turn);
      default:
        return false;
    }
  }

  // Returns the ranks whose vectors this phase waits for.
  std::vector<Rank> missing() const {
    std::vector<Rank> ranks;
    if (phase_ == Phase::joining) {
      const auto joins = inbox_.joins();
      for (const Rank rank : live_with(Role::worker, place_, view_))
        if (rank != place_.self && !joins.contains(rank)) ranks.push_back(rank);
      return ranks;
    }
    if (phase_ != Phase::gathering && phase_ != Phase::exchanging) return ranks;
    const bool needs_models = position_.is_head == (phase_ == Phase::exchanging);
    for (const Rank rank : position_.neighbours) {
      const bool has_seen = seen_.contains(rank) || inbox_.has(Kind::hello, rank, done_);
      if (!has_seen || (needs_models && !inbox_.has(Kind::model, rank, done_)))
        ranks.push_back(rank);
    }
    return ranks;
  }

  // Sends to each other worker the next iteration, the model as last sent, and the receiver's dual.
  void send_joins(Turn& turn) {
    for (const Rank rank : live_with(Role::worker, place_, view_)) {
      if (rank == place_.self) continue;
      if (!knows_model_) {
        send({rank}, Kind::join, 0, {}, turn);
        continue;
      }
      const gadmm::DualLedger::Dual* dual = duals_.of(rank);
      std::vector<double> values = theta_;
      if (dual) values.insert(values.end(), dual->values.begin(), dual->values.end());
      if (place_.phantom) values.resize(dual ? 2 * size_ : size_);
      send({rank}, Kind::join, dual ? dual->steps : 0, doubles(std::move(values)), turn);
    }
  }

  // Called when all joins have arrived: no worker is in an iteration of the previous view.
  void join(Turn& turn) {
    Round first = done_;
    if (!take_joins(first, turn)) return;
    turn.record("join_s", done_, seconds(turn.now() - asked_));
    skip_to(first, turn);
    joined_at_ = first;
    stopping_.begin(first);
    is_greeted_ = false;
    phase_ = Phase::deciding;
  }

  // Reads the joins. Returns false if no worker has a model, and the run has failed.
  bool take_joins(Round& first, Turn& turn) {
    const Rank senior = senior_worker(place_, view_);
    const auto joins = inbox_.joins();
    std::vector<Rank> without;
    for (const auto& [rank, iteration] : joins) {
      first = std::max(first, iteration);
      const gadmm::Inbox::Item item = inbox_.take(Kind::join, rank, iteration);
      if (item.content.kind() == ContentKind::none) {
        without.push_back(rank);
        continue;
      }
      std::vector<double> values = item.content.doubles();
      gadmm::DualLedger::Dual dual{item.steps, {}};
      if (item.steps > 0 && !place_.phantom)
        dual.values.assign(values.begin() + std::ptrdiff_t(size_), values.end());
      if (!place_.phantom) values.resize(size_);
      duals_.repair(rank, dual);
      seen_[rank] = std::move(values);
    }
    const bool senior_knows = senior == place_.self ? knows_model_ : seen_.contains(senior);
    if ((!without.empty() || !knows_model_) && !senior_knows) {
      fail(state_lost("all sites that knew the model are lost; resume from a checkpoint"), turn);
      return false;
    }
    if (!knows_model_) {
      theta_ = seen_.at(senior);
      done_ = joins.at(senior);
      knows_model_ = true;
    }
    const std::vector<double> theirs = senior == place_.self ? theta_ : seen_[senior];
    for (const Rank rank : without) seen_[rank] = theirs;
    return true;
  }

  // Skips to `iteration`. Missed rounds count as completed with this worker's present model.
  void skip_to(Round iteration, Turn& turn) {
    show_model(turn);
    while (done_ < iteration) {
      ++done_;
      report_round(turn);
    }
    inbox_.pass(done_);
  }

  // Sends to returned workers the state that is not in a join.
  void hand_over(Turn& turn) {
    if (!knows_model_) return;
    state_transfer_.drop_received();  // a duplicate
    newcomers_.hand_over(state_transfer_, done_, turn, within(state_transfer_, turn),
                         [this](Archive& ar) { archive_for_returned(ar); });
  }

  void archive_for_returned(Archive& ar) {
    ar.expect("gadmm");
    ar(samples_);
    stop_.hand_over(ar);
  }

  // Returns true if this worker has the verdicts. A returned worker must receive them first.
  bool has_state(Turn& turn) {
    if (knows_model_ || has_state_) return true;
    if (!state_transfer_.received()) return false;
    const Status read = state_transfer_.read([this](Archive& ar) { archive_for_returned(ar); });
    if (!read) return fail(read.error(), turn), false;
    has_state_ = true;
    state_transfer_.confirm(within(state_transfer_, turn));
    return true;
  }

  // Finds this worker's position in the chain, and sends its model to new neighbours.
  void enter_iteration(Turn& turn) {
    is_greeted_ = true;
    asked_ = turn.now();
    position_ = chains_.position(place_.self, done_, view_);
    if (!is_admm()) position_.is_head = true;  // all compute at the same time
    const std::vector<Rank>& near = position_.neighbours;
    std::erase_if(
        seen_, [&](const auto& one) { return std::ranges::find(near, one.first) == near.end(); });
    const bool is_new_chain = chains_.is_first(done_) && done_ != joined_at_;
    if (!is_new_chain) return;
    const std::vector<Rank> before = chains_.position(place_.self, done_ - 1, view_).neighbours;
    const std::vector<Rank> fresh =
        those_of(near, [&](Rank rank) { return std::ranges::find(before, rank) == before.end(); });
    for (const Rank rank : fresh) seen_.erase(rank);
    if (!fresh.empty()) send(fresh, Kind::hello, 0, doubles(theta_), turn);
  }

  // Starts the next iteration, or the end of the run. Returns false if neither can start yet.
  bool decide(Turn& turn) {
    StopRule::Step step = done_ == 0 ? StopRule::Step::go_on : stop_.after(done_ - 1);
    if (end_at_ > 0 && done_ >= end_at_) step = StopRule::Step::stop;
    if (step == StopRule::Step::wait) return false;
    if (step == StopRule::Step::go_on) {
      if (!may_judge_later()) return false;
      phase_ = Phase::gathering;
      return true;
    }
    begin_mean(turn);
    return true;
  }

  void solve(Turn& turn) {
    phase_ = Phase::solving;
    turn.record("wait_s", done_, seconds(turn.now() - asked_));
    if (!is_admm()) {
      turn.compute(FullGradient{point(), true});
      return;
    }
    LocalSolve work;
    work.summed = true;
    if (!place_.phantom) {
      work.linear = duals_.sum(size_);
      for (const Rank rank : position_.neighbours)
        work.anchors.emplace_back(config_.rho, seen_[rank]);
      if (config_.mu > 0) work.anchors.emplace_back(config_.mu, std::vector<double>(size_));
    }
    turn.compute(std::move(work));
  }

  // Returns theta, in fp64.
  std::vector<double> point() const {
    if (config_.method != "dual_averaging") return theta_;
    return gadmm::averaged_point(start_, theta_, config_.step, done_);
  }

  double penalty_of(const std::vector<double>& theta) const {
    double square = 0;
    for (const double v : theta) square += v * v;
    return config_.mu / 2 * square;
  }

  // Sends the next model. With admm it is the solution; otherwise a step with the gradient.
  void use_result(Turn& turn) {
    const std::vector<double> at = is_admm() ? solved_ : point();
    loss_ += penalty_of(at);
    if (!is_admm() && !place_.phantom) {
      std::vector<gadmm::Neighbour> neighbours;
      for (const Rank rank : position_.neighbours)
        neighbours.push_back(
            {seen_.at(rank), chains_.position(rank, done_, view_).neighbours.size()});
      std::vector<double> next = gadmm::metropolis_mean(theta_, neighbours);
      const double step = config_.method == "dgd" ? -config_.step : 1;
      for (std::size_t i = 0; i < next.size(); ++i)
        next[i] += step * (solved_[i] + config_.mu * at[i]);
      solved_ = std::move(next);
    }
    send_model(turn);
  }

  // Sends theta_n. Keeps it in theta_ as the neighbours will decode it.
  void send_model(Turn& turn) {
    phase_ = Phase::exchanging;
    asked_ = turn.now();
    if (!are_finite(solved_))
      return fail(not_finite(is_admm() ? "the solution of its local problem is not finite"
                                       : "its model is not finite; lower [sync] step"),
                  turn);
    const std::vector<Rank>& to = position_.neighbours;
    VectorContent content;
    if (to.empty() || config_.send == "fp64") {
      theta_ = std::move(solved_);
      content = doubles(theta_);
    } else if (config_.send == "codec") {
      auto values = std::make_shared<std::vector<float>>();
      for (const double v : solved_) values->push_back(float(v));
      const Range all{0, size_};
      if (!place_.phantom) {
        assign(theta_, channel_->as_received(*values, all, to.front(), {.group = 0}));
      }
      content = VectorContent::values(std::move(values), all);
    } else if (place_.phantom) {
      content = VectorContent::phantom({.kind = ContentKind::bytes,
                                        .range = {},
                                        .size = gadmm::quantised_bytes(size_, config_.bits)});
    } else {
      Random random = turn.random(Purpose::codec, done_, place_.self);
      content = VectorContent::bytes(share(gadmm::quantise(solved_, theta_, config_.bits, random)));
    }
    if (!are_finite(theta_)) return fail(not_finite("its model is too large for [codec]"), turn);
    solved_.clear();
    if (!to.empty()) send(to, Kind::model, 0, std::move(content), turn);
  }

  // Takes the neighbours' vectors for this iteration, if they are due.
  void take_models(Turn& turn) {
    for (const Rank rank : position_.neighbours) {
      if (inbox_.has(Kind::hello, rank, done_))
        seen_[rank] = inbox_.take(Kind::hello, rank, done_).content.doubles();
      if (position_.is_head != (phase_ == Phase::exchanging)) continue;
      if (!inbox_.has(Kind::model, rank, done_)) continue;  // a tail took it before its solve
      if (!read_model(rank, inbox_.take(Kind::model, rank, done_).content, turn)) return;
    }
  }

  bool read_model(Rank from, const VectorContent& content, Turn& turn) {
    std::vector<double>& seen = seen_[from];
    if (place_.phantom) return true;
    Status read = Ok{};
    if (content.kind() == ContentKind::doubles) {
      seen = content.doubles();
    } else if (content.kind() == ContentKind::values) {
      seen.assign(content.values()->begin(), content.values()->end());
    } else {
      read = gadmm::dequantise(*content.bytes(), seen, config_.bits);
    }
    if (read && !are_finite(seen)) read = malformed("a model that is not finite");
    if (read) return true;
    fail({read.error().kind,
          "rank " + std::to_string(from) + " broke the protocol: " + read.error().what},
         turn);
    return false;
  }

  void end_iteration(Turn& turn) {
    for (const Rank rank : position_.neighbours)
      if (is_admm()) duals_.step(rank, config_.rho, theta_, seen_[rank]);
    if (!place_.phantom && (config_.send == "fp64" || !is_admm()))
      turn.record("objective", done_, loss_);
    const Round round = done_++;
    if (!stopping_.wants_scores()) {
      tell_figure(round, std::isfinite(loss_) ? loss_ : gadmm::Stopping::kUnknown, turn);
    } else if (end_at_ == 0) {
      const std::vector<double> theta = point();
      penalties_[round] = penalty_of(theta);
      auto model = std::make_shared<std::vector<float>>(theta.begin(), theta.end());
      model->resize(place_.layout->size());
      turn.report(round, std::move(model));
    }
    judge(turn);
    is_greeted_ = false;
    inbox_.pass(done_);
    phase_ = Phase::deciding;
    show_model(turn);
    report_round(turn);
  }

  // Reports the last round. Each live worker is assumed to have used as many samples as this one.
  void report_round(Turn& turn) {
    const auto live = live_with(Role::worker, place_, view_).size();
    stop_.round_done(done_ - 1, turn.params(), samples_ * live, within(stop_, turn));
  }

  void show_model(Turn& turn) {
    const auto x = turn.params();
    const std::vector<double> theta = point();
    for (std::size_t i = 0; i < theta.size(); ++i) x[i] = float(theta[i]);
  }

  // Returns the worker that applies the stopping rule.
  Rank judge_rank() const { return live_with(Role::worker, place_, view_).front(); }
  // Returns true if this worker need not wait for a judgement. With n workers the judge is at most
  // n iterations ahead of the judged ones. If it finds in iteration k that the rule holds, models
  // of iteration k + n + 1 or earlier carry the end. All workers know it n iterations later: with
  // any chains, each iteration reaches one more worker.
  bool may_judge_later() const {
    return !stopping_.is_on() || end_at_ > 0 || judge_rank() != place_.self ||
           done_ <= stopping_.next() + worker_count(place_);
  }

  void tell_figure(Round round, double value, Turn& turn) {
    if (!stopping_.is_on() || end_at_ > 0) return;
    if (judge_rank() == place_.self) return stopping_.add(place_.self, round, value);
    channel_->send({judge_rank()},
                   {.kind = Kind::figure, .epoch = view_.epoch, .iteration = round, .value = value},
                   {}, {.group = 0}, within(*channel_, turn));
  }

  void judge(Turn& turn) {
    const bool is_busy = phase_ != Phase::joining && phase_ < Phase::averaging;
    if (!stopping_.is_on() || !is_busy || judge_rank() != place_.self) return;
    for (const auto& [round, error] : stopping_.judge(live_with(Role::worker, place_, view_)))
      turn.record("error", round, error);
    if (end_at_ > 0 || !stopping_.holds_since()) return;
    end_at_ = stopping_.next() + 2 * worker_count(place_) + 2;
    turn.record("rule_holds", *stopping_.holds_since(), 1);
  }

  VectorContent doubles(std::vector<double> values) const {
    if (!place_.phantom) return VectorContent::doubles(values);
    const std::uint64_t size = values.empty() ? size_ : values.size();
    return VectorContent::phantom({.kind = ContentKind::doubles, .range = {}, .size = size});
  }

  void send(const std::vector<Rank>& to, Kind kind, std::uint64_t steps, VectorContent content,
            Turn& turn) {
    channel_->send(to,
                   {.kind = kind,
                    .epoch = view_.epoch,
                    .iteration = done_,
                    .steps = steps,
                    .end_at = end_at_,
                    .knows_model = knows_model_},
                   std::move(content), {.group = 0}, within(*channel_, turn));
  }

  std::string place_in_run() const override { return "gadmm, iteration " + std::to_string(done_); }

  const Config config_;
  const Place place_;
  const std::uint64_t size_;  // size of theta: the layout's parameters
  const gadmm::Chains chains_;
  std::unique_ptr<Channel> channel_;
  StopRule stop_;
  StateTransfer state_transfer_;
  gossip::Newcomers newcomers_;

  Round done_ = 0;            // completed iterations; also the current one
  bool has_entered_ = false;  // true after the first view
  View view_;                 // view that this worker has entered
  Round joined_at_ = 0;       // first iteration in this view
  bool is_greeted_ = false;   // true if new neighbours of this iteration have been sent a hello
  bool knows_model_ = true;   // false if returned and not joined since
  bool has_state_ = false;  // true if a returned worker has the senior worker's verdicts and counts
  bool is_stale_ = false;   // true if the current computation is for an old view
  std::vector<double> start_;                 // x_0
  std::vector<double> theta_;                 // model as last sent; dual_averaging: z
  std::vector<double> solved_;                // newest solution or gradient
  double loss_ = 0;                           // f_n at that point; includes mu from use_result() on
  std::uint64_t samples_ = 0;                 // samples that this worker has used
  gadmm::Position position_;                  // position in this iteration
  std::map<Rank, std::vector<double>> seen_;  // newest models of the neighbours
  gadmm::DualLedger duals_;
  gadmm::Inbox inbox_;
  Time asked_{0};  // start of the wait for the neighbours
  gadmm::Stopping stopping_;
  std::map<Round, double> penalties_;  // mu/2 |theta|^2 of models whose scores are pending
  Round end_at_ = 0;                   // number of iterations of the run; 0 if unknown
};

}  // namespace

SyncEntry gadmm_entry() { return Gadmm::entry(); }

}  // namespace longhaul::sync
