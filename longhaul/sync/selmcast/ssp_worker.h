#pragma once
// Selective multicast with bounded staleness. After its steps, each worker sends its model to
// receivers that are chosen then, and continues when they have confirmed it. At its next step
// boundary it mixes the models that have arrived. It begins no round that is more than `staleness`
// ahead of the slowest worker's.
//   Luo et al., "Efficient parameter synchronization for peer-to-peer distributed learning with
//   selective multicast", IEEE Transactions on Services Computing, 2024, algorithm 2. Not from the
//   paper: the mixing, the behaviour on a loss, and that rates are those of [wan].
//
// M is the set of workers whose models have arrived since the last boundary, the newest of each.
// The sum is in the order of ranks, in double, rounded once:
//   x <- (x + sum_{j in M} x_j) / (1 + |M|)
// With N workers, a round of the run is N rounds of workers (gossip/step_count.h).
#include <functional>

#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/gossip/ends_in_mean.h"
#include "longhaul/sync/gossip/step_count.h"
#include "longhaul/sync/relay.h"
#include "longhaul/sync/selmcast/config.h"
#include "longhaul/sync/selmcast/ssp_planning.h"

namespace longhaul::sync::selmcast {

enum class SspWorkerPhase : std::uint8_t {
  not_started,
  ready,  // waits until it may begin a round
  computing,
  planning,   // waits for its receivers
  sending,    // waits until they have its model
  waiting,    // has done its rounds, waits for the end of the run
  averaging,  // takes part in the mean that the run ends with
  ended
};

class SspWorker final : public gossip::EndsInMean<SspWorkerPhase> {
 public:
  SspWorker(const Config& config, SyncParts parts, const Place& place)
      : EndsInMean(std::move(parts.overlay), /*returns=*/false),
        config_(config),
        size_(place.layout->size()),
        place_(place),
        plan_(plan_config(config, parts, place)),
        planning_({.staleness = config.staleness, .keep_below = config.keep_below, .plan = plan_}),
        count_(parts.stop, place) {
    channel_ = std::make_unique<Channel>(
        place,
        ChannelConfig{.stream = "selmcast",
                      .limits = ChannelLimits::models(kUnreadModelsOfASender, *place.layout),
                      .service = service_of(config)},
        std::move(parts.transfer), parts.make_codec(false), nullptr,
        std::bind_front(&SspWorker::admit, this));
    own(*channel_, {1, "channel"});
    own(count_, {2, "step count"});
    own(planning_, {3, "planning"});
  }

  void on_start(Turn&) override { phase_ = Phase::ready; }

  void on_view(const View&, Turn& turn) override {
    const auto is_lost = [&](Rank rank) { return !turn.view().has(rank); };
    std::erase_if(receivers_, is_lost);
    std::erase_if(unserved_, is_lost);
  }

  // Mixes the models that arrived during a step before the next one starts.
  void on_step(const StepResult&, Turn& turn) override {
    if (phase_ == Phase::computing) mix(turn);
  }

  void on_computed(const Computed& computed, Turn& turn) override {
    if (!turn.place().phantom) turn.record("train_loss", done_, computed.loss);
    samples_ = computed.samples;
    phase_ = Phase::planning;
    asked_ = turn.now();
    planning_.ready(within(planning_, turn));
  }

  void on_timer(TimerId, Turn& turn) override {
    if (phase_ != Phase::sending) return;
    say_progress(turn);
    turn.set_timer(*this, kProgressTimer, turn.now() + from_seconds(config_.progress_s));
  }

  // The overlay starts after its parent: the first round begins here.
  void on_progress(Turn& turn) override {
    if (phase_ == Phase::not_started) return;
    receive(turn);
    if (phase_ == Phase::sending) withdraw(turn);
    while (advance(turn)) {
    }
    if (count_.due() && phase_ < Phase::averaging && !turn.learner_is_busy()) {
      count_.report(turn.place().phantom ? nullptr : copied(turn.params()), within(count_, turn));
    }
  }

  Round rounds_done() const override { return count_.rounds(); }
  std::string waiting_for() const override {
    if (phase_ == Phase::ready || phase_ == Phase::planning) return planning_.waiting_for(place_);
    if (phase_ == Phase::waiting) return "the end of the run, which the senior worker tells";
    if (phase_ == Phase::averaging) return final_.waiting_for();
    if (phase_ != Phase::sending) return "";
    std::string text = "round " + std::to_string(done_) +
                       ": ranks that do not have its model:" + listed(unserved_);
    return channel_->waiting_after(text);
  }

  void state(Archive& ar) override {
    ar.expect("selmcast ssp");
    ar(phase_, done_, has_begun_, samples_, newest_, handle_, receivers_, unserved_, asked_,
       sent_at_, round_at_, meter_);
    archive_snapshots(ar, received_);
  }

 private:
  // Unread models of one sender: models are read on arrival.
  static constexpr std::uint32_t kUnreadModelsOfASender = 2;
  static constexpr TimerId kProgressTimer{1};

  using Channel = VectorChannel<Header>;
  using Phase = SspWorkerPhase;
  // No worker begins a round more than `staleness` ahead of this one.
  Result<bool> admit(Rank from, const Header& header, const ContentShape& shape) {
    if (shape.kind != ContentKind::values || shape.range.offset != 0 ||
        shape.range.length != size_ || !place_.member(from).is(Role::worker))
      return malformed("a vector that is no model of a worker");
    if (header.round > done_ + config_.staleness)
      return malformed("a model of a round that cannot have begun");
    if (header.round < newest_[from]) return malformed("a model that is older than the one before");
    newest_[from] = header.round + 1;
    return phase_ < Phase::averaging;
  }

  void receive(Turn& turn) {
    channel_->drop_lost();  // models of a lost peer, and withdrawn ones
    while (const auto sent = channel_->sent()) meter_.sent(sent->to, sent->bytes, sent->took);
    while (auto one = channel_->poll(within(*channel_, turn))) {
      meter_.received(one->content.shape().bytes());
      if (phase_ >= Phase::averaging) continue;
      received_[one->from] = one->content.values();
      Turn planning = within(planning_, turn);
      planning_.received(one->from, one->header.round, planning);
    }
    bool has_news = false;
    for (const Rank rank : planning_.take_got()) has_news |= unserved_.erase(rank) > 0;
    if (has_news && phase_ == Phase::sending) say_progress(turn);
  }

  // Makes one move of the round, if one is possible now.
  bool advance(Turn& turn) {
    switch (phase_) {
      case Phase::ready: {
        if (count_.is_over() || count_.has_taken_all()) {
          phase_ = Phase::waiting;
          return true;
        }
        if (!std::exchange(has_begun_, true)) planning_.begin(done_, within(planning_, turn));
        if (!planning_.may_compute()) return false;
        mix(turn);
        phase_ = Phase::computing;
        turn.compute(LocalStep{}, config_.steps);
        return false;
      }
      case Phase::planning: {
        if (count_.is_over()) {
          close(turn);
          return true;
        }
        auto receivers = planning_.take_receivers();
        if (!receivers) return false;
        send(*std::move(receivers), turn);
        return phase_ == Phase::sending;
      }
      case Phase::sending:
        if (count_.is_over()) {
          close(turn);
          return true;
        }
        if (!unserved_.empty()) return false;
        end_round(turn);
        return true;
      case Phase::waiting:
        if (!count_.is_over()) return false;
        close(turn);
        return true;
      case Phase::averaging:
        return end_with_mean(/*gives=*/true, turn);
      case Phase::computing:
        if (count_.is_over()) turn.stop_computing();
        return false;
      default:
        return false;
    }
  }

  // x <- (x + sum of the received models) / (1 + their number), buffers too
  void mix(Turn& turn) {
    if (received_.empty()) return;
    turn.record("mixed", done_, double(received_.size()));
    const auto x = turn.params();
    for (std::size_t i = 0; i < x.size(); ++i) {
      double sum = double(x[i]);
      for (const auto& [rank, model] : received_) sum += double((*model)[i]);
      x[i] = float(sum / double(1 + received_.size()));
    }
    received_.clear();
  }

  void send(std::vector<Rank> receivers, Turn& turn) {
    const auto x = turn.params();
    if (!all_finite(x))
      return fail(not_finite("its model has values that are not finite; lower [optimizer] rate"),
                  turn);
    turn.record("wait_s", done_, seconds(turn.now() - asked_));
    phase_ = Phase::sending;
    sent_at_ = turn.now();
    std::erase_if(receivers, [&](Rank rank) { return !turn.view().has(rank); });
    receivers_ = unserved_ = {receivers.begin(), receivers.end()};
    if (receivers.empty()) return;
    handle_ = channel_->send(receivers, {done_}, VectorContent::values(copied(x), {0, size_}),
                             {.coding = Coding::up, .group = 0, .report_sent = true},
                             within(*channel_, turn));
    say_progress(turn);
    withdraw(turn);
    turn.set_timer(*this, kProgressTimer, turn.now() + from_seconds(config_.progress_s));
  }

  // Withdraws receivers. A receiver to which the whole model was sent already stays.
  void withdraw(Turn& turn) {
    for (const Rank rank : planning_.take_withdrawn()) {
      if (!unserved_.contains(rank) || !channel_->cancel(handle_, rank, within(*channel_, turn)))
        continue;
      unserved_.erase(rank);
      receivers_.erase(rank);
    }
  }

  void say_progress(Turn& turn) {
    std::vector<SspPlanning::Left> left;
    for (const Rank rank : receivers_) {
      const std::uint64_t values = channel_->unsent(handle_, rank);
      left.push_back({rank, unserved_.contains(rank) ? std::max<std::uint64_t>(values, 1) : 0});
    }
    planning_.sending(std::move(left), within(planning_, turn));
  }

  void end_round(Turn& turn) {
    turn.cancel_timer(*this, kProgressTimer);
    turn.record("receivers", done_, double(receivers_.size()));
    turn.record("scale", done_, double(receivers_.size()) / double(live_workers(turn).size()));
    meter_.end_round(turn.now() - std::exchange(round_at_, turn.now()));
    if (plan_.is_measured) planning_.measured(meter_.rates(place_.size()));
    turn.record("send_s", done_, seconds(turn.now() - sent_at_));
    phase_ = Phase::ready;
    has_begun_ = false;
    receivers_.clear();
    ++done_;
    count_.took(samples_, within(count_, turn));
  }

  // Ends the worker's rounds. Models in transit are of no use after the end of the run.
  void close(Turn& turn) {
    turn.cancel_timer(*this, kProgressTimer);
    channel_->cancel(handle_, within(*channel_, turn));
    mix(turn);
    begin_mean(turn);
  }

  std::string place_in_run() const override { return "selmcast, round " + std::to_string(done_); }

  const Config config_;
  const std::uint64_t size_;  // length of the layout
  const Place place_;
  std::unique_ptr<Channel> channel_;
  const PlanConfig plan_;
  SspPlanning planning_;
  gossip::StepCount count_;

  Round done_ = 0;                // rounds of this worker; also the number of the current round
  bool has_begun_ = false;        // whether planning_ knows this round
  std::uint64_t samples_ = 0;     // samples of this round
  std::map<Rank, Round> newest_;  // by sender: one after the newest round that was admitted
  std::map<Rank, Snapshot> received_;         // models since the last boundary
  VectorHandle handle_ = 0;                   // handle of the model in transit
  std::set<Rank> receivers_;                  // receivers of that model, without withdrawn ones
  std::set<Rank> unserved_;                   // receivers that do not have the model yet
  Time asked_{0}, sent_at_{0}, round_at_{0};  // round_at_: end of the round before
  RateMeter meter_;
};

}  // namespace longhaul::sync::selmcast
