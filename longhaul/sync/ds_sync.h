#pragma once
// DS-Sync (divide and shuffle): after every few local steps the workers average their models inside
// small groups. The groups change from round to round. So the progress of each worker reaches every
// other worker within a few rounds, and no worker ever waits for all the others.
//   Wang et al., "DS-Sync: Addressing network bottlenecks with divide-and-shuffle synchronization
//   for distributed DNN training", arXiv 2007.03298 (INFOCOM 2022).
//
// In round k, with G the group of worker i (shuffle/schedule.h) and x'_i its model after its local
// steps:
//   x_i <- sum over j in G of x'_j / |G|
//
// With `sense`, sites whose links have become slow skip most exchanges between sites.
// shuffle/site_rates.h finds these sites. shuffle/schedule_switch.h makes all workers agree on the
// first round of the change.
//
// A returned worker receives the current model of the senior worker. It takes part from the first
// round whose groups include it. Models differ, so the received model need not be of that round.
#include <algorithm>
#include <cmath>

#include "longhaul/base/decimal.h"
#include "longhaul/core/group_number.h"
#include "longhaul/core/registry.h"
#include "longhaul/core/sample_count.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/shuffle/conclusion.h"
#include "longhaul/sync/shuffle/group_mean.h"
#include "longhaul/sync/shuffle/schedule.h"
#include "longhaul/sync/shuffle/schedule_switch.h"
#include "longhaul/sync/shuffle/site_rates.h"
#include "longhaul/sync/state_transfer.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {

class DsSync final : public Strategy {
 public:
  // Models differ from worker to worker. A returned node starts with the senior worker's model.
  static SyncEntry entry() {
    return strategy_entry<DsSync>(
        {.name = "ds_sync",
         .summary = "average models inside small groups, others in every round (DS-Sync)",
         .sends = "After its local steps a worker averages its model with the others of its group, "
                  "and waits for no one else. The groups are others in every round, so that each "
                  "worker's progress reaches all others after a few",
         .traits = {.takes_outer = false,
                    .no_feedback = "averages models, whose error must not be added to the next",
                    .takes_unbiased = false,
                    .when_lost = "its group continues without it, and new groups are formed from "
                                 "the survivors; ends the run below min_sites",
                    .lets_return = true},
         .costs = {{.rounds = "every H steps (1)",
                    .sent = "an exchange of S among b of the n workers",
                    .waits_for = "its group",
                    .staleness = "0, in its group",
                    .memory = "S",
                    .when_lost = "n (n-1) small messages"}},
         .adapt = adapt_ds_sync});
  }

  struct Config {
    std::string schedule = "published";
    std::uint32_t group_size = 0;
    std::uint32_t steps = 1;
    std::uint32_t cross_every = 0;
    bool sense = false;
    bool average_buffers = true;
    bool sync_state = false;
    bool correction = true;
    std::string final = "mean";
    double swa_fraction = 0;
    std::uint32_t min_sites = 1;

    bool senses() const { return sense && schedule == "topology"; }  // other schedules ignore sites
    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(schedule,
                   "how workers are grouped; published: the authors' for four workers, else grid",
                   .choices = {"published", "grid", "radix", "random", "topology"});
      LONGHAUL_KEY(group_size,
                   "workers in a group of grid and random (b); 0: round(sqrt(n)), at least 2");
      LONGHAUL_KEY(steps, "local steps in a round", .min = 1);
      LONGHAUL_KEY(cross_every,
                   "topology: one round in this many averages across sites; 0: 1, or 2 if some "
                   "site has one or two workers and some has several");
      LONGHAUL_KEY(sense,
                   "topology: a site whose exchanges have become half as quick keeps out of four "
                   "in five of them until they are quicker");
      LONGHAUL_KEY(average_buffers,
                   "running statistics are averaged, too; false: at the end alone");
      LONGHAUL_KEY(
          sync_state,
          "momentum and moments of the local optimiser are averaged, too (sgd, adam, adamw)");
      LONGHAUL_KEY(correction,
                   "lossy codecs: each worker keeps the error of its model, and means are fp32; "
                   "false: all take the encoded mean");
      LONGHAUL_KEY(swa_fraction,
                   "last share of [stop] max_rounds whose models are averaged into the final one "
                   "(SWA); 0: none",
                   .min = 0, .max = 1);
      LONGHAUL_KEY(
          final,
          "the final model of every worker: the mean of all models, or that of the lowest rank",
          .choices = {"mean", "rank0"});
      visit_min_sites(visit, self.min_sites);
    }
  };
  // Request to the senior worker for the final model of the run. A worker sends it if it has
  // returned too late for the last exchanges.
  struct FinalAsked {
    LONGHAUL_MESSAGE(1, "final_asked");
    Epoch epoch = 0;  // epoch in which the sender returned
    LONGHAUL_FIELDS(epoch)
  };
  using Messages = MessageList<FinalAsked>;

  DsSync(const Config& config, SyncParts parts, const Place& place)
      : config_(config),
        place_(place),
        swa_from_(swa_from(config, parts.stop.max_rounds)),
        corrects_(config.correction && loses(parts)),
        stop_config_(apart_by(most_apart(config, place), parts.stop)),
        schedule_{config.schedule, config.group_size, config.cross_every},
        overlay_(std::move(parts.overlay)),
        mean_(*overlay_),
        conclusion_(*overlay_),
        switch_(most_apart(config, place)),
        stop_(stop_config_) {
    own(*overlay_, kOverlayChild);
    own(stop_, {1, "stop rule"});
    own(switch_, {2, "schedule"});
    own(state_transfer_, {3, "state transfer"});
    own(site_rates_, {4, "site rates"});
  }

  static Status check(const Config& config, const Place& place) {
    const std::size_t n = place.members.with(Role::worker).size();
    if (config.group_size > 0 && (config.group_size < 2 || config.group_size > n))
      return invalid("[sync] group_size = " + std::to_string(config.group_size) +
                     ": expected 2 to the number of workers, which is " + std::to_string(n) +
                     ", or 0 for round(sqrt(n))");
    return check_min_sites(config.min_sites, place);
  }

  void on_start(Turn& turn) override {
    phase_ = turn.place().comes_back() ? Phase::awaiting_state : Phase::ready;
  }

  void on_view(const View& before, Turn& turn) override {
    follow_returned(before, turn);
    if (phase_ == Phase::ended) return;
    const Status enough = enough_sites(config_.min_sites, turn.place(), turn.view());
    if (!enough) fail(enough.error(), turn);
  }

  void on_step(const StepResult& step, Turn&) override {
    if (phase_ == Phase::reading_state) optimizer_state_ = step.outputs;
  }

  void on_computed(const Computed& computed, Turn& turn) override {
    if (phase_ == Phase::reading_state) {
      phase_ = Phase::grouping;
      asked_ = turn.now();
      return;
    }
    if (phase_ == Phase::writing_state) return end_round(turn);
    if (phase_ != Phase::computing) return;  // the run has failed
    if (!turn.place().phantom) turn.record("train_loss", done_, computed.loss);
    samples_ += double(computed.samples);
    phase_ = Phase::grouping;
    asked_ = turn.now();
    if (!config_.sync_state || turn.place().phantom) return;
    phase_ = Phase::reading_state;
    turn.compute(OptimizerState{});
  }

  // Starts the first round: the overlay starts after its parent.
  void on_progress(Turn& turn) override {
    // A duplicate of a state that this worker has already read.
    if (phase_ != Phase::awaiting_state && phase_ != Phase::concluding)
      state_transfer_.drop_received();
    hand_over(turn);
    sense(turn);
    while (advance(turn)) {
    }
    hand_over(turn);
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(Messages{}, message, [&](const FinalAsked& asked) -> Status {
      if (asked.epoch == 0 || asked.epoch != turn.view().since(from))
        return malformed("a request for the final model from a node that has not returned");
      asks_final_.insert(from);
      return Ok{};
    });
  }

  bool lets_return() const override { return true; }
  Round rounds_done() const override { return done_; }
  std::string waiting_for() const override {
    const std::string round = "round " + std::to_string(exchange()) + ": ";
    switch (phase_) {
      case Phase::grouping:
      case Phase::settling:
        return round + switch_.waiting_for();
      case Phase::averaging:
        return round + mean_.waiting_for();
      case Phase::deciding:
        return stop_.waiting_for();
      case Phase::concluding:
        return "the final model: " + conclusion_.waiting_for();
      case Phase::awaiting_state:
        return "a model, to rejoin the run";
      case Phase::entering:
        return "the round to rejoin in; " + switch_.waiting_for();
      default:
        return "";
    }
  }

  void state(Archive& ar) override {
    ar.expect("ds_sync");
    ar(phase_, done_, settled_, to_settle_, samples_, asked_, given_, partner_, mean_, conclusion_);
    ar(optimizer_state_, swa_, swa_count_);
    ar(returned_, was_sent_, asks_final_, asked_final_of_);
  }

 private:
  // Returns the maximum distance of two workers in rounds. A worker waits for its groups, and
  // through them, some rounds earlier, for every worker. A grid needs 2 rounds for that. Random
  // groups have no bound. The probability that no chain of groups connects two workers within 64
  // rounds is below 1e-19 (three workers, b = 2: 3^-64 is the worst case). A slow site takes part
  // in one cross round of five.
  static Round most_apart(const Config& config, const Place& place) {
    return (64 + place.size()) * (config.senses() ? 5 : 1);
  }

  // Returns the workers of each site, by index into `workers`. Sites are ordered by their first
  // worker.
  static shuffle::Partition sites_of(const std::vector<Rank>& workers, const Place& place) {
    std::map<std::string, std::size_t> known;
    shuffle::Partition sites;
    for (std::uint32_t i = 0; i < workers.size(); ++i) {
      const auto [at, is_new] = known.try_emplace(place.member(workers[i]).site, sites.size());
      if (is_new) sites.emplace_back();
      sites[at->second].push_back(i);
    }
    return sites;
  }

  // With `correction`, lossy codecs encode the models only, and not their mean.
  static void adapt_ds_sync(const Settings& settings, SyncTraits& traits) {
    traits.exact_means = config_of<Config>(settings).correction;
  }

  // Returns true if the codec is shorter than fp32, which is lossless.
  static bool loses(const SyncParts& parts) {
    constexpr std::size_t kSome = 1024;
    return parts.make_codec && parts.make_codec(false)->encoded_size(kSome) < kSome * sizeof(float);
  }

  // Returns a group number offset for the plan. A worker that is now lost may have started a plan
  // which a loss interrupted. The groups of that plan differ from those of the other workers in the
  // same round.
  static std::uint64_t of_plan(std::uint32_t plan) { return std::uint64_t(plan % 4) << 24; }

  static Round swa_from(const Config& config, Round max_rounds) {
    if (config.swa_fraction == 0) return ~Round(0);
    return Round(whole_down((1 - config.swa_fraction) * double(max_rounds))) + 1;
  }

  enum class Phase : std::uint8_t {
    unstarted,
    ready,
    computing,
    reading_state,  // reads the state of the optimiser
    grouping,       // waits until the schedule of the round is known
    averaging,      // waits for the mean of its group
    writing_state,  // writes the state of the optimiser
    deciding,       // waits for a verdict
    settling,       // waits for the schedule of the exchange after the last round
    concluding,
    ended,
    // returned workers only
    awaiting_state,
    entering  // waits for its first round, or for the end of the run
  };

  // Returns the index of the current exchange. Exchanges continue without training after the last
  // round.
  Round exchange() const { return done_ + settled_; }
  // Advances the round by one phase if possible. Returns true if the next phase can follow at once.
  bool advance(Turn& turn) {
    switch (phase_) {
      case Phase::ready:
        phase_ = Phase::computing;
        turn.compute(LocalStep{}, config_.steps);
        return false;
      case Phase::grouping:
        if (!switch_.knows(exchange())) return false;
        join_group(turn);
        return true;
      case Phase::averaging:
        if (!mean_.take(samples_, turn, within(*overlay_, turn))) return false;
        end_exchange(turn);
        return true;
      case Phase::deciding: {
        const StopRule::Step step = stop_.after(done_ - 1);
        if (step == StopRule::Step::wait) return false;
        phase_ = step == StopRule::Step::stop ? Phase::settling : Phase::ready;
        return true;
      }
      case Phase::settling:
        if (!switch_.knows(exchange())) return false;
        settle(turn);
        return true;
      case Phase::concluding: {
        const auto taken = turn.place().comes_back()
                               ? follow_conclusion(turn)
                               : conclusion_.take(turn, within(*overlay_, turn));
        if (!taken) fail(taken.error(), turn);
        if (!taken || !*taken) return false;
        phase_ = Phase::ended;
        turn.finish();
        return false;
      }
      case Phase::awaiting_state:
        return take_state(turn);
      case Phase::entering:
        return enter_run(turn);
      default:
        return false;
    }
  }

  // x_i <- sum over j in G of x'_j / |G|
  void join_group(Turn& turn) {
    const Round k = exchange();
    const auto [epoch, workers] = switch_.workers_of(k);
    const shuffle::ScheduleSwitch::Start& start = switch_.start_of(k);
    const shuffle::Partition groups = groups_of(workers, epoch, k, start.slow);
    const auto me = std::uint32_t(std::ranges::lower_bound(workers, turn.self()) - workers.begin());
    const auto mine = std::ranges::find_if(
        groups, [&](const auto& group) { return std::ranges::binary_search(group, me); });
    LH_CHECK(mine != groups.end());
    phase_ = Phase::averaging;
    if (to_settle_ == 0) {
      turn.record("group", k, double(mine - groups.begin()));
      turn.record("group_size", k, double(mine->size()));
      if (config_.senses()) turn.record("slow_sites", k, double(start.slow.size()));
    }
    Status begun = Ok{};
    if (mine->size() == 1) {
      if (all_finite(turn.params())) return end_exchange(turn);
      begun = not_finite("its model has values that are not finite; lower [optimizer] rate");
    } else {
      std::vector<Rank> members;
      for (const std::uint32_t worker : *mine) members.push_back(workers[worker]);
      if (config_.senses() && to_settle_ == 0)
        for (const Rank member : members)
          if (place_.member(member).site != place_.me().site) partner_ = member;
      given_ = turn.now();
      const std::uint32_t number = group_number(
          epoch, k * workers.size() + std::size_t(mine - groups.begin()) + of_plan(start.plan));
      begun = mean_.begin(number, members,
                          {.buffers = config_.average_buffers || to_settle_ > 0,
                           .exact = to_settle_ > 0,
                           .samples = stop_config_.max_samples > 0,
                           .correction = corrects_,
                           .state = to_settle_ == 0 ? std::span<const float>(optimizer_state_)
                                                    : std::span<const float>()},
                          samples_, turn, within(*overlay_, turn));
    }
    if (!begun) fail(begun.error(), turn);
  }

  void end_exchange(Turn& turn) {
    if (to_settle_ == 0) {
      turn.record("wait_s", done_, seconds(turn.now() - asked_));
      note_cross(turn);
      std::vector<float> state = mean_.take_state();
      if (state.empty()) return end_round(turn);
      phase_ = Phase::writing_state;
      return turn.compute(OptimizerState{.set = std::move(state)});
    }
    ++settled_;
    switch_.enter(exchange());
    if (--to_settle_ > 0)
      phase_ = Phase::grouping;
    else
      conclude(/*compare=*/true, turn);
  }

  void end_round(Turn& turn) {
    ++done_;
    switch_.enter(exchange());
    if (done_ >= swa_from_ && !turn.place().phantom) {
      const auto x = parameters(turn);
      swa_.resize(x.size());
      ++swa_count_;
      for (std::size_t i = 0; i < x.size(); ++i)
        swa_[i] += (double(x[i]) - swa_[i]) / double(swa_count_);
    }
    phase_ = Phase::deciding;
    const auto live = live_workers(turn).size();
    stop_.round_done(done_ - 1, turn.params(), plus_samples(0, samples_ * double(live)),
                     within(stop_, turn));
  }

  shuffle::Partition groups_of(const std::vector<Rank>& workers, Epoch epoch, Round k,
                               const shuffle::SlowSites& slow = {}) const {
    const Random draw(place_.seed, Stream{Purpose::members, k, 0, std::uint32_t(epoch)});
    const shuffle::Partition sites = sites_of(workers, place_);
    std::vector<std::size_t> byes;
    for (std::size_t s = 0; s < sites.size(); ++s)
      for (const shuffle::SlowSite& one : slow)
        if (place_.member(one.site).site == place_.member(workers[sites[s].front()]).site)
          byes.push_back(s);
    return schedule_.groups(sites, k, draw, byes);
  }

  // Reports the duration of this worker's cross exchange to the planner. In sense(), the planner
  // proposes the sites that skip cross exchanges, as long as training continues.
  void note_cross(Turn& turn) {
    const auto partner = std::exchange(partner_, std::nullopt);
    if (!partner || !turn.view().has(*partner)) return;
    site_rates_.crossed(done_, *partner, turn.now() - given_, within(site_rates_, turn));
  }

  void sense(Turn& turn) {
    const bool trains = phase_ == Phase::ready || phase_ == Phase::computing ||
                        phase_ == Phase::grouping || phase_ == Phase::averaging;
    if (!config_.senses() || !trains || to_settle_ > 0 || !switch_.plan()) return;
    if (auto slow = site_rates_.change(*switch_.plan(), turn))
      switch_.propose(*std::move(slow), within(switch_, turn));
  }

  // Starts the exchanges that make all models equal if the schedule has them, else the conclusion.
  // All workers use the same schedule, whichever view they have reached.
  void settle(Turn& turn) {
    use_average_over_time(turn);
    const auto n = std::uint32_t(switch_.workers_of(exchange()).second.size());
    to_settle_ = config_.final == "mean" ? schedule_.rounds_to_consensus(n) : 0;
    if (to_settle_ == 0) return conclude(/*compare=*/false, turn);
    phase_ = Phase::grouping;
  }

  void use_average_over_time(Turn& turn) {
    if (std::exchange(swa_count_, 0) == 0) return;
    std::ranges::transform(swa_, parameters(turn).begin(), [](double x) { return float(x); });
  }

  // Starts the conclusion. `compare`: checks first whether the models are equal, because a loss
  // during the last exchanges can leave them different.
  void conclude(bool compare, Turn& turn) {
    phase_ = Phase::concluding;
    if (turn.place().comes_back())
      return conclusion_.join(final_model(), compare, /*has_model=*/true);
    const Status begun = conclusion_.begin(final_model(), compare, turn, within(*overlay_, turn));
    if (!begun) fail(begun.error(), turn);
  }

  shuffle::Conclusion::Model final_model() const {
    using Model = shuffle::Conclusion::Model;
    return config_.final == "mean" ? Model::mean : Model::senior;
  }

  // --- returned workers --------------------------------------------------------------------------
  void follow_returned(const View& before, Turn& turn) {
    const View& view = turn.view();
    const auto is_gone = [&](Rank rank) { return !view.has(rank); };
    std::erase_if(returned_, [&](const auto& one) { return is_gone(one.first); });
    std::erase_if(was_sent_, is_gone);
    std::erase_if(asks_final_, is_gone);
    for (const auto& [rank, epoch] : view.returned)
      if (epoch == view.epoch && rank != turn.self() &&
          turn.place().member(rank).is(Role::worker)) {
        returned_[rank] = epoch;
        was_sent_.erase(rank);
        asks_final_.erase(rank);
      }
    if (!turn.place().comes_back()) return;
    // The overlay restarts its group of all workers.
    for (Rank rank = 0; rank < turn.place().size(); ++rank) {
      const Member& member = turn.place().member(rank);
      if (!member.is(Role::worker) && !member.is(Role::server)) continue;
      if (before.has(rank) != view.has(rank) || before.since(rank) != view.since(rank))
        conclusion_.begin_anew();
    }
    if (phase_ == Phase::awaiting_state && senior_worker(turn.place(), view) == turn.self())
      fail(state_lost("all sites that knew the model are lost; resume from a checkpoint"), turn);
  }

  // Sends the current model of the senior worker to returned workers, when the learner is idle.
  void hand_over(Turn& turn) {
    std::erase_if(returned_, [&](const auto& one) { return state_transfer_.has_state(one.first); });
    const bool knows = phase_ != Phase::unstarted && phase_ != Phase::awaiting_state;
    const bool is_last = phase_ == Phase::ended;
    if (!knows || (returned_.empty() && asks_final_.empty()) || turn.learner_is_busy() ||
        !is_senior(turn))
      return;
    std::set<Rank> to;
    for (const auto& [rank, epoch] : returned_)
      if (was_sent_.insert(rank).second || is_last) to.insert(rank);
    if (is_last) {
      to.merge(std::exchange(asks_final_, {}));
      returned_.clear();
    }
    state_transfer_.send(
        to, done_, is_last, [&](Archive& ar) { archive_for_returned(ar, done_, turn); },
        within(state_transfer_, turn));
  }

  void archive_for_returned(Archive& ar, Round& done, Turn& turn) {
    ar.expect("ds_sync");
    ar(done, samples_, swa_, swa_count_);
    stop_.hand_over(ar);
    ar.floats(turn.params());
  }

  bool take_state(Turn& turn) {
    if (!state_transfer_.received()) return false;
    const bool is_last = state_transfer_.received()->last;
    Round done = 0;
    const Status read =
        state_transfer_.read([&](Archive& ar) { archive_for_returned(ar, done, turn); },
                             [&](const auto&) -> Status {
                               if (swa_.empty() || swa_.size() == parameter_count(turn.place()))
                                 return Ok{};
                               return malformed("it is of a model of another size");
                             });
    if (!read) return fail(read.error(), turn), false;
    state_transfer_.confirm(within(state_transfer_, turn));
    phase_ = Phase::entering;
    if (!is_last) return true;
    done_ = done;
    phase_ = Phase::ended;
    turn.finish();
    return false;
  }

  enum class End : std::uint8_t { unknown, later, before };
  // Returns whether training ends before exchange `entry`. Other workers can be ahead of the sender
  // of the state. Sets `end` to the number of rounds that are done by then.
  End end_before(Round entry, Round& end) {
    constexpr Round kMostToSettle = 64;
    end = std::min(entry, stop_config_.max_rounds);
    for (Round r = entry - std::min(entry, kMostToSettle); r + 1 < end; ++r) {
      if (r < stop_config_.lag || r - stop_config_.lag + 1 < stop_config_.report_every) continue;
      const StopRule::Step step = stop_.after(r);
      if (step == StopRule::Step::wait) return End::unknown;
      if (step == StopRule::Step::stop) end = r + 1;
    }
    return end < entry ? End::before : End::later;
  }

  bool enter_run(Turn& turn) {
    const auto entry = switch_.entry();
    if (!entry) return false;
    Round end = 0;
    const End training = end_before(*entry, end);
    if (training == End::unknown) return false;
    done_ = end;
    asked_ = turn.now();
    if (training == End::later) {
      phase_ = Phase::deciding;
      return true;
    }
    use_average_over_time(turn);
    const Round settled = *entry - done_;
    const std::uint32_t rounds =
        config_.final == "mean" ? schedule_.rounds_to_consensus(switch_.worker_count(done_)) : 0;
    if (settled < rounds) {
      settled_ = settled;
      to_settle_ = rounds - std::uint32_t(settled);
      phase_ = Phase::grouping;
      return true;
    }
    settled_ = rounds;
    conclusion_.join(final_model(), /*compare=*/rounds > 0, /*has_model=*/false);
    phase_ = Phase::concluding;
    return true;
  }

  // Asks the senior worker for the final model if the conclusion has passed without this worker.
  // The senior worker answers when it ends.
  Result<bool> follow_conclusion(Turn& turn) {
    if (state_transfer_.received()) {
      (void)take_state(turn);
      return false;
    }
    const Rank senior = senior_worker(turn.place(), turn.view());
    if (senior == turn.self() && (conclusion_.missed() || !conclusion_.has_model()))
      return unavailable("all sites that had the final model are lost; resume from a checkpoint");
    const auto taken = conclusion_.follow(turn, within(*overlay_, turn));
    if (!taken || *taken || !conclusion_.missed() || asked_final_of_ == senior) return taken;
    asked_final_of_ = senior;
    turn.send(senior, FinalAsked{turn.view().since(turn.self())}, {}, kControl);
    return false;
  }

  void fail(const Error& error, Turn& turn) {
    phase_ = Phase::ended;
    turn.fail({error.kind,
               who("ds_sync, round " + std::to_string(exchange()), turn.place()) + error.what});
  }

  const Config config_;
  const Place place_;
  const Round swa_from_;  // number of completed rounds at which averaging over time starts
  const bool corrects_;
  const StopConfig stop_config_;
  const shuffle::Schedule schedule_;
  const std::unique_ptr<Overlay> overlay_;
  shuffle::GroupMean mean_;
  shuffle::Conclusion conclusion_;
  shuffle::ScheduleSwitch switch_;
  shuffle::SiteRates site_rates_;
  StopRule stop_;
  StateTransfer state_transfer_;

  Phase phase_ = Phase::unstarted;
  Round done_ = 0;               // completed rounds; also the current round
  Round settled_ = 0;            // completed exchanges after the last round
  std::uint32_t to_settle_ = 0;  // remaining exchanges after the last round
  double samples_ = 0;  // samples per worker; averaged with the models if [stop] max_samples is set
  Time asked_{0};       // start of the wait for the mean
  Time given_{0};       // time at which this worker contributed its model
  std::optional<Rank> partner_;         // worker of another site in the current mean
  std::vector<float> optimizer_state_;  // empty without sync_state
  // Mean over time of the models after each round, starting at swa_from_. The mean of these over
  // the workers is the mean over time of the mean model, which rounds preserve.
  std::vector<double> swa_;
  std::uint64_t swa_count_ = 0;
  // returned_: live returned workers that have not confirmed a model. was_sent_: those to which
  // this node has sent one. asks_final_: workers that have asked for the final model.
  std::map<Rank, Epoch> returned_;
  std::set<Rank> was_sent_, asks_final_;
  std::optional<Rank> asked_final_of_;  // senior worker that this returned worker has asked
};

}  // namespace longhaul::sync
