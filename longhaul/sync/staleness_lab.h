#pragma once
// The staleness lab: all workers step together and every update is delivered. An update is applied
// late, by a number of iterations from a delay law. So the cost of delays is measured apart from
// the cost of a network.
//   Dai et al., "Toward understanding the impact of staleness in distributed machine learning",
//   ICLR 2019 (arXiv 1810.03264): the experiment. Not in the paper: mean scaling, running over a
//   network, replay of recorded delays, the mitigations.
//
// In iteration t, worker i of P, with u_j^t for the update that worker j computes in it:
//   x_i <- x_i + scale sum of the held updates that are due by t    in double, rounded once
//   u_i^t = update of the gradient at x_i, from i's own optimiser;  sent to all other workers
//   u_j^t of all workers have arrived: u_j^t is due in t + 1 + r(j, i, t);  t <- t + 1
// At the end all held updates are applied, and the workers average their models.
#include <cmath>
#include <functional>
#include <set>

#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/gossip/ends_in_mean.h"
#include "longhaul/sync/staleness/coherence.h"
#include "longhaul/sync/staleness/config.h"
#include "longhaul/sync/staleness/held_updates.h"

namespace longhaul::sync {

struct StalenessHeader {
  LONGHAUL_MESSAGE(0, "header");  // part of another message
  Round iteration = 0;
  bool is_finite = true;  // false: no vector, as the worker's loss or update is not finite
  double loss = 0;        // loss of the batch
  std::uint64_t samples = 0;
  LONGHAUL_FIELDS((iteration, .max = 0x1p50), is_finite, (loss, .min = -1e300, .max = 1e300),
                  (samples, .max = 0x1p32))
};

enum class StalenessLabPhase : std::uint8_t {
  not_started,
  ready,
  probing,    // computes the gradient for the coherence
  computing,  // computes the gradient of its batch
  gathering,  // sends its update and waits for the others'
  deciding,   // waits for a verdict
  averaging,  // takes part in the final mean of the run
  ended
};

class StalenessLab final : public gossip::EndsInMean<StalenessLabPhase> {
 public:
  // The number of workers is part of the experiment.
  static SyncEntry entry() {
    return strategy_entry<StalenessLab>(
        {.name = "staleness_lab",
         .summary = "lock step with updates applied late on purpose: what staleness alone costs",
         .traits = {.takes_outer = false,
                    .when_lost = "stops: the experiment is one with a fixed number of workers",
                    .asks = "fixed gradient",
                    .mean_at_end = true},
         // Some updates are due within few rounds, and some are not.
         .small = {{"max_delay", {std::int64_t{2}}}},
         .costs = {{.rounds = "every step",
                    .sent = "S to each of n - 1",
                    .waits_for = "all, every step",
                    .staleness = "0 .. s steps (8), on purpose",
                    .memory = "n (s + 1) S at most",
                    .when_lost = "stops"}},
         .adapt = adapt_lab},
        make_lab);
  }

  using Config = staleness::LabConfig;
  StalenessLab(const Config& config, SyncParts parts, const Place& place)
      : EndsInMean(std::move(parts.overlay), /*returns=*/false),
        config_(config),
        place_(place),
        range_(place.layout->parameters()),
        workers_(place.members.with(Role::worker)),
        rate_(parts.rate),
        rate_share_(std::move(parts.rate_share)),
        law_(staleness::delay_law(config, place)),
        stop_(staleness_stop(parts.stop)),
        rule_(staleness::update_rule(config)),
        held_(config.scale == "mean" ? 1 / double(workers_.size()) : 1, config.compensation),
        coherence_(std::max(law_.most(), 1u)) {
    channel_ = std::make_unique<Channel>(
        place,
        ChannelConfig{.stream = "updates",
                      .limits = ChannelLimits::models(kUpdatesOfASender, *place.layout)},
        std::move(parts.transfer), parts.make_codec(true), nullptr,
        std::bind_front(&StalenessLab::admit, this));
    own(*channel_, {1, "updates"});
    own(stop_, {2, "stop rule"});
  }

  static Status check(const Config& config, const Place&) { return staleness::check(config); }

  void on_start(Turn&) override { phase_ = Phase::ready; }
  void on_view(const View& before, Turn& turn) override {
    if (phase_ == Phase::averaging || phase_ == Phase::ended) return;
    std::string lost;
    for (const Rank rank : workers_)
      if (before.has(rank) && !turn.view().has(rank))
        lost += (lost.empty() ? "" : ", ") + named(place_, rank);
    if (lost.empty()) return;  // a node without a learner
    fail(unavailable("lost " + lost + ": with fewer workers it is another experiment; start again"),
         turn);
  }

  void on_computed(const Computed& computed, Turn& turn) override {
    if (phase_ == Phase::probing) {
      note_coherence(turn);
      phase_ = Phase::computing;
      return turn.compute(Gradient{});
    }
    if (phase_ != Phase::computing) return;  // failed
    if (!turn.place().phantom) turn.record("train_loss", iteration_, computed.loss);
    phase_ = Phase::gathering;
    asked_ = turn.now();
    send_update(computed, turn);
  }

  // The first iteration starts here, because the overlay starts after its parent.
  void on_progress(Turn& turn) override {
    if (phase_ == Phase::not_started) return;
    receive(turn);
    while (advance(turn)) {
    }
  }

  Round rounds_done() const override { return iteration_; }
  std::string diverged() const override { return diverged_; }
  std::string waiting_for() const override {
    if (phase_ == Phase::deciding) return stop_.waiting_for();
    if (phase_ == Phase::averaging) return final_.waiting_for();
    if (phase_ != Phase::gathering) return "";
    std::string text = "iteration " + std::to_string(iteration_);
    if (const auto keys = missing(); !keys.empty()) {
      text += ": updates of";
      for (const Key& key : keys) text += " " + named(place_, key.second);
    }
    if (!sending_.empty()) {
      text += ": room to send to";
      for (const Rank rank : sending_) text += " " + named(place_, rank);
    }
    return channel_->waiting_after(text);
  }

  void state(Archive& ar) override {
    ar.expect("staleness_lab");
    ar(rule_, held_, coherence_, phase_, iteration_, samples_, first_loss_, admitted_, updates_,
       last_due_, sending_, duplicates_, dropped_, asked_, diverged_);
  }

 private:
  // One of this iteration, and one of the next from a worker that has just ended this one.
  static constexpr std::uint32_t kUpdatesOfASender = 2;
  // A run has diverged if its mean loss exceeds this multiple of the loss in the first iteration.
  static constexpr double kMostLoss = 100;

  static StopConfig staleness_stop(StopConfig config) {
    config.apart = 2;  // a worker can have ended its iteration while another waits for updates
    return config;
  }

  static std::string named(const Place& place, Rank rank) {
    return place.member(rank).site + " (rank " + std::to_string(rank) + ")";
  }

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

  using Channel = VectorChannel<StalenessHeader>;
  using Phase = StalenessLabPhase;
  struct Update {  // update of one worker, in this iteration or the next
    StalenessHeader header;
    Snapshot values;
    void state(Archive& ar) {
      ar(header);
      archive_snapshot(ar, values);
    }
  };
  using Key = std::pair<Round, Rank>;  // iteration, origin

  bool probes(const Turn& turn) const {
    return config_.coherence_every > 0 && turn.self() == workers_.front() && !turn.place().phantom;
  }
  // A worker is in the next iteration only if it has this worker's update of this one.
  Result<bool> admit(Rank from, const StalenessHeader& header, const ContentShape& shape) {
    const bool is_update = shape.kind == ContentKind::values && shape.range == range_;
    if (!place_.member(from).is(Role::worker) ||
        (header.is_finite ? !is_update : shape.kind != ContentKind::none))
      return malformed("a vector that is no update of a worker");
    const bool is_over = phase_ == Phase::averaging || phase_ == Phase::ended;
    const Round furthest = iteration_ + (phase_ == Phase::gathering ? 1 : 0);
    const Key key{header.iteration, from};
    if (header.iteration < iteration_ || admitted_.contains(key)) {
      ++duplicates_;
      return false;
    }
    if (is_over || header.iteration > furthest)
      return malformed("an update of iteration " + std::to_string(header.iteration) +
                       ", which nobody can be in");
    admitted_.insert(key);
    return true;
  }

  void receive(Turn& turn) {
    channel_->drop_lost();  // on_view() has handled lost peers
    while (const auto sent = channel_->sent()) sending_.erase(sent->to);
    while (auto one = channel_->poll(within(*channel_, turn)))
      updates_[{one->header.iteration, one->from}] = {one->header, one->content.values()};
  }

  // Makes one transition of the iteration if possible. Returns true if another can follow at once.
  bool advance(Turn& turn) {
    switch (phase_) {
      case Phase::ready:
        held_.begin(iteration_, parameters(turn));
        phase_ = probes(turn) ? Phase::probing : Phase::computing;
        if (phase_ == Phase::probing) {
          turn.compute(FixedGradient{config_.coherence_samples});
        } else {
          turn.compute(Gradient{});
        }
        return false;
      case Phase::gathering:
        if (!sending_.empty() || !missing().empty()) return false;
        end_iteration(turn);
        return true;
      case Phase::deciding: {
        const StopRule::Step step = stop_.after(iteration_ - 1);
        if (step == StopRule::Step::wait) return false;
        if (step == StopRule::Step::go_on) {
          phase_ = Phase::ready;
        } else {
          finish_run(turn);
        }
        return true;
      }
      case Phase::averaging:
        return end_with_mean(/*gives=*/true, turn);
      default:
        return false;
    }
  }

  void note_coherence(Turn& turn) {
    coherence_.add(turn.grads().first(parameter_count(turn.place())));
    if (iteration_ % config_.coherence_every != 0) return;
    const auto measured = coherence_.measure();
    if (!measured) return;
    turn.record("coherence", iteration_, measured->mu);
    for (std::size_t lag = 1; lag <= measured->cosines.size(); ++lag)
      turn.record("cosine_" + std::to_string(lag), iteration_, measured->cosines[lag - 1]);
  }

  // Computes the update of the gradient and sends it to all other workers.
  void send_update(const Computed& computed, Turn& turn) {
    std::vector<float> u = rule_.update(turn.grads().first(parameter_count(turn.place())), rate());
    StalenessHeader header{.iteration = iteration_,
                           .is_finite = all_finite(u) && std::abs(computed.loss) <= 1e300,
                           .samples = computed.samples};
    if (header.is_finite) header.loss = computed.loss;
    const std::vector<Rank> others =
        those_of(workers_, [&](Rank rank) { return rank != turn.self(); });
    Snapshot own;
    if (header.is_finite) own = as_read(u, others, turn);
    admitted_.insert({iteration_, turn.self()});
    updates_[{iteration_, turn.self()}] = {header, own};
    if (others.empty()) return;
    VectorContent content;
    if (header.is_finite) content = VectorContent::values(snapshot_of(std::move(u)), range_);
    sending_.insert(others.begin(), others.end());
    channel_->send(others, header, std::move(content), {.group = 0, .report_sent = true},
                   within(*channel_, turn));
  }

  // Returns the update as other workers read it, so that all workers hold the same update.
  Snapshot as_read(const std::vector<float>& update, const std::vector<Rank>& to, Turn& turn) {
    if (to.empty() || turn.place().phantom) return snapshot_of(update);
    return snapshot_of(channel_->as_received(update, range_, to.front(), {.group = 0}));
  }

  std::vector<Key> missing() const {
    std::vector<Key> keys;
    for (const Rank rank : workers_)
      if (!updates_.contains({iteration_, rank})) keys.emplace_back(iteration_, rank);
    return keys;
  }

  // Returns false if the run has diverged. All workers find that in the same iteration.
  bool note_losses() {
    double sum = 0;
    for (const Rank rank : workers_) {
      const StalenessHeader& header = updates_.at({iteration_, rank}).header;
      if (!header.is_finite && diverged_.empty())
        diverged_ = "iteration " + std::to_string(iteration_) + ": the loss or the update of " +
                    named(place_, rank) + " is not finite";
      sum += header.loss;
      samples_ += header.samples;
    }
    const double mean = sum / double(workers_.size());
    if (iteration_ == 0) first_loss_ = mean;
    if (diverged_.empty() && first_loss_ > 0 && !(mean <= kMostLoss * first_loss_))
      diverged_ = "iteration " + std::to_string(iteration_) + ": the loss has grown from " +
                  std::to_string(first_loss_) + " to " + std::to_string(mean);
    if (!diverged_.empty()) diverged_ = "the run has diverged in " + diverged_;
    return diverged_.empty();
  }

  void hold_all(Turn& turn) {
    for (const Rank rank : workers_) hold(rank, std::move(updates_.at({iteration_, rank})), turn);
  }

  void hold(Rank origin, Update update, Turn& turn) {
    std::uint32_t r = law_.delay(origin, turn.self(), iteration_);
    if (config_.drop_above && r > *config_.drop_above) {
      ++dropped_;
      return;
    }
    if (config_.cap) r = std::min(r, *config_.cap);
    Round due = iteration_ + 1 + r;
    if (config_.in_order) due = last_due_[origin] = std::max(due, last_due_[origin]);
    const auto late = double(due - iteration_);
    double weight = config_.rate_by_delay ? 1 / late : 1;
    if (config_.clip) {
      double square = 0;
      for (const float u : *update.values) square += double(u) * double(u);
      if (const double norm = std::sqrt(square); norm > *config_.clip)
        weight *= *config_.clip / norm;
    }
    if (config_.self_ahead && origin == turn.self() && due > iteration_ + 1) {
      const auto workers = double(workers_.size());
      held_.hold(iteration_ + 1, {iteration_, origin, update.values, workers * weight, rate()});
      weight *= 1 - workers;
    }
    held_.hold(due, {iteration_, origin, std::move(update.values), weight, rate()});
  }

  // Ends the iteration: all updates have arrived, and they are the same at all workers.
  void end_iteration(Turn& turn) {
    turn.record("wait_s", iteration_, seconds(turn.now() - asked_));
    const bool goes_on = note_losses();
    if (goes_on) hold_all(turn);
    if (duplicates_ > 0) turn.record("duplicates", iteration_, double(duplicates_));
    if (dropped_ > 0) turn.record("dropped", iteration_, double(dropped_));
    duplicates_ = dropped_ = 0;
    std::erase_if(admitted_, [&](const Key& key) { return key.first <= iteration_; });
    std::erase_if(updates_, [&](const auto& one) { return one.first.first <= iteration_; });
    ++iteration_;
    if (!goes_on) {
      phase_ = Phase::ended;
      return turn.finish();
    }
    phase_ = Phase::deciding;
    const auto applied = held_.apply(iteration_, parameters(turn));
    // As with a server, 0 is an update that is applied as soon as possible.
    if (applied.updates > 0)
      turn.record("staleness", iteration_ - 1,
                  double(applied.delays) / double(applied.updates) - 1);
    stop_.round_done(iteration_ - 1, turn.params(), samples_, within(stop_, turn));
  }

  // Applies all held updates at once. Then all workers average their models.
  void finish_run(Turn& turn) {
    held_.flush(iteration_, parameters(turn));
    begin_mean(turn);
  }

  double rate() const { return rate_ * (rate_share_ ? rate_share_(iteration_) : 1); }

  std::string place_in_run() const override {
    return "staleness_lab, iteration " + std::to_string(iteration_);
  }

  const Config config_;
  const Place place_;
  const Range range_;                // range of the parameters
  const std::vector<Rank> workers_;  // workers of the job
  const double rate_;
  const std::function<double(std::uint64_t)> rate_share_;  // null: 1
  const staleness::DelayLaw law_;
  std::unique_ptr<Channel> channel_;
  StopRule stop_;
  staleness::UpdateRule rule_;
  staleness::HeldUpdates held_;
  staleness::Coherence coherence_;

  Round iteration_ = 0;             // current iteration; also the number of completed ones
  std::uint64_t samples_ = 0;       // samples used by all workers
  double first_loss_ = 0;           // mean loss of iteration 0
  std::set<Key> admitted_;          // updates that have arrived or are in transit
  std::map<Key, Update> updates_;   // updates that have arrived
  std::map<Rank, Round> last_due_;  // in_order: iteration of the sender's newest update
  std::set<Rank> sending_;          // receivers whose update the host has not taken completely
  std::uint64_t duplicates_ = 0, dropped_ = 0;  // since the start of the iteration
  Time asked_{0};                               // start of the wait for the others' updates
  std::string diverged_;
};

}  // namespace longhaul::sync
