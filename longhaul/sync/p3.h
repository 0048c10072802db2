#pragma once
// Priority-based parameter propagation: gradients are averaged in every step, as in bsp, but layer
// by layer. Each finished part of the backward pass leaves at once. On every link, layers near the
// input pass those near the output. The next forward pass begins with the mean of the first layer,
// while the means of deeper layers are still in transit.
//   Jayarajan et al., "Priority-based parameter propagation for distributed DNN training", MLSys
//   2019 (arXiv:1905.03960).
//
// Round k, parts p = 0 .. m-1 of the model from the input on, B_i the samples of worker i:
//   for p = 0 .. m-1:   wait for gbar_p of round k-1;  x_p <- opt_p(x_p, gbar_p);  forward of p
//   for p = m-1 .. 0:   backward of p;  g_p into the mean  gbar_p = sum B_i g_p,i / sum B_i
// The values are those of bsp. If both wait for a link, part p of a round goes before part p + 1.
//
// The paper uses a parameter server and slices of a layer. Here any overlay forms the means, and
// chunks are the slices. The parts and their order after losses are not from the paper. A returned
// worker takes part in rounds without a contribution until the senior worker's model and optimiser
// have arrived. It applies the means of the rounds since then, and contributes to the next one.
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "longhaul/core/registry.h"
#include "longhaul/core/sample_count.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/follower.h"
#include "longhaul/sync/layer_parts.h"
#include "longhaul/sync/optimizer_transfer.h"
#include "longhaul/sync/state_transfer.h"

namespace longhaul::sync {

class P3 final : public Strategy {
 public:
  static SyncEntry entry() {
    return strategy_entry<P3>(
        {.name = "p3",
         .summary = "bsp layer by layer: shallow layers first, the next step begins with them",
         .sends =
             "The gradient goes in parts, from the output to the input; of those that wait for "
             "a link the one nearest to the input goes first. With one part this is bsp",
         .traits = {.takes_outer = false,
                    .takes_gaps = true,
                    .when_lost = "waits until the others agree that it is gone, repeats the parts "
                                 "that lack it without it",
                    .lets_return = true,
                    .asks = "backward part"},
         .costs = {{.rounds = "every step",
                    .sent = "an exchange of S",
                    .waits_for = "all, every layer",
                    .staleness = "0",
                    .memory = "none",
                    .when_lost = "agreed mean, goes on"}}});
  }

  // Maximum number of means in progress; an overlay keeps twice as many for peers that are ahead.
  static constexpr std::size_t kMostParts = 32;

  struct Config {
    std::string order = "shallow_first";
    double forward_share = 1.0 / 3;
    std::vector<double> shares;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(order,
                   "which waiting part goes first: the one nearest to the input, or the one that "
                   "was done first",
                   .choices = {"shallow_first", "fifo"});
      LONGHAUL_KEY(forward_share,
                   "simulate only: share of a step's time that the forward pass takes", .min = 0,
                   .max = 1);
      LONGHAUL_KEY(shares,
                   "simulate only: what the time of each part, from the input on, is of a pass; "
                   "empty: by parameters");
    }
  };
  P3(const Config& config, SyncParts with, const Place& place)
      : config_(config),
        place_(place),
        parts_(layer_parts(*place.layout, place.phantom, kMostParts)),
        shares_(known_shares(config, parts_)),
        overlay_(std::move(with.overlay)),
        stop_(with.stop) {
    own(*overlay_, kOverlayChild);
    own(stop_, {1, "stop rule"});
    own(state_transfer_, {2, "state transfer"});
  }

  static Status check(const Config& config, const Place& place) {
    const auto parts = layer_parts(*place.layout, place.phantom, kMostParts);
    // A job is first read without its model.
    if (!config.shares.empty() && place.layout->layers().size() <= 1) return Ok{};
    const auto shares = shares_of(config, parts);
    return shares ? Status(Ok{}) : Status(shares.error());
  }

  void on_start(Turn& turn) override {
    phase_ = turn.place().comes_back() ? Phase::finding_round : Phase::awaiting;
  }

  void on_view(const View& before, Turn& turn) override {
    const View& view = turn.view();
    std::erase_if(returned_, [&](const auto& one) { return !view.has(one.first); });
    std::erase_if(needs_state_, [&](Rank rank) { return !view.has(rank); });
    for (const auto& [rank, epoch] : view.returned)
      if (epoch == view.epoch && rank != turn.self() && turn.place().member(rank).is(Role::worker))
        returned_[rank] = epoch;
    if (phase_ == Phase::ended) return send_state(/*last=*/true, turn);
    if (knows_model()) return;
    if (is_senior(turn))
      return fail(state_lost("all sites that knew the model are lost; resume from a checkpoint"),
                  turn);
    follower_.on_view(before, turn);
  }

  void on_step(const StepResult& result, Turn&) override {
    optimizer_.on_step(result);
    step_ = result;
  }

  void on_computed(const Computed&, Turn& turn) override {
    if (optimizer_.on_computed()) {
      step_ = {};
      if (phase_ == Phase::setting_optimizer) phase_ = Phase::awaiting;
      return on_progress(turn);
    }
    move_on(std::exchange(step_, {}), turn);
    on_progress(turn);
  }

  void on_progress(Turn& turn) override {
    if (knows_model()) state_transfer_.drop_received();  // received twice
    if (phase_ == Phase::ended) send_state(/*last=*/true, turn);
    while (advance(turn)) {
    }
  }

  bool lets_return() const override { return true; }
  Round rounds_done() const override { return done_; }
  std::string waiting_for() const override {
    if (phase_ == Phase::deciding) return stop_.waiting_for();
    if (phase_ == Phase::finding_round || phase_ == Phase::standing_in)
      return state_transfer_.waiting_for("the current round, to take part in it; " +
                                         overlay_->waiting_for());
    if (phase_ == Phase::awaiting_state)
      return state_transfer_.waiting_for("the model of the senior worker");
    if (phase_ != Phase::awaiting || round_ == first_) return "";
    return "part " + std::to_string(part_) + " of " + std::to_string(parts_.size()) + ": " +
           overlay_->waiting_for();
  }

  void state(Archive& ar) override {
    ar(phase_, round_, done_, part_, samples_, own_samples_, has_buffers_, loss_, compute_s_,
       wait_s_, asked_);
    ar(first_, returned_, needs_state_, formed_, optimizer_, follower_);
  }

  const std::vector<LayerPart>& parts() const { return parts_; }

 private:
  // Returns the share of each part in a pass.
  static Result<std::vector<double>> shares_of(const Config& config,
                                               const std::vector<LayerPart>& parts) {
    std::vector<double> shares = config.shares;
    if (shares.empty())
      for (const LayerPart& part : parts) shares.push_back(double(part.values.length));
    double sum = 0;
    bool is_valid = shares.size() == parts.size();
    for (const double share : shares) {
      is_valid = is_valid && share >= 0;
      sum += share;
    }
    if (!is_valid || !(sum > 0))
      return invalid("[sync] shares: expected " + std::to_string(parts.size()) +
                     " numbers from 0 on, one for each part of the model, not all 0; found " +
                     std::to_string(config.shares.size()));
    for (double& share : shares) share /= sum;
    return shares;
  }

  // Accepts a job without a known model, whose parts need not match config.shares.
  static std::vector<double> known_shares(const Config& config,
                                          const std::vector<LayerPart>& parts) {
    if (auto shares = shares_of(config, parts)) return *std::move(shares);
    return std::vector<double>(parts.size(), 1 / double(parts.size()));
  }

  enum class Phase : std::uint8_t {
    unstarted,
    awaiting,  // waits for the mean of part_ of the round before
    applying,  // applies it
    forward,
    deciding,  // the round before is complete: waits for a verdict
    backward,
    ended,
    failed,
    // phases of a returned worker
    finding_round,
    standing_in,        // takes part in a round without contributing
    awaiting_state,     // keeps as many means as it may: the others wait for it
    setting_optimizer,  // sets the optimiser to the sender's state
  };
  // Makes one move, if one is possible now.
  bool advance(Turn& turn) {
    if (follower_.finds_round_anew) return find_round_anew(turn);
    switch (phase_) {
      case Phase::awaiting:
        if (follower_.catches_up && done_ == follower_.joins) join(turn);
        if (round_ == first_) return go_forward(turn), false;
        return take_mean(turn);
      case Phase::deciding:
        return decide(turn);
      case Phase::finding_round:
        return begin_from_state(turn) || (phase_ == Phase::finding_round && stand_in(turn));
      case Phase::standing_in:
        return begin_from_state(turn) || (phase_ == Phase::standing_in && end_stand_in(turn));
      case Phase::awaiting_state:
        return begin_from_state(turn);
      default:
        return false;
    }
  }

  // Called when the model of the round before is complete. Sends it to workers that need it, before
  // the next pass continues.
  bool decide(Turn& turn) {
    if (turn.learner_is_busy()) return false;  // reads the optimiser's state
    const StopRule::Step step = stop_.after(done_ - 1);
    if (step == StopRule::Step::wait) return false;
    const bool is_last = step == StopRule::Step::stop;
    const bool sends = !needs_state_.empty() && is_senior(turn);
    if (sends && !is_last && !optimizer_.ready(turn)) return false;
    send_state(is_last, turn);
    optimizer_.forget();
    wait_s_ += seconds(turn.now() - asked_);
    if (!is_last && follower_.catches_up) return await_next(turn), true;
    if (follower_.catches_up) confirm_state(turn);
    if (!is_last) return go_forward(turn), false;
    phase_ = Phase::ended;
    turn.finish();
    return false;
  }

  // Applies x_p <- opt_p(x_p, gbar_p) when gbar_p of the round before has arrived. If all
  // contributors to the mean are lost, the part stays unchanged at all workers.
  bool take_mean(Turn& turn) {
    const bool is_last = part_ + 1 == parts_.size();
    if (is_last && !take_buffers(turn)) return false;
    const auto mean = poll(range(part_));
    if (!mean) return false;
    note_returned(*mean, turn);
    has_buffers_ = false;
    wait_s_ += seconds(turn.now() - asked_);
    if (part_ == 0) samples_ = plus_samples(samples_, std::floor(mean->weight));
    if (mean->counted.empty()) return applied(turn), true;
    const LayerPart& part = parts_[part_];
    const auto g = turn.grads().first(parameter_count(turn.place()));
    if (!g.empty()) {
      LH_CHECK(mean->values.size() == part.values.length);
      std::ranges::copy(mean->values, g.begin() + std::ptrdiff_t(part.values.offset));
    }
    phase_ = Phase::applying;
    turn.compute(ApplyGradient{part.first, part.end});
    return false;
  }

  // Takes the mean of the buffers of the round before, which is exact. Returns false if it has not
  // arrived yet.
  bool take_buffers(Turn& turn) {
    if (has_buffers_ || place_.layout->buffers().length == 0) return true;
    const auto mean = poll(buffers_range());
    if (!mean) return false;
    note_returned(*mean, turn);
    std::ranges::copy(mean->values, buffers(turn).begin());
    has_buffers_ = true;
    return true;
  }

  // Called when the part is applied. The last part completes the round, whose model may be the last
  // of the run.
  void applied(Turn& turn) {
    if (part_ + 1 < parts_.size()) {
      if (!follower_.catches_up) return go_forward(turn);
      ++part_;
      phase_ = Phase::awaiting;
      return;
    }
    asked_ = turn.now();
    ++done_;
    if (follower_.catches_up && follower_.next_is_here())  // the others have decided on this round
      return await_next(turn);
    phase_ = Phase::deciding;
    note_who_needs_state(turn);
    stop_.round_done(done_ - 1, turn.params(), samples_, within(stop_, turn));
  }

  // Called when a part of a pass, or of the optimiser's step, is done.
  void move_on(const StepResult& step, Turn& turn) {
    compute_s_ += seconds(step.elapsed);
    switch (phase_) {
      case Phase::applying:
        return applied(turn);
      case Phase::forward:
        if (part_ + 1 == parts_.size()) return go_back(turn);
        ++part_;
        phase_ = Phase::awaiting;
        asked_ = turn.now();
        return;
      case Phase::backward:
        send_part(step, turn);
        if (phase_ == Phase::failed) return;
        if (part_ > 0) return --part_, go_back(turn);
        if (!send_buffers(turn)) return;
        turn.record("compute_s", round_, std::exchange(compute_s_, 0));
        turn.record("wait_s", round_, std::exchange(wait_s_, 0));
        ++round_;
        phase_ = Phase::awaiting;
        asked_ = turn.now();
        return;
      default:
        return;
    }
  }

  void go_forward(Turn& turn) {
    phase_ = Phase::forward;
    const LayerPart& part = parts_[part_];
    turn.compute(ForwardPart{part.first, part.end, config_.forward_share * share(part_)});
  }

  void go_back(Turn& turn) {
    phase_ = Phase::backward;
    const LayerPart& part = parts_[part_];
    turn.compute(BackwardPart{.first = part.first,
                              .end = part.end,
                              .begins = part_ + 1 == parts_.size(),
                              .layers = {},
                              .share = (1 - config_.forward_share) * share(part_)});
  }

  // Sends g_p. Loss and samples are those of the first backward part.
  void send_part(const StepResult& step, Turn& turn) {
    if (part_ + 1 == parts_.size()) {
      own_samples_ = step.samples;
      loss_ = step.loss;
      if (!turn.place().phantom) turn.record("train_loss", round_, step.loss);
    }
    const Range& values = parts_[part_].values;
    std::span<const float> g;
    if (!turn.place().phantom) g = turn.grads().subspan(values.offset, values.length);
    const Status begun = overlay_->begin({round_, 0, range(part_)}, {},
                                         {.values = g,
                                          .length = values.length,
                                          .weight = double(own_samples_),
                                          .loss = loss_,
                                          .knows_round = true},
                                         within(*overlay_, turn));
    if (!begun) fail(begun.error(), turn);
  }

  // Returns false if the strategy has failed.
  bool send_buffers(Turn& turn) {
    const std::uint64_t length = place_.layout->buffers().length;
    if (length == 0) return true;
    const Status begun = overlay_->begin({round_, 0, buffers_range()}, {},
                                         {.values = buffers(turn),
                                          .length = length,
                                          .weight = double(own_samples_),
                                          .exact = true,
                                          .knows_round = true},
                                         within(*overlay_, turn));
    if (!begun) fail(begun.error(), turn);
    return bool(begun);
  }

  // Returns the overlay's range of the part. A lower range leaves sooner.
  std::uint32_t range(std::size_t part) const {
    return std::uint32_t(config_.order == "fifo" ? parts_.size() - 1 - part : part);
  }

  std::uint32_t buffers_range() const { return std::uint32_t(parts_.size()); }
  double share(std::size_t part) const { return shares_.at(part); }
  void fail(const Error& error, Turn& turn) {
    phase_ = Phase::failed;
    follower_ = {};
    turn.fail({error.kind, who("p3, round " + std::to_string(round_), turn.place()) + error.what});
  }

  // Returns false at a returned worker without a model.
  bool knows_model() const { return phase_ < Phase::finding_round && !follower_.catches_up; }
  // Returns the length of each range.
  std::map<std::uint32_t, std::uint64_t> lengths() const {
    std::map<std::uint32_t, std::uint64_t> all;
    for (std::size_t p = 0; p < parts_.size(); ++p) all[range(p)] = parts_[p].values.length;
    if (place_.layout->buffers().length > 0) all[buffers_range()] = place_.layout->buffers().length;
    return all;
  }

  // Notes the epoch of the mean and the returned workers that contributed. A contribution from
  // before the loss of its worker does not count.
  void note_returned(const Outcome& mean, Turn&) {
    formed_ = part_ == 0 ? mean.epoch : std::max(formed_, mean.epoch);
    std::erase_if(returned_, [&](const auto& one) {
      return mean.epoch >= one.second && std::ranges::binary_search(mean.counted, one.first);
    });
  }

  // The senior worker sends the state that the next round begins with to workers that took part in
  // this round without a contribution, once.
  void note_who_needs_state(const Turn& turn) {
    std::erase_if(returned_, [&](const auto& one) { return state_transfer_.has_state(one.first); });
    if (!is_senior(turn)) return;
    for (const auto& [rank, since] : returned_)
      if (formed_ >= since && !state_transfer_.sends_to(rank)) needs_state_.insert(rank);
  }

  void send_state(bool last, Turn& turn) {
    if (last)
      for (const auto& [rank, epoch] : returned_)
        if (!state_transfer_.sends_to(rank) && !state_transfer_.has_state(rank))
          needs_state_.insert(rank);
    const std::set<Rank> to = std::exchange(needs_state_, {});
    if (to.empty() || !is_senior(turn)) return;
    state_transfer_.send(
        to, done_, last, [&](Archive& ar) { archive_for_returned(ar, turn); },
        within(state_transfer_, turn), /*beside_rounds=*/!last);
  }

  void archive_for_returned(Archive& ar, Turn& turn) {
    ar.expect("p3");
    ar(done_, samples_, optimizer_);
    stop_.hand_over(ar);
    ar.floats(turn.params());
  }

  bool find_round_anew(Turn& turn) {
    if (turn.learner_is_busy()) return false;
    const Follower before = std::exchange(follower_, {});
    follower_.wants_state = before.catches_up || before.wants_state;
    stop_.forget_round();
    phase_ = Phase::finding_round;
    return true;
  }

  // Takes part in the current round without a contribution. The means of some of its parts may
  // exist already.
  bool stand_in(Turn& turn) {
    std::map<std::uint32_t, Round> next;
    for (const auto& [range, length] : lengths()) {
      const auto round = overlay_->next_round(0, range);
      if (!round) return false;
      next[range] = *round;
    }
    done_ = follower_.begin(next, done_);
    if (std::exchange(follower_.wants_state, false))
      state_transfer_.ask_for(done_ + 1, within(state_transfer_, turn));
    phase_ = Phase::standing_in;
    for (const auto& [range, length] : lengths()) {
      if (next.at(range) != done_) continue;
      const Status begun = overlay_->begin(
          {done_, 0, range}, {},
          {.values = {}, .length = length, .contributes = false, .exact = range == buffers_range()},
          within(*overlay_, turn));
      if (!begun) fail(begun.error(), turn);
    }
    return phase_ == Phase::standing_in;
  }

  // Keeps the means until a model has arrived that they change.
  bool end_stand_in(Turn& turn) {
    bool is_over = true;
    const auto all = lengths();
    for (const auto& [range, length] : all) {
      if (auto mean = overlay_->poll({done_, 0, range})) follower_.means[range] = *std::move(mean);
      is_over &= overlay_->next_round(0, range).value_or(0) > done_;
    }
    if (!is_over) return false;
    ++done_;
    follower_.end(all.size(), 1);
    const bool is_full = follower_.is_full(turn.place());
    const bool waits = is_full && state_transfer_.is_receiving();
    if (is_full && !waits) follower_.drop_missed();
    phase_ = waits ? Phase::awaiting_state : Phase::finding_round;
    return true;
  }

  // Begins with the state that has arrived, if this worker has the means of all rounds since then.
  bool begin_from_state(Turn& turn) {
    const StateTransfer::TransferredState* received = state_transfer_.received();
    const bool is_in_part = phase_ == Phase::standing_in && !follower_.stands_in_all_ranges;
    if (!received || !follower_.has_found_round || is_in_part || received->round > done_)
      return false;
    const Round runs = done_;
    if (!follower_.can_begin(received->round, runs)) {
      state_transfer_.ask_for(runs, within(state_transfer_, turn));
      if (phase_ == Phase::awaiting_state) phase_ = Phase::finding_round;
      return false;
    }
    const bool is_last = received->last;
    const Status read =
        state_transfer_.read([&](Archive& ar) { archive_for_returned(ar, turn); },
                             [&](const auto& state) -> Status {
                               if (done_ == state.round) return Ok{};
                               return malformed("it is not of the beginning of a round");
                             });
    if (!read) return fail(read.error(), turn), false;
    if (is_last) {
      state_transfer_.confirm(within(state_transfer_, turn));
      phase_ = Phase::ended;
      turn.finish();
      return false;
    }
    follower_.catches_up = true;
    follower_.joins = phase_ == Phase::standing_in ? runs + 1 : runs;
    stop_.skip_to(runs);
    round_ = done_;
    has_buffers_ = false;
    optimizer_.on_returned();
    phase_ = Phase::setting_optimizer;
    if (optimizer_.set(turn)) return await_next(turn, Phase::setting_optimizer), false;
    return await_next(turn), true;
  }

  // Catching up: waits for the means of the next round, without a gradient of its own.
  void await_next(Turn& turn, Phase phase = Phase::awaiting) {
    ++round_;
    part_ = 0;
    asked_ = turn.now();
    phase_ = phase;
  }

  // Called when its model is that of the others.
  void join(Turn& turn) {
    confirm_state(turn);
    first_ = round_ = done_;
    part_ = 0;
  }

  void confirm_state(Turn& turn) {
    follower_ = {};
    state_transfer_.confirm(within(state_transfer_, turn));
  }

  // Returns the mean of the last round, once.
  std::optional<Outcome> poll(std::uint32_t range) {
    if (auto kept = follower_.take(range)) return kept;
    return overlay_->poll({round_ - 1, 0, range});
  }

  const Config config_;
  const Place place_;
  const std::vector<LayerPart> parts_;
  const std::vector<double> shares_;  // share of each part in a pass
  const std::unique_ptr<Overlay> overlay_;
  StopRule stop_;
  StateTransfer state_transfer_;

  Phase phase_ = Phase::unstarted;
  Round first_ = 0;  // first round whose gradient this worker has computed
  Round round_ = 0;  // round whose gradient is computed
  Round done_ = 0;   // number of rounds with a complete model
  std::uint32_t part_ = 0;
  StepResult step_;                // valid within one turn
  std::uint64_t samples_ = 0;      // samples used by all workers in the rounds done
  std::uint64_t own_samples_ = 0;  // samples of this worker in this round
  bool has_buffers_ = false;       // whether params() holds the buffers of the round before
  double loss_ = 0;
  double compute_s_ = 0, wait_s_ = 0;  // seconds in this round
  Time asked_{0};                      // start of the wait for a mean or a verdict
  // Live workers that have returned, with their epoch, until they have the model. The second set
  // are those that wait for the state of the next round.
  std::map<Rank, Epoch> returned_;
  std::set<Rank> needs_state_;
  Epoch formed_ = 0;  // newest epoch in which a mean of the round before was formed
  OptimizerTransfer optimizer_;
  Follower follower_;  // at a returned worker, until it has caught up
};

}  // namespace longhaul::sync
