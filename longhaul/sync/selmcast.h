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
// A loss can come while only some workers have the plan of a round. In the new view, workers that
// are a round behind end it without an exchange. The others plan it again (PeerStrategy).
//
// With models, workers return. With updates none can, because no node knows which updates the
// received model would contain.
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/peer_strategy.h"
#include "longhaul/sync/relay.h"
#include "longhaul/sync/selmcast/config.h"
#include "longhaul/sync/selmcast/debts.h"
#include "longhaul/sync/selmcast/planning.h"
#include "longhaul/sync/selmcast/ssp_worker.h"

namespace longhaul::sync {

class Selmcast final : public PeerStrategy {
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
                    .when_lost = "m S again, once"},
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
      : PeerStrategy({.name = "selmcast",
                      .steps = config.steps,
                      .apart = kApart,
                      .enters_late = true,
                      .lets_return = config.payload != "update"},
                     std::move(parts.overlay), parts.stop, place),
        config_(config),
        place_(place),
        plan_config_(selmcast::plan_config(config, parts, place)),
        planning_(plan_config_),
        models_(
            "selmcast", kModelsOfASender, parts, place,
            [this, all = Range{0, place.layout->size()}](const auto& header, const auto& shape) {
              return header.round == done_ && shape.kind == ContentKind::values &&
                     shape.range == all;
            },
            selmcast::service_of(config), /*feedback=*/false) {
    own(models_.channel(), {1, "channel"});
    own(planning_, {5, "planning"});
  }

  static Status check(const Config& config, const Place& place) {
    return selmcast::check(config, place);
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    if (message.kind != selmcast::RoundsMixed::kKind)
      return PeerStrategy::on_message(from, message, turn);
    return dispatch(MessageList<selmcast::RoundsMixed>{}, message, [&](const auto& m) -> Status {
      if (m.epoch != epoch()) return Ok{};
      if (!std::ranges::binary_search(peers(), from) || !sends_updates())
        return malformed("mixed rounds of no peer");
      mixed_by_[from] = m.rounds;
      if (m.is_over) over_.insert(from);
      on_progress(turn);  // follows no message to this machine itself
      return Ok{};
    });
  }

  void state(Archive& ar) override {
    PeerStrategy::state(ar);
    ar(asks_, plan_, planned_, sending_, models_, latest_, mixed_, paid_in_, mixed_by_, over_);
    ar(has_said_over_);
    ar(meter_, debts_);
  }

 private:
  // One of this round, and one of an earlier round, which is dropped.
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

  bool sends_updates() const { return config_.payload == "update"; }

  std::vector<Rank> peers_among(const std::vector<Rank>& workers, const Turn& turn) override {
    std::vector<Rank> others = workers;
    std::erase(others, turn.self());
    for (Rank rank = 0; rank < place_.size(); ++rank)
      if (!turn.view().has(rank)) debts_.forget(rank);
    models_.begin_view(others);
    planning_.begin_view();
    mixed_by_.clear();
    over_.clear();
    sending_.clear();
    plan_.reset();
    asks_ = false;
    return others;
  }

  void on_entering(const std::vector<Rank>& to, Turn& turn) override {
    if (!sends_updates()) return;
    tell_mixed(to, turn);
  }
  void tell_mixed(const std::vector<Rank>& to, Turn& turn) {
    for (const Rank peer : to)
      turn.send(peer, selmcast::RoundsMixed{epoch(), mixed_, phase_ >= Phase::finishing}, {},
                kControl);
  }

  // Updates that their receivers have not mixed are owed again.
  void on_view_begun(Turn&) override {
    latest_ = latest_entered();
    for (const auto& [rank, rounds] : mixed_by_)
      if (rounds <= paid_in_) debts_.take_back(rank);
  }

  std::optional<Work> begin_round(Turn& turn) override {
    if (sends_updates()) debts_.begin(turn.params());
    return LocalStep{};
  }

  void on_steps_done(const Computed&, Turn& turn) override {
    if (sends_updates()) debts_.add(turn.params(), peers());
  }

  // Called in each turn: the host takes models also between the moves of a round.
  void receive(Turn&) override {
    while (const auto sent = models_.channel().sent()) {
      sending_.erase(sent->to);
      meter_.sent(sent->to, sent->bytes, sent->took);
    }
  }

  bool end_round(Turn& turn) override {
    if (done_ < latest_) return models_.drop_models(), true;
    Turn planning = within(planning_, turn);
    if (!std::exchange(asks_, true))
      planning_.ready(
          done_, samples_,
          plan_config_.is_measured ? meter_.rates(place_.size()) : selmcast::MeasuredRates{},
          planning);
    planning_.make_plans(done_, workers(), planning);
    if (!plan_) {
      plan_ = planning_.take_plan(done_);
      if (!plan_ || !exchange(turn)) return false;
    }
    if (!models_.receive(plan_->expected, within(models_.channel(), turn)) || !sending_.empty())
      return false;
    mix(turn);
    return true;
  }

  // Returns the workers that take part in this round, ascending.
  std::vector<Rank> workers() const {
    std::vector<Rank> ranks = present(peers());
    ranks.insert(std::ranges::upper_bound(ranks, place_.self), place_.self);
    return ranks;
  }

  // Sends this worker's model to the receivers of the plan. Returns false if the run has failed.
  bool exchange(Turn& turn) {
    if (!is_finite(turn)) return false;
    planned_ = turn.now();
    const std::vector<Rank>& to = plan_->receivers;
    sending_ = {to.begin(), to.end()};
    turn.record("receivers", done_, double(to.size()));
    turn.record("scale", done_, double(to.size()) / double(live_workers(turn).size()));
    if (sends_updates()) {
      send_debts(to, turn);
    } else {
      models_.send(to, {done_}, copied(turn.params()),
                   {.coding = Coding::up, .group = 0, .report_sent = true},
                   within(models_.channel(), turn));
    }
    return true;
  }

  // Sends each receiver its debt. The error of the codec stays in the debt.
  void send_debts(const std::vector<Rank>& to, Turn& turn) {
    const SendOptions options{.coding = Coding::up, .report_sent = true};
    debts_.settle_payments();
    paid_in_ = done_;
    for (const Rank rank : to) {
      std::vector<float> debt = debts_.owes(rank) ? debts_.owed(rank) : std::vector<float>();
      if (!turn.place().phantom) {
        debt.resize(place_.layout->size());
        const auto read = models_.as_received(debt, rank, options);
        if (debts_.owes(rank)) debts_.pay(rank, read);
      }
      models_.send({rank}, {done_}, snapshot_of(std::move(debt)), options,
                   within(models_.channel(), turn));
    }
  }

  // Sets x_i to (x_i + sum of received models) / (1 + their number), buffers too.
  void mix(Turn& turn) {
    std::vector<Snapshot> models;
    for (const Rank rank : plan_->expected) {
      const auto model = models_.take(rank);
      meter_.received(model.content.shape().bytes());
      models.push_back(model.values());
    }
    models_.drop_models();  // the plan names no others
    const double weight = sends_updates() ? 1 : double(1 + models.size());
    const auto x = turn.params();
    for (std::size_t i = 0; i < x.size(); ++i) {
      double sum = double(x[i]);
      for (const Snapshot& model : models) sum += double((*model)[i]);
      x[i] = float(sum / weight);
    }
    samples_ = plan_->samples;
    meter_.end_round(turn.now() - planned_);
    planning_.served(plan_->receivers, done_);
    plan_.reset();
    asks_ = false;
    mixed_ = done_ + 1;
  }

  // Adds the debts to the model for the final mean of the run. Before, all peers say that they mix
  // no more: what one of them has not got because of a loss is owed again (on_view_begun()).
  bool finish_rounds(Turn& turn) override {
    if (!sends_updates()) return true;
    if (!std::exchange(has_said_over_, true)) tell_mixed(peers(), turn);
    if (over_.size() < peers().size() || present(peers()) != peers()) return false;
    debts_.settle(turn.params());
    return true;
  }

  std::string missing() const override {
    if (phase_ == Phase::finishing) {
      std::vector<Rank> late = peers();
      std::erase_if(late, [&](Rank rank) { return over_.contains(rank); });
      return "the end of the rounds of ranks" + listed(late);
    }
    return plan_ ? models_.waiting_for(plan_->expected) : planning_.waiting_for(place_);
  }

  const Config config_;
  const Place place_;
  const selmcast::PlanConfig plan_config_;
  selmcast::Planning planning_;
  PeerModels<selmcast::Header> models_;

  bool asks_ = false;                             // the manager has its standing of this round
  std::optional<selmcast::Planning::Plan> plan_;  // plan of this round
  Time planned_{0};                               // its arrival
  std::set<Rank> sending_;  // receivers whose model the host has not taken completely
  Round latest_ = 0;        // in which a worker has entered the view
  selmcast::RateMeter meter_;
  // payload = "update": rounds before this one are mixed; round of the last payments; rounds that
  // the peers have mixed.
  Round mixed_ = 0, paid_in_ = 0;
  std::map<Rank, Round> mixed_by_;
  std::set<Rank> over_;         // peers that mix no more
  bool has_said_over_ = false;  // to them
  selmcast::Debts debts_;
};

}  // namespace longhaul::sync
