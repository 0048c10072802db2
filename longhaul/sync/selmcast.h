#pragma once
// Selective multicast in lock step. After its local steps each worker sends its model to a few
// receivers, chosen by bandwidth so that all workers finish soon. It mixes its model with the
// received ones.
//   Luo et al., "Efficient parameter synchronization for peer-to-peer distributed learning with
//   selective multicast", IEEE Transactions on Services Computing, 2024, algorithm 1. Not in the
//   paper: the mixing, the handling of losses, and rates from [wan].
//
// M_i are the workers whose models worker i receives in a round. Sums are in the order of ranks, in
// double, rounded once:
//   x_i <- (x_i + sum_{j in M_i} x_j) / (1 + |M_i|)
// With payload = "update" and n workers, d_ji is the debt of j to i (selmcast/debts.h):
//   x_i <- x_i + sum_{j in M_i} d_ji
//
// With models, a returned worker receives the manager's model (selmcast/planning.h). With updates
// no worker can return, because no node knows which updates the received model would contain.
#include <functional>

#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/gossip/ends_in_mean.h"
#include "longhaul/sync/relay.h"
#include "longhaul/sync/selmcast/config.h"
#include "longhaul/sync/selmcast/debts.h"
#include "longhaul/sync/selmcast/planning.h"
#include "longhaul/sync/selmcast/ssp_worker.h"
#include "longhaul/sync/state_transfer.h"

namespace longhaul::sync {

enum class SelmcastPhase : std::uint8_t {
  not_started,
  ready,
  computing,
  planning,    // waits for the plan
  exchanging,  // sends its model, and waits for the models of the plan
  deciding,    // waits for a verdict
  averaging,   // takes part in the final mean of the run
  ended,
  outside  // a returned worker waits for a model
};

class Selmcast final : public gossip::EndsInMean<SelmcastPhase> {
 public:
  static SyncEntry entry() {
    return strategy_entry<Selmcast>(
        {.name = "selmcast",
         .summary = "each worker sends its model to a few receivers, chosen by bandwidth",
         .sends = "Each worker sends its model to a few others, chosen by bandwidth, and to more "
                  "where that costs no time. A pair that has waited for overdue_after rounds is "
                  "served in the next, however slow it is",
         .traits = {.takes_outer = false,
                    .no_feedback = "sends whole models, which carry no error of the one before",
                    .takes_unbiased = false,
                    .when_lost = "the others go on without it",
                    .lets_return = true,
                    .mean_at_end = true},
         .costs = {{.rounds = "every H steps (1)",
                    .sent = "m S to m receivers, share n at least",
                    .waits_for = "all, for the plan; then its senders",
                    .staleness = "0, with those",
                    .memory = "(m + 1) S",
                    .when_lost = "goes on"},
                   {.variant = "ssp",
                    .settings = {{"mode", {std::string("ssp")}}},
                    .rounds = "every H steps (1)",
                    .sent = "m S to m receivers, share n at least",
                    .waits_for = "its receivers; the slowest, once s ahead",
                    .staleness = "s rounds (4)",
                    .memory = "(n + 1) S",
                    .when_lost = "goes on"}},
         .adapt = adapt_selmcast},
        make_selmcast);
  }

  using Config = selmcast::Config;
  Selmcast(const Config& config, SyncParts parts, const Place& place)
      : EndsInMean(std::move(parts.overlay)),
        config_(config),
        size_(place.layout->size()),
        place_(place),
        plan_config_(selmcast::plan_config(config, parts, place)),
        planning_(plan_config_),
        stop_(apart_by(kApart, parts.stop)) {
    channel_ = std::make_unique<Channel>(
        place,
        ChannelConfig{.stream = "selmcast",
                      .limits = ChannelLimits::models(kModelsOfASender, *place.layout),
                      .service = selmcast::service_of(config)},
        std::move(parts.transfer), parts.make_codec(false), nullptr,
        std::bind_front(&Selmcast::admit, this));
    own(*channel_, {1, "channel"});
    own(stop_, {2, "stop rule"});
    own(planning_, {3, "planning"});
    own(state_transfer_, {4, "state transfer"});
    own(final_return_, {5, "final model"});
  }

  static Status check(const Config& config, const Place& place) {
    return selmcast::check(config, place);
  }

  void on_start(Turn& turn) override {
    phase_ = turn.place().comes_back() ? Phase::outside : Phase::ready;
  }

  void on_view(const View&, Turn& turn) override {
    if (phase_ == Phase::outside && selmcast::manager_of(turn) == turn.self())
      return fail(state_lost("all sites that knew the model are lost; resume from a checkpoint"),
                  turn);
    std::erase_if(sending_, [&](Rank rank) { return !turn.view().has(rank); });
    for (Rank rank = 0; rank < place_.size(); ++rank)
      if (!turn.view().has(rank)) debts_.forget(rank);
    std::erase_if(plan_.expected,
                  [&](Rank rank) { return !turn.view().has(rank) && !received_.contains(rank); });
  }

  void on_computed(const Computed& computed, Turn& turn) override {
    if (!turn.place().phantom) turn.record("train_loss", done_, computed.loss);
    samples_ += computed.samples;
    phase_ = Phase::planning;
    asked_ = turn.now();
    if (sends_updates()) {
      std::vector<Rank> others = live_workers(turn);
      std::erase(others, turn.self());
      debts_.add(turn.params(), others);
    }
    if (plan_config_.is_measured) planning_.measured(meter_.rates(place_.size()));
    planning_.ready(samples_, within(planning_, turn));
  }

  // The first round starts here, because the overlay starts after its parent.
  void on_progress(Turn& turn) override {
    if (phase_ == Phase::not_started) return;
    receive(turn);
    let_in(turn);
    while (advance(turn)) {
    }
    let_in(turn);
  }

  bool lets_return() const override { return !sends_updates(); }
  Round rounds_done() const override { return done_; }
  std::string waiting_for() const override {
    if (phase_ == Phase::planning) return planning_.waiting_for(place_);
    if (phase_ == Phase::deciding) return stop_.waiting_for();
    if (phase_ == Phase::averaging) return final_return_.waiting_for();
    if (phase_ == Phase::outside) return "a model of the manager, to come back to the run";
    if (phase_ != Phase::exchanging) return "";
    std::string text = "round " + std::to_string(done_);
    if (const auto ranks = missing(); !ranks.empty()) text += ": models of ranks" + listed(ranks);
    if (!sending_.empty()) text += ": room to send to ranks" + listed(sending_);
    return channel_->waiting_after(text);
  }

  void state(Archive& ar) override {
    ar.expect("selmcast");
    ar(phase_, done_, joined_at_, samples_, all_samples_, plan_, admitted_, sending_, asked_,
       planned_);
    ar(meter_, debts_);
    archive_snapshot(ar, late_);
    archive_snapshots(ar, received_);
  }

 private:
  // One of this round, and one of the next from a worker that has just ended its round.
  static constexpr std::uint32_t kModelsOfASender = 2;
  // A worker waits for the verdict on a round before it starts the next; others may still be in it.
  static constexpr Round kApart = 2;

  static bool is_ssp(const Settings& settings) { return settings.text("mode") == "ssp"; }

  static void adapt_selmcast(const Settings& settings, SyncTraits& traits) {
    // Measured rates depend on the times of the run.
    if (is_ssp(settings) || settings.text("rates") == "measured") traits.bits = Bits::schedule;
    if (settings.text("multicast") == "l3") traits.network_multicast = selmcast::kMulticastPriority;
    if (is_ssp(settings)) traits.lets_return = false;
    if (settings.text("payload") != "update") return;
    traits.lets_return = false;
    traits.takes_unbiased = true;
    traits.no_feedback = "keeps what a codec leaves out in what it owes the receiver";
  }

  static Result<std::unique_ptr<Strategy>> make_selmcast(const Settings& settings, SyncParts parts,
                                                         const Place& place) {
    selmcast::Config config;
    LH_TRY(read_settings(settings, config));
    LH_TRY(selmcast::check(config, place));
    const bool lets_return = config.mode == "bsp" && config.payload != "update";
    if (!place.me().is(Role::worker))
      return std::unique_ptr<Strategy>(std::make_unique<Relay>(std::move(parts), lets_return));
    if (config.mode == "ssp")
      return std::unique_ptr<Strategy>(
          std::make_unique<selmcast::SspWorker>(config, std::move(parts), place));
    return std::unique_ptr<Strategy>(std::make_unique<Selmcast>(config, std::move(parts), place));
  }

  using Channel = VectorChannel<selmcast::Header>;
  using Phase = SelmcastPhase;
  // Admits models of the current round. A plan is made when all workers are ready for its round, so
  // models of a later round cannot arrive.
  Result<bool> admit(Rank from, const selmcast::Header& header, const ContentShape& shape) {
    if (shape.kind != ContentKind::values || shape.range.offset != 0 ||
        shape.range.length != size_ || !place_.member(from).is(Role::worker))
      return malformed("a vector that is no model of a worker");
    // The plan is older than this node's return.
    if (phase_ == Phase::outside || header.round < joined_at_) return false;
    // An update also counts at a worker that was left out of its plan.
    if (header.round < done_) return sends_updates() && phase_ < Phase::averaging;
    if (header.round > done_ || (phase_ != Phase::planning && phase_ != Phase::exchanging))
      return malformed("a model of a round that has not been planned");
    if (!admitted_.insert(from).second) return malformed("a second model of one round");
    return true;
  }

  void receive(Turn& turn) {
    channel_->drop_lost();  // on_view() has handled lost peers
    while (const auto sent = channel_->sent()) {
      sending_.erase(sent->to);
      meter_.sent(sent->to, sent->bytes, sent->took);
    }
    while (auto one = channel_->poll(within(*channel_, turn))) {
      meter_.received(one->content.shape().bytes());
      const bool is_late = one->header.round < done_;
      if (is_late && sends_updates()) add_late(*one);
      if (!is_late && admitted_.contains(one->from)) received_[one->from] = one->content.values();
    }
  }

  // Adds an update of an earlier round. Its sender has counted the update as delivered.
  void add_late(const Channel::Received& one) {
    if (place_.phantom) return;
    auto sum = std::make_shared<std::vector<float>>(*one.content.values());
    if (late_)
      for (std::size_t i = 0; i < sum->size(); ++i) (*sum)[i] += (*late_)[i];
    late_ = std::move(sum);
  }

  // Makes one transition of the round if possible. Returns true if another can follow at once.
  bool advance(Turn& turn) {
    switch (phase_) {
      case Phase::ready: {
        planning_.begin(done_, within(planning_, turn));
        phase_ = Phase::computing;
        if (sends_updates()) debts_.begin(turn.params());
        turn.compute(LocalStep{}, config_.steps);
        return false;
      }
      case Phase::planning: {
        auto plan = planning_.take_plan();
        if (!plan) return false;
        plan_ = *std::move(plan);
        exchange(turn);
        return phase_ == Phase::exchanging;
      }
      case Phase::exchanging:
        if (!sending_.empty() || !missing().empty()) return false;
        mix(turn);
        end_round(turn);
        return true;
      case Phase::deciding: {
        const StopRule::Step step = stop_.after(done_ - 1);
        if (step == StopRule::Step::wait) return false;
        if (step == StopRule::Step::go_on) {
          phase_ = Phase::ready;
          return true;
        }
        if (sends_updates()) settle(turn);
        begin_mean(turn);
        return true;
      }
      case Phase::averaging:
        return end_with_mean(/*gives=*/done_ > joined_at_, turn);
      case Phase::outside:
        return enter(turn);
      default:
        return false;
    }
  }

  // Sends this worker's model to the receivers of the plan.
  void exchange(Turn& turn) {
    const auto x = turn.params();
    if (!all_finite(x))
      return fail(not_finite("its model has values that are not finite; lower [optimizer] rate"),
                  turn);
    phase_ = Phase::exchanging;
    all_samples_ = std::max(all_samples_, plan_.samples);
    const auto is_lost = [&](Rank rank) {
      return !turn.view().has(rank) || turn.view().since(rank) > plan_.epoch;
    };
    std::erase_if(plan_.receivers, is_lost);
    std::erase_if(plan_.expected,
                  [&](Rank rank) { return is_lost(rank) && !received_.contains(rank); });
    planned_ = turn.now();
    turn.record("receivers", done_, double(plan_.receivers.size()));
    turn.record("scale", done_, double(plan_.receivers.size()) / double(live_workers(turn).size()));
    if (plan_.receivers.empty()) return;
    sending_.insert(plan_.receivers.begin(), plan_.receivers.end());
    planning_.served(plan_.receivers);
    sends_updates() ? send_debts(turn) : send_model(turn);
  }

  void send_model(Turn& turn) {
    channel_->send(
        plan_.receivers, {done_}, VectorContent::values(copied(turn.params()), {0, size_}),
        {.coding = Coding::up, .group = 0, .report_sent = true}, within(*channel_, turn));
  }

  // Sends each receiver its debt. The error of the codec stays in the debt.
  void send_debts(Turn& turn) {
    const SendOptions options{.coding = Coding::up, .report_sent = true};
    for (const Rank rank : plan_.receivers) {
      std::vector<float> debt = debts_.owes(rank) ? debts_.owed(rank) : std::vector<float>();
      if (!turn.place().phantom) {
        debt.resize(size_);
        const auto read = channel_->as_received(debt, {0, size_}, rank, options);
        if (debts_.owes(rank)) debts_.pay(rank, read);
      }
      channel_->send({rank}, {done_},
                     VectorContent::values(snapshot_of(std::move(debt)), {0, size_}), options,
                     within(*channel_, turn));
    }
  }

  bool sends_updates() const { return config_.payload == "update"; }
  // Returns the senders of the plan whose models have not arrived.
  std::vector<Rank> missing() const {
    return those_of(plan_.expected, [&](Rank rank) {
      return !received_.contains(rank) && !planning_.is_left_out(rank);
    });
  }

  // Sets x_i to (x_i + sum of received models) / (1 + their number), buffers too.
  void mix(Turn& turn) {
    std::vector<Snapshot> models;
    for (const Rank rank : plan_.expected)
      if (const auto it = received_.find(rank); it != received_.end()) models.push_back(it->second);
    if (sends_updates()) {  // also from senders that left this node out of their plan
      models.clear();
      for (const auto& [rank, update] : received_) models.push_back(update);
      if (late_) models.push_back(late_);
      late_.reset();
    }
    const double weight = sends_updates() ? 1 : double(1 + models.size());
    const auto x = turn.params();
    for (std::size_t i = 0; i < x.size(); ++i) {
      double sum = double(x[i]);
      for (const Snapshot& model : models) sum += double((*model)[i]);
      x[i] = float(sum / weight);
    }
    turn.record("wait_s", done_, seconds(turn.now() - asked_));
    meter_.end_round(turn.now() - planned_);
  }

  // Adds the debts and the late updates to the model for the final mean of the run.
  void settle(Turn& turn) {
    const auto x = turn.params();
    debts_.settle(x);
    for (std::size_t i = 0; late_ && i < x.size(); ++i) x[i] += (*late_)[i];
    late_.reset();
  }

  void end_round(Turn& turn) {
    phase_ = Phase::deciding;
    admitted_.clear();
    received_.clear();
    ++done_;
    stop_.round_done(done_ - 1, turn.params(), all_samples_, within(stop_, turn));
  }

  // Sends returned workers the manager's model and the next round. After training, a returned
  // worker only takes part in the final mean of the run.
  void let_in(Turn& turn) {
    if (phase_ == Phase::ended) {
      final_return_.serve(within(final_return_, turn));
    }
    const bool is_over = phase_ == Phase::averaging || phase_ == Phase::ended;
    const std::set<Rank> ranks = is_over ? planning_.take_outside() : planning_.take_entering();
    state_transfer_.send(
        ranks, is_over ? done_ : done_ + 1, is_over,
        [&](Archive& ar) { archive_for_returned(ar, turn); }, within(state_transfer_, turn));
  }

  void archive_for_returned(Archive& ar, Turn& turn) {
    ar.expect("selmcast");
    ar(all_samples_);
    stop_.hand_over(ar);
    ar.floats(turn.params());
  }

  bool enter(Turn& turn) {
    const StateTransfer::TransferredState* received = state_transfer_.received();
    if (!received) return false;
    done_ = joined_at_ = received->round;
    const bool is_over = received->last;
    const Status read = state_transfer_.read([&](Archive& ar) { archive_for_returned(ar, turn); });
    if (!read) return fail(read.error(), turn), false;
    planning_.begin(done_, within(planning_, turn));
    phase_ = is_over ? Phase::averaging : Phase::deciding;
    return true;
  }

  std::string place_in_run() const override { return "selmcast, round " + std::to_string(done_); }

  const Config config_;
  const std::uint64_t size_;  // size of the layout
  const Place place_;
  std::unique_ptr<Channel> channel_;
  const selmcast::PlanConfig plan_config_;
  selmcast::Planning planning_;
  StopRule stop_;
  StateTransfer state_transfer_;

  Round done_ = 0;                 // completed rounds; also the current round
  Round joined_at_ = 0;            // first round of this worker
  std::uint64_t samples_ = 0;      // samples that this worker has used
  std::uint64_t all_samples_ = 0;  // samples of all workers, by the last plan
  selmcast::Planning::Plan plan_;  // plan of the current round
  std::set<Rank> admitted_;        // senders whose model of this round has arrived or is in transit
  std::map<Rank, Snapshot> received_;  // models of this round
  std::set<Rank> sending_;             // receivers whose model the host has not taken completely
  Time asked_{0}, planned_{0};         // start of the wait for the plan; its arrival
  selmcast::RateMeter meter_;
  selmcast::Debts debts_;  // payload = "update"
  Snapshot late_;          // the same: sum of late updates
};

}  // namespace longhaul::sync
