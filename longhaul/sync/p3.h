#pragma once
// Priority-based parameter propagation: gradients averaged in every step, as in bsp, but layer by
// layer. What is done of the backward pass leaves at once, layers near the input pass those near
// the output on every link, and the next forward pass begins with the first layer's mean, while
// deeper ones are still on their way.
//   Jayarajan et al., "Priority-based parameter propagation for distributed DNN training", MLSys
//   2019 (arXiv:1905.03960).
//
// Round k, parts p = 0 .. m-1 of the model from the input on, B_i the samples of worker i:
//   for p = 0 .. m-1:   wait for gbar_p of round k-1;  x_p <- opt_p(x_p, gbar_p);  forward of p
//   for p = m-1 .. 0:   backward of p;  g_p into the mean  gbar_p = sum B_i g_p,i / sum B_i
// The values are those of bsp. Of what waits for a link, part p of a round goes before part p + 1.
//
// The paper has a parameter server and slices of a layer; here means are formed by any overlay, and
// chunks are the slices. Parts and their order under losses are ours.
// A worker that comes back stands in for the parts of the round that runs, and
// begins the next one with the senior worker's model and optimiser.
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "longhaul/core/registry.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"
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

  // Means of so many parts may be under way; an overlay keeps twice as many for peers that are
  // ahead.
  static constexpr std::size_t kMostParts = 32;

  struct Config {
    std::string order = "shallow_first";
    double forward_share = 1.0 / 3;
    std::vector<double> shares;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(order,
                   "which part goes first of those that wait for a link; shallow_first: the one "
                   "nearest to the input; fifo: the one that was done first",
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

  void on_view(const View&, Turn& turn) override {
    const View& view = turn.view();
    std::erase_if(returned_, [&](const auto& one) { return !view.has(one.first); });
    std::erase_if(needs_state_, [&](Rank rank) { return !view.has(rank); });
    for (const auto& [rank, epoch] : view.returned)
      if (epoch == view.epoch && rank != turn.self() && turn.place().member(rank).is(Role::worker))
        returned_[rank] = epoch;
    if (phase_ == Phase::ended) return send_state(/*last=*/true, turn);
    if (knows_model() || phase_ == Phase::setting_optimizer) return;
    const Rank senior = senior_worker(turn.place(), view);
    if (senior == turn.self())
      return fail(state_lost("all sites that knew the model are lost; resume from a checkpoint"),
                  turn);
    // If the sender of the state is lost, the next senior sends its own after the round that runs.
    if (phase_ == Phase::standing_in || senior != state_sender_) phase_ = Phase::finding_round;
    state_sender_ = senior;
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
    if (knows_model()) state_transfer_.drop_received();  // sent twice
    while (advance(turn)) {
    }
  }

  bool lets_return() const override { return true; }
  Round rounds_done() const override { return done_; }
  std::string waiting_for() const override {
    if (phase_ == Phase::deciding) return stop_.waiting_for();
    if (phase_ == Phase::finding_round || phase_ == Phase::standing_in)
      return "the round that runs, to come back to it; " + overlay_->waiting_for();
    if (phase_ == Phase::awaiting_state) return "the model of round " + std::to_string(done_);
    if (phase_ != Phase::awaiting || round_ == first_) return "";
    return "part " + std::to_string(part_) + " of " + std::to_string(parts_.size()) + ": " +
           overlay_->waiting_for();
  }

  void state(Archive& ar) override {
    ar(phase_, round_, done_, part_, samples_, own_samples_, has_buffers_, loss_, compute_s_,
       wait_s_, asked_);
    ar(first_, returned_, needs_state_, formed_, optimizer_, state_sender_, stands_in_all_);
  }

  const std::vector<LayerPart>& parts() const { return parts_; }

 private:
  // Of a pass, of each part.
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

  // Of a job whose model is not known yet, too, to which they need not fit.
  static std::vector<double> known_shares(const Config& config,
                                          const std::vector<LayerPart>& parts) {
    if (auto shares = shares_of(config, parts)) return *std::move(shares);
    return std::vector<double>(parts.size(), 1 / double(parts.size()));
  }

  enum class Phase : std::uint8_t {
    unstarted,
    awaiting,  // the mean of part_ of the round before
    applying,  // it
    forward,
    deciding,  // the round before is complete: waits for a verdict
    backward,
    ended,
    failed,
    // of a worker that has come back
    finding_round,
    standing_in,        // takes part in a round without contributing
    awaiting_state,     // that the next round begins with
    setting_optimizer,  // to the sender's
  };
  // One move, if one can be made now.
  bool advance(Turn& turn) {
    switch (phase_) {
      case Phase::awaiting:
        if (round_ == first_) return go_forward(turn), false;
        return take_mean(turn);
      case Phase::deciding:
        return decide(turn);
      case Phase::finding_round:
        return stand_in(turn);
      case Phase::standing_in:
        return end_stand_in(turn);
      case Phase::awaiting_state:
        return begin_from_state(turn);
      default:
        return false;
    }
  }

  // The model of the round before is whole: whoever needs it is sent it before the next pass goes
  // on.
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
    if (!is_last) return go_forward(turn), false;
    phase_ = Phase::ended;
    turn.finish();
    return false;
  }

  // x_p <- opt_p(x_p, gbar_p) once gbar_p of the round before is here. Nobody has given to it if
  // all
  // who did are lost: then the part stays as it is, at all alike.
  bool take_mean(Turn& turn) {
    const bool is_last = part_ + 1 == parts_.size();
    if (is_last && !take_buffers(turn)) return false;
    const auto mean = overlay_->poll({round_ - 1, 0, range(part_)});
    if (!mean) return false;
    note_returned(*mean, turn);
    has_buffers_ = false;
    wait_s_ += seconds(turn.now() - asked_);
    if (part_ == 0) samples_ += std::uint64_t(mean->weight);
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

  // Of the round before; averaged exactly, and complete with it. False: they are not here yet.
  bool take_buffers(Turn& turn) {
    if (has_buffers_ || place_.layout->buffers().length == 0) return true;
    const auto mean = overlay_->poll({round_ - 1, 0, buffers_range()});
    if (!mean) return false;
    note_returned(*mean, turn);
    std::ranges::copy(mean->values, buffers(turn).begin());
    has_buffers_ = true;
    return true;
  }

  // With its last part the round is complete: its model may be the last.
  void applied(Turn& turn) {
    if (part_ + 1 < parts_.size()) return go_forward(turn);
    asked_ = turn.now();
    phase_ = Phase::deciding;
    ++done_;
    note_who_needs_state();
    stop_.round_done(done_ - 1, turn.params(), samples_, within(stop_, turn));
  }

  // A part of a pass, or of the optimiser's step, is done.
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

  // g_p leaves; loss and samples are the first backward part's.
  void send_part(const StepResult& step, Turn& turn) {
    if (part_ + 1 == parts_.size()) {
      own_samples_ = step.samples;
      loss_ = step.loss;
      if (!turn.place().phantom) turn.record("train_loss", round_, step.loss);
    }
    const Range& values = parts_[part_].values;
    std::span<const float> g;
    if (!turn.place().phantom) g = turn.grads().subspan(values.offset, values.length);
    const Status begun = overlay_->begin(
        {round_, 0, range(part_)}, {},
        {.values = g, .length = values.length, .weight = double(own_samples_), .loss = loss_},
        within(*overlay_, turn));
    if (!begun) fail(begun.error(), turn);
  }

  // false: it has failed
  bool send_buffers(Turn& turn) {
    const std::uint64_t length = place_.layout->buffers().length;
    if (length == 0) return true;
    const Status begun = overlay_->begin(
        {round_, 0, buffers_range()}, {},
        {.values = buffers(turn), .length = length, .weight = double(own_samples_), .exact = true},
        within(*overlay_, turn));
    if (!begun) fail(begun.error(), turn);
    return bool(begun);
  }

  // Of the overlay's vectors: the lower, the sooner it leaves.
  std::uint32_t range(std::size_t part) const {
    return std::uint32_t(config_.order == "fifo" ? parts_.size() - 1 - part : part);
  }

  std::uint32_t buffers_range() const { return std::uint32_t(parts_.size()); }
  double share(std::size_t part) const { return shares_.at(part); }
  void fail(const Error& error, Turn& turn) {
    phase_ = Phase::failed;
    turn.fail({error.kind, who("p3, round " + std::to_string(round_), turn.place()) + error.what});
  }

  // Of workers that have come back.
  bool knows_model() const { return phase_ < Phase::finding_round; }
  // of each range
  std::map<std::uint32_t, std::uint64_t> lengths() const {
    std::map<std::uint32_t, std::uint64_t> all;
    for (std::size_t p = 0; p < parts_.size(); ++p) all[range(p)] = parts_[p].values.length;
    if (place_.layout->buffers().length > 0) all[buffers_range()] = place_.layout->buffers().length;
    return all;
  }

  // A contribution from before it was lost says nothing.
  void note_returned(const Outcome& mean, Turn&) {
    formed_ = part_ == 0 ? mean.epoch : std::max(formed_, mean.epoch);
    std::erase_if(returned_, [&](const auto& one) {
      return mean.epoch >= one.second && std::ranges::binary_search(mean.counted, one.first);
    });
  }

  // A worker that has stood in for a part of the round waits for the state that the next begins
  // with.
  void note_who_needs_state() {
    std::erase_if(returned_, [&](const auto& one) { return state_transfer_.has_state(one.first); });
    for (const auto& [rank, since] : returned_)
      if (formed_ >= since) needs_state_.insert(rank);
  }

  void send_state(bool last, Turn& turn) {
    if (last)
      for (const auto& [rank, epoch] : returned_) needs_state_.insert(rank);
    const std::set<Rank> to = std::exchange(needs_state_, {});
    if (to.empty() || !is_senior(turn)) return;
    state_transfer_.send(
        to, done_, last, [&](Archive& ar) { archive_for_returned(ar, turn); },
        within(state_transfer_, turn));
  }

  void archive_for_returned(Archive& ar, Turn& turn) {
    ar.expect("p3");
    ar(done_, samples_, optimizer_);
    stop_.hand_over(ar);
    ar.floats(turn.params());
  }

  // In the older of the two rounds that run: of some parts its mean may have been formed before.
  bool stand_in(Turn& turn) {
    std::optional<Round> first;
    const auto all = lengths();
    for (const auto& [range, length] : all) {
      const auto next = overlay_->next_round(0, range);
      if (!next) return false;
      first = std::min(*next, first.value_or(*next));
    }
    done_ = first.value();
    phase_ = Phase::standing_in;
    stands_in_all_ = true;
    for (const auto& [range, length] : all) {
      const bool runs = overlay_->next_round(0, range) == done_;
      stands_in_all_ &= runs;
      if (!runs) continue;
      const Status begun = overlay_->begin(
          {done_, 0, range}, {},
          {.values = {}, .length = length, .contributes = false, .exact = range == buffers_range()},
          within(*overlay_, turn));
      if (!begun) fail(begun.error(), turn);
    }
    return phase_ == Phase::standing_in;
  }

  // A mean is of no use to a worker without the model that it changes.
  bool end_stand_in(Turn& turn) {
    // No mean comes any more if the others have ended.
    if (state_transfer_.received() && state_transfer_.received()->last)
      return begin_from_state(turn);
    for (const auto& [range, length] : lengths()) {
      (void)overlay_->poll({done_, 0, range});
      if (overlay_->next_round(0, range).value_or(0) <= done_) return false;
    }
    ++done_;
    // Until the overlay has had a mean of every part here, a new view makes it forget what it is
    // given of that part: then stand in once more.
    phase_ = stands_in_all_ ? Phase::awaiting_state : Phase::finding_round;
    return true;
  }

  bool begin_from_state(Turn& turn) {
    const StateTransfer::TransferredState* received = state_transfer_.received();
    if (!received || (received->round != done_ && !received->last)) return false;
    const bool is_last = received->last;
    const Status read =
        state_transfer_.read([&](Archive& ar) { archive_for_returned(ar, turn); },
                             [&](const auto& state) -> Status {
                               if (done_ == state.round) return Ok{};
                               return malformed("it is not of the beginning of a round");
                             });
    if (!read) return fail(read.error(), turn), false;
    state_transfer_.confirm(within(state_transfer_, turn));
    if (is_last) {
      phase_ = Phase::ended;
      turn.finish();
      return false;
    }
    first_ = round_ = done_;
    part_ = 0;
    asked_ = turn.now();
    optimizer_.on_returned();
    phase_ = Phase::setting_optimizer;
    if (optimizer_.set(turn)) return false;
    phase_ = Phase::awaiting;
    return true;
  }

  const Config config_;
  const Place place_;
  const std::vector<LayerPart> parts_;
  const std::vector<double> shares_;  // of a pass, of each part
  const std::unique_ptr<Overlay> overlay_;
  StopRule stop_;
  StateTransfer state_transfer_;

  Phase phase_ = Phase::unstarted;
  Round first_ = 0;  // with whose gradient this worker has begun
  Round round_ = 0;  // whose gradient is computed
  Round done_ = 0;   // rounds whose model is complete
  std::uint32_t part_ = 0;
  StepResult step_;                // within one turn
  std::uint64_t samples_ = 0;      // used by all in the rounds done
  std::uint64_t own_samples_ = 0;  // of this round
  bool has_buffers_ = false;       // of the round before: in params()
  double loss_ = 0;
  double compute_s_ = 0, wait_s_ = 0;  // of this round
  Time asked_{0};                      // since when a mean or a verdict is awaited
  // Live workers that have come back, with the epoch, until they are known to have the model; those
  // that wait for the state that the next round begins with.
  std::map<Rank, Epoch> returned_;
  std::set<Rank> needs_state_;
  Epoch formed_ = 0;  // the newest in which a mean of the round before was formed
  OptimizerTransfer optimizer_;
  // At one that has come back: who is to send the state; whether it stands in for all parts.
  Rank state_sender_ = 0;
  bool stands_in_all_ = true;
};

}  // namespace longhaul::sync
