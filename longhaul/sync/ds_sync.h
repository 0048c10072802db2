#pragma once
// DS-Sync (divide and shuffle): after every few local steps the workers average their models inside
// small groups, and the groups change from round to round, so that what each worker has learned
// reaches all others within a few rounds, although nobody ever waits for all.
//   Wang et al., "DS-Sync: Addressing network bottlenecks with divide-and-shuffle synchronization
//   for distributed DNN training", arXiv 2007.03298 (INFOCOM 2022).
//
// In round k, with G the group of worker i (shuffle/schedule.h) and x'_i its model after its local
// steps:
//   x_i <- sum over j in G of x'_j / |G|
//
// With `sense`, sites whose links have become slow keep out of most exchanges between sites:
// shuffle/site_rates.h finds them, shuffle/schedule_switch.h makes all agree from which round on.
//
// A worker that comes back is sent the model of the senior worker as it
// stands, and takes part from the first round on that the others name it in. Models differ, so it
// need not be of that round.
#include <algorithm>
#include <cmath>

#include "longhaul/base/decimal.h"
#include "longhaul/core/group_number.h"
#include "longhaul/core/registry.h"
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
  // Models differ from worker to worker: a node that comes back begins with the senior worker's.
  static SyncEntry entry() {
    return strategy_entry<DsSync>(
        {.name = "ds_sync",
         .summary = "average models inside small groups, others in every round (DS-Sync)",
         .sends = "After its local steps a worker averages its model with the others of its group, "
                  "and waits for no one else. The groups are others in every round, so that each "
                  "worker hears of all after a few",
         .traits = {.takes_outer = false,
                    .no_feedback = "averages models, whose error must not be added to the next",
                    .takes_unbiased = false,
                    .when_lost =
                        "its group goes on without it, and the groups are made anew of the "
                        "survivors; ends the run below min_sites",
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

    bool senses() const { return sense && schedule == "topology"; }  // others know of no sites
    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(schedule,
                   "how workers are grouped; published: the pattern of the authors' code for four "
                   "workers, of other numbers the grid",
                   .choices = {"published", "grid", "radix", "random", "topology"});
      LONGHAUL_KEY(group_size,
                   "workers in a group of grid and random (b); 0: round(sqrt(n)), at least 2");
      LONGHAUL_KEY(steps, "local steps in a round", .min = 1);
      LONGHAUL_KEY(cross_every,
                   "topology: one round in so many averages across sites; 0: 1, or 2 if some site "
                   "has one or two workers and some has several");
      LONGHAUL_KEY(sense,
                   "topology: a site whose exchanges with others have become half as quick as they "
                   "were keeps out of four in five of them until they are quicker");
      LONGHAUL_KEY(average_buffers,
                   "running statistics are averaged, too; false: at the end alone");
      LONGHAUL_KEY(
          sync_state,
          "momentum and moments of the local optimiser are averaged, too (sgd, adam, adamw)");
      LONGHAUL_KEY(correction,
                   "codecs that lose: each keeps what the codec lost of its own model, and means "
                   "are written as fp32, so that no average is lost; false: all take the mean as "
                   "the codec writes it");
      LONGHAUL_KEY(swa_fraction,
                   "of the rounds up to [stop] max_rounds the last share whose models are averaged "
                   "over time into the final one (SWA); 0: none",
                   .min = 0, .max = 1);
      LONGHAUL_KEY(final,
                   "the model that all end with: the mean of all, or that of the lowest rank",
                   .choices = {"mean", "rank0"});
      visit_min_sites(visit, self.min_sites);
    }
  };
  // To the senior worker, from one that has come back too late for the run's last exchanges: it
  // needs the model that the run ends with.
  struct FinalAsked {
    LONGHAUL_MESSAGE(1, "final_asked");
    Epoch epoch = 0;  // in which it came back
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
    if (phase_ != Phase::computing) return;  // it has failed
    if (!turn.place().phantom) turn.record("train_loss", done_, computed.loss);
    samples_ += double(computed.samples);
    phase_ = Phase::grouping;
    asked_ = turn.now();
    if (!config_.sync_state || turn.place().phantom) return;
    phase_ = Phase::reading_state;
    turn.compute(OptimizerState{});
  }

  // The overlay starts after its parent: the first round begins here.
  void on_progress(Turn& turn) override {
    // Sent twice.
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
        return malformed("the final model is asked for by one that has not come back");
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
        return "a model, to come back to the run";
      case Phase::entering:
        return "the round to come back in; " + switch_.waiting_for();
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
  // A worker waits for those in its groups, and through them, some rounds ago, for all. How many
  // rounds that are is 2 for a grid; with random groups it has no bound, but the odds that a worker
  // was in no group that leads to another for so many rounds are below 1e-19 (three workers, b = 2:
  // 3^-64 is the worst). A site that is sensed as slow meets others in one cross round of five.
  static Round most_apart(const Config& config, const Place& place) {
    return (64 + place.size()) * (config.senses() ? 5 : 1);
  }

  // The workers of each site, by their places in `workers`; sites in the order of their first.
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

  // Codecs that lose may write the models, and not their mean.
  static void adapt_ds_sync(const Settings& settings, SyncTraits& traits) {
    traits.exact_means = config_of<Config>(settings).correction;
  }

  // fp32 writes values as they stand.
  static bool loses(const SyncParts& parts) {
    constexpr std::size_t kSome = 1024;
    return parts.make_codec && parts.make_codec(false)->encoded_size(kSome) < kSome * sizeof(float);
  }

  // A plan that a loss came into the middle of may have been begun by who is lost: its groups are
  // not those that others give the same round.
  static std::uint64_t of_plan(std::uint32_t plan) { return std::uint64_t(plan % 4) << 24; }

  static Round swa_from(const Config& config, Round max_rounds) {
    if (config.swa_fraction == 0) return ~Round(0);
    return Round(whole_down((1 - config.swa_fraction) * double(max_rounds))) + 1;
  }

  enum class Phase : std::uint8_t {
    unstarted,
    ready,
    computing,
    reading_state,  // of the optimiser
    grouping,       // waits to know whose groups the round has
    averaging,      // in its group
    writing_state,  // of the optimiser
    deciding,       // waits for a verdict
    settling,       // waits to know whose groups the exchange after the last round has
    concluding,
    ended,
    // of a worker that has come back
    awaiting_state,
    entering  // waits to know which round it takes part in first, and whether there is one
  };

  // Of the exchanges, which go on without training when the rounds are done.
  Round exchange() const { return done_ + settled_; }
  // One move of the round, if one can be made now.
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
    stop_.round_done(done_ - 1, turn.params(), std::uint64_t(std::llround(samples_ * double(live))),
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

  // The workers that cross tell the planner how long it took, and the planner proposes which sites
  // keep out of it, while there are rounds to come.
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

  // A schedule that makes all models equal in a few rounds does that first. Which one it is all
  // know,
  // whatever view they have reached.
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

  // A loss in the last exchanges may have kept the models apart: that is looked at.
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

  // --- workers that have come back -----------------------------------------------------------
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
    // The overlay's group of all workers begins anew.
    for (Rank rank = 0; rank < turn.place().size(); ++rank) {
      const Member& member = turn.place().member(rank);
      if (!member.is(Role::worker) && !member.is(Role::server)) continue;
      if (before.has(rank) != view.has(rank) || before.since(rank) != view.since(rank))
        conclusion_.begin_anew();
    }
    if (phase_ == Phase::awaiting_state && senior_worker(turn.place(), view) == turn.self())
      fail(state_lost("all sites that knew the model are lost; resume from a checkpoint"), turn);
  }

  // The senior worker's model as it stands, whenever the learner is at rest.
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
  // Does training end before exchange `entry`? The others may have come further than the sender of
  // the state. `end`: after how many rounds.
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

  // Too late for what the others have decided it asks the senior worker, which answers at its own
  // end.
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
  const Round swa_from_;  // rounds done, from which on models are averaged over time
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
  Round done_ = 0;               // also the round that runs
  Round settled_ = 0;            // exchanges after the last round
  std::uint32_t to_settle_ = 0;  // are left of them
  double samples_ = 0;  // used by a worker in the mean: averaged as models are, if they count
  Time asked_{0};       // since when the mean is awaited
  Time given_{0};       // when this worker's model was given to it
  std::optional<Rank> partner_;         // of another site, in the mean that runs
  std::vector<float> optimizer_state_;  // with sync_state
  // Mean over time of the model after each round from swa_from_ on. The mean over the workers of
  // these is that of the mean model, which rounds keep.
  std::vector<double> swa_;
  std::uint64_t swa_count_ = 0;
  // Live workers that have come back, until they say that they have a model; those of them to whom
  // this node has sent one; who has asked for the model that the run ends with.
  std::map<Rank, Epoch> returned_;
  std::set<Rank> was_sent_, asks_final_;
  std::optional<Rank> asked_final_of_;  // at one that has come back
};

}  // namespace longhaul::sync
