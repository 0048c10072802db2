#pragma once
// The staleness lab: all workers step together and every update is delivered. An update is applied
// late, by a number of iterations from a delay law. So the cost of delays is measured apart from
// the cost of a network.
//   Dai et al., "Toward understanding the impact of staleness in distributed machine learning",
//   ICLR 2019 (arXiv 1810.03264): the experiment. Not in the paper: mean scaling, running over a
//   network, replay of recorded delays, the mitigations, losses.
//
// In iteration t, worker i of P, with u_j^t for the update that worker j computes in it:
//   x_i <- x_i + scale sum of the held updates that are due by t    in double, rounded once
//   u_i^t = update of the gradient at x_i, from i's own optimiser;  sent to all other workers
//   u_j^t of all workers have arrived: u_j^t is due in t + 1 + r(j, i, t);  t <- t + 1
// At the end all held updates are applied, and the workers average their models.
//
// After a loss the others continue, and the updates that they hold stay. P is the number of updates
// of the iteration, and the delays of the others are as before. Workers that have not ended the
// iteration of the loss end it with the updates of each other only. A returned worker receives the
// senior worker's model with all held updates applied (they can be more than a state may be), and
// its optimiser.
#include <cmath>
#include <functional>

#include "longhaul/core/sample_count.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/peer_strategy.h"
#include "longhaul/sync/staleness/coherence.h"
#include "longhaul/sync/staleness/config.h"
#include "longhaul/sync/staleness/held_updates.h"

namespace longhaul::sync {

struct StalenessHeader {
  LONGHAUL_MESSAGE(0, "header");  // part of another message
  bool is_finite = true;          // false: no vector, as the sender's loss or update is not finite
  double loss = 0;                // loss of the batch
  double samples = 0;             // sender's estimate of the samples per worker in the run
  LONGHAUL_FIELDS(is_finite, (loss, .min = -1e300, .max = 1e300),
                  (samples, .min = 0, .max = kMostSamples))
};

class StalenessLab final : public PeerStrategy {
 public:
  static SyncEntry entry() {
    return strategy_entry<StalenessLab>(
        {.name = "staleness_lab",
         .summary = "lock step with updates applied late on purpose: what staleness alone costs",
         .traits = {.takes_outer = false,
                    .when_lost = "the others continue without it, an experiment of fewer workers",
                    .lets_return = true,
                    .asks = "fixed gradient",
                    .mean_at_end = true},
         // Some updates are due within few rounds, and some are not.
         .small = {{"max_delay", {std::int64_t{2}}}},
         .costs = {{.rounds = "every step",
                    .sent = "S to each of n - 1",
                    .waits_for = "all, every step",
                    .staleness = "0 .. s steps (8), on purpose",
                    .memory = "n (s + 1) S at most",
                    .when_lost = "n (n-1) small messages"}},
         .adapt = adapt_lab},
        make_lab);
  }

  using Config = staleness::LabConfig;
  StalenessLab(const Config& config, SyncParts parts, const Place& place)
      : PeerStrategy({.name = "staleness_lab"}, std::move(parts.overlay), parts.stop, place),
        config_(config),
        place_(place),
        all_(place.layout->parameters()),
        rate_(parts.rate),
        rate_share_(std::move(parts.rate_share)),
        law_(staleness::delay_law(config, place)),
        updates_("updates", kUpdatesOfASender, parts, place,
                 [all = all_](const StalenessHeader& header, const ContentShape& shape) {
                   return header.is_finite ? shape.kind == ContentKind::values && shape.range == all
                                           : shape.kind == ContentKind::none;
                 }),
        rule_(staleness::update_rule(config)),
        held_(config.compensation),
        coherence_(std::max(law_.most(), 1u)) {
    own(updates_.channel(), {1, "updates"});
  }

  static Status check(const Config& config, const Place&) { return staleness::check(config); }

  void on_computed(const Computed& computed, Turn& turn) override {
    if (!std::exchange(is_probing_, false)) return PeerStrategy::on_computed(computed, turn);
    if (phase_ != Phase::computing) return;  // the run has failed
    note_coherence(turn);
    turn.compute(Gradient{});
  }

  std::string diverged() const override { return diverged_; }

  void state(Archive& ar) override {
    PeerStrategy::state(ar);
    ar(rule_, held_, coherence_, updates_, is_probing_, own_, last_due_, first_loss_, diverged_);
    archive_snapshot(ar, due_);
  }

 private:
  // One of this iteration, and one of the next from a worker that has just ended this one.
  static constexpr std::uint32_t kUpdatesOfASender = 2;
  // A run has diverged if its mean loss exceeds this multiple of the loss in the first iteration.
  static constexpr double kMostLoss = 100;

  using Updates = PeerModels<StalenessHeader>;

  static Result<std::unique_ptr<Strategy>> make_lab(const Settings& settings, SyncParts parts,
                                                    const Place& place) {
    if (!(parts.rate > 0))
      return invalid(
          "[sync] kind = \"staleness_lab\" needs to know [optimizer] rate, which this job does not "
          "tell");
    return make_strategy<StalenessLab>(settings, std::move(parts), place);
  }

  static void adapt_lab(const Settings& settings, SyncTraits& traits) {
    staleness::LabConfig config;
    if (!read_settings(settings, config) || config.compensation == 0) return;
    traits.no_feedback = "squares what it gets, which must not hold what was lost before";
    traits.takes_unbiased = false;
  }

  std::vector<Rank> peers_among(const std::vector<Rank>& workers, const Turn& turn) override {
    const std::vector<Rank> others =
        those_of(workers, [&](Rank rank) { return rank != turn.self(); });
    updates_.begin_view(others);
    return others;
  }

  std::optional<Work> begin_round(Turn& turn) override {
    if (!diverged_.empty()) return end_diverged(turn), std::nullopt;
    held_.begin(done_, parameters(turn));
    is_probing_ = config_.coherence_every > 0 && !turn.place().phantom &&
                  turn.self() == place_.members.with(Role::worker).front();
    return is_probing_ ? Work(FixedGradient{config_.coherence_samples}) : Gradient{};
  }

  void note_coherence(Turn& turn) {
    coherence_.add(turn.grads().first(parameter_count(turn.place())));
    if (done_ % config_.coherence_every != 0) return;
    const auto measured = coherence_.measure();
    if (!measured) return;
    turn.record("coherence", done_, measured->mu);
    for (std::size_t lag = 1; lag <= measured->cosines.size(); ++lag)
      turn.record("cosine_" + std::to_string(lag), done_, measured->cosines[lag - 1]);
  }

  void on_steps_done(const Computed& computed, Turn& turn) override {
    std::vector<float> u = rule_.update(turn.grads().first(parameter_count(turn.place())), rate());
    const bool is_finite = all_finite(u) && std::abs(computed.loss) <= 1e300;
    own_.header = {is_finite, is_finite ? computed.loss : 0, samples_};
    due_ = snapshot_of(std::move(u));
    send(turn);
  }
  void on_view_begun(Turn& turn) override {
    if (due_) send(turn);
  }

  // Sends the update of this iteration. This worker keeps what the others read, so that all hold
  // the same update.
  void send(Turn& turn) {
    const std::vector<Rank> to = present(peers());
    const SendOptions options{.group = 0};
    VectorContent sent;
    if (own_.header.is_finite) sent = VectorContent::values(due_, all_);
    own_.content = sent;
    if (own_.header.is_finite && !to.empty())
      own_.content = VectorContent::values(
          snapshot_of(updates_.channel().as_received(*due_, all_, to.front(), options)), all_);
    updates_.send(to, own_.header, std::move(sent), options, within(updates_.channel(), turn));
  }

  // Ends the iteration when all updates have arrived and this one has left.
  bool end_round(Turn& turn) override {
    const std::vector<Rank> others = present(peers());
    const auto is_queued = [&](Rank rank) { return updates_.channel().queued(rank) > 0; };
    if (!updates_.receive(others, within(updates_.channel(), turn)) ||
        std::ranges::any_of(others, is_queued))
      return false;
    std::map<Rank, Updates::Model> all = {{turn.self(), own_}};
    for (const Rank rank : others) all.emplace(rank, updates_.take(rank));
    if (!note_losses(all)) {
      own_.header = {.is_finite = false};  // of the next iteration
      return true;
    }
    due_.reset();
    std::uint64_t dropped = 0;
    for (const auto& [rank, update] : all)
      dropped += !hold(rank, update.values(), double(all.size()), turn);
    const auto applied = held_.apply(done_ + 1, parameters(turn));
    // As with a server, 0 is an update that is applied as soon as possible.
    if (applied.updates > 0)
      turn.record("staleness", done_, double(applied.delays) / double(applied.updates) - 1);
    if (dropped > 0) turn.record("dropped", done_, double(dropped));
    if (all.size() < place_.members.with(Role::worker).size())
      turn.record("workers", done_, double(all.size()));
    return true;
  }
  std::string missing() const override { return updates_.waiting_for(present(peers())); }

  // Returns false if the run has diverged. All workers find that in the same iteration, unless the
  // members have changed in it.
  bool note_losses(const std::map<Rank, Updates::Model>& all) {
    const std::string at = "the run has diverged in iteration " + std::to_string(done_) + ": the ";
    double loss = 0, samples = 0;
    for (const auto& [rank, update] : all) {
      if (!update.header.is_finite && diverged_.empty())
        diverged_ = at + "loss or the update of " + place_.member(rank).site + " (rank " +
                    std::to_string(rank) + ") is not finite";
      loss += update.header.loss;
      samples += update.header.samples;
    }
    loss /= double(all.size());
    samples_ = samples / double(all.size());
    if (done_ == 0) first_loss_ = loss;
    if (diverged_.empty() && first_loss_ > 0 && !(loss <= kMostLoss * first_loss_))
      diverged_ =
          at + "loss has grown from " + std::to_string(first_loss_) + " to " + std::to_string(loss);
    return diverged_.empty();
  }

  // After a loss, other workers may have had other updates. A header without an update ends their
  // run, too.
  void end_diverged(Turn& turn) {
    send(turn);
    phase_ = Phase::ended;
    turn.finish();
  }

  // Holds an update of this iteration, which has `workers` of them. Returns false if it is dropped.
  bool hold(Rank origin, const Snapshot& u, double workers, Turn& turn) {
    std::uint32_t r = law_.delay(origin, turn.self(), done_);
    if (config_.drop_above && r > *config_.drop_above) return false;
    if (config_.cap) r = std::min(r, *config_.cap);
    Round due = done_ + 1 + r;
    if (config_.in_order) due = last_due_[origin] = std::max(due, last_due_[origin]);
    double weight = config_.rate_by_delay ? 1 / double(due - done_) : 1;
    if (config_.clip) {
      double square = 0;
      for (const float value : *u) square += double(value) * double(value);
      if (const double norm = std::sqrt(square); norm > *config_.clip)
        weight *= *config_.clip / norm;
    }
    const double scale = config_.scale == "mean" ? 1 / workers : 1;
    if (config_.self_ahead && origin == turn.self() && due > done_ + 1) {
      held_.hold(done_ + 1, {done_, origin, u, scale * (workers * weight), rate()});
      weight *= 1 - workers;
    }
    held_.hold(due, {done_, origin, u, scale * weight, rate()});
    return true;
  }

  bool finish_rounds(Turn& turn) override {
    if (diverged_.empty()) held_.flush(done_, parameters(turn));
    return true;
  }

  void archive_model(Archive& ar, Turn& turn) override {
    ar(rule_, first_loss_);
    if (ar.loading()) return ar.floats(turn.params());
    std::vector<float> x;
    assign(x, turn.params());
    staleness::HeldUpdates(held_).flush(done_, std::span(x).first(parameter_count(turn.place())));
    ar.floats(x);
  }

  double rate() const { return rate_ * (rate_share_ ? rate_share_(done_) : 1); }

  const Config config_;
  const Place place_;
  const Range all_;
  const double rate_;
  const std::function<double(std::uint64_t)> rate_share_;  // null: 1
  const staleness::DelayLaw law_;
  Updates updates_;
  staleness::UpdateRule rule_;
  staleness::HeldUpdates held_;
  staleness::Coherence coherence_;

  bool is_probing_ = false;  // computes the gradient for the coherence
  Snapshot due_;             // update of this iteration from its end of computing on, or null
  Updates::Model own_;       // the same as the others read it
  std::map<Rank, Round> last_due_;  // in_order: iteration of the sender's newest update
  double first_loss_ = 0;           // mean loss of iteration 0
  std::string diverged_;
};

}  // namespace longhaul::sync
