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
// first round of this change, and of changes of the workers.
//
// A returned worker begins with the senior worker's model of an earlier round.
#include "longhaul/base/decimal.h"
#include "longhaul/core/group_number.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/peer_strategy.h"
#include "longhaul/sync/shuffle/group_mean.h"
#include "longhaul/sync/shuffle/schedule.h"
#include "longhaul/sync/shuffle/schedule_switch.h"
#include "longhaul/sync/shuffle/site_rates.h"

namespace longhaul::sync {

class DsSync final : public PeerStrategy {
 public:
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

  DsSync(const Config& config, SyncParts parts, const Place& place)
      : PeerStrategy({.name = "ds_sync",
                      .steps = config.steps,
                      .apart = most_apart(config, place),
                      .ends_with_senior = config.final == "rank0",
                      .enters_late = !config.senses()},
                     std::move(parts.overlay), parts.stop, place),
        config_(config),
        place_(place),
        swa_from_(swa_from(config, parts.stop.max_rounds)),
        corrects_(config.correction && loses(parts)),
        counts_samples_(parts.stop.max_samples > 0),
        schedule_{config.schedule, config.group_size, config.cross_every},
        mean_(final_.overlay()),
        switch_(most_apart(config, place)) {
    own(switch_, {5, "schedule"});
    own(site_rates_, {6, "site rates"});
  }

  static Status check(const Config& config, const Place& place) {
    const std::size_t n = place.members.with(Role::worker).size();
    if (config.group_size > 0 && (config.group_size < 2 || config.group_size > n))
      return invalid("[sync] group_size = " + std::to_string(config.group_size) +
                     ": expected 2 to the number of workers, which is " + std::to_string(n) +
                     ", or 0 for round(sqrt(n))");
    return check_min_sites(config.min_sites, place);
  }

  void on_step(const StepResult& step, Turn&) override {
    if (exchange_ == Exchange::reading) {
      optimizer_state_ = step.outputs;
      exchange_ = Exchange::grouping;
    } else if (exchange_ == Exchange::writing) {
      exchange_ = Exchange::averaged;
    }
  }

  void state(Archive& ar) override {
    PeerStrategy::state(ar);
    ar(exchange_, given_, partner_, mean_, optimizer_state_, swa_, swa_count_);
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

  // The phases of a round after its steps.
  enum class Exchange : std::uint8_t {
    reading,    // reads the state of the optimiser
    grouping,   // waits until the schedule of the round is known
    averaging,  // waits for the mean of its group
    writing,    // writes the state of the optimiser
    averaged
  };

  std::vector<Rank> peers_among(const std::vector<Rank>& workers, const Turn& turn) override {
    return those_of(workers, [&](Rank rank) { return rank != turn.self(); });
  }

  void on_entering(const std::vector<Rank>& to, Turn& turn) override {
    switch_.send_starts(to, done_, within(switch_, turn));
    if (phase_ == Phase::ended) return;
    const Status enough = enough_sites(config_.min_sites, turn.place(), turn.view());
    if (!enough) fail(enough.error(), turn);
  }
  void on_view_begun(Turn& turn) override {
    std::map<Rank, Round> rounds, back;
    for (const auto& [rank, entry] : entered()) (entry.is_back ? back : rounds)[rank] = entry.round;
    switch_.begin_view(rounds, back, within(switch_, turn));
  }
  void on_late_entry(Rank rank, Round round) override { switch_.add(rank, round); }

  // The planner proposes the sites that skip cross exchanges, as long as training continues.
  void receive(Turn& turn) override {
    const bool trains =
        phase_ == Phase::ready || phase_ == Phase::computing || phase_ == Phase::exchanging;
    if (!config_.senses() || !trains || !switch_.plan()) return;
    if (auto slow = site_rates_.change(*switch_.plan(), turn))
      switch_.propose(*std::move(slow), within(switch_, turn));
  }

  void on_steps_done(const Computed&, Turn& turn) override {
    if (!config_.sync_state || turn.place().phantom) return;
    exchange_ = Exchange::reading;
    turn.compute(OptimizerState{});
  }

  bool end_round(Turn& turn) override {
    if (exchange_ == Exchange::grouping && !(switch_.knows(done_) && join_group(turn)))
      return false;
    if (exchange_ == Exchange::averaging &&
        mean_.take(samples_, turn, within(final_.overlay(), turn)))
      use_mean(turn);
    if (exchange_ != Exchange::averaged) return false;
    exchange_ = Exchange::grouping;  // of the next round
    switch_.enter(done_ + 1);
    if (done_ + 1 >= swa_from_) average_over_time(parameters(turn));
    return true;
  }
  std::string missing() const override {
    return exchange_ == Exchange::averaging ? mean_.waiting_for() : switch_.waiting_for();
  }

  // x_i <- sum over j in G of x'_j / |G|. Returns false if the run has failed.
  bool join_group(Turn& turn) {
    const shuffle::ScheduleSwitch::Start* start = switch_.start_of(done_);
    // A returned worker is in no group of views before.
    if (start && start->epoch < turn.view().since(place_.self)) start = nullptr;
    const std::vector<Rank> workers = start ? start->workers_in(done_) : std::vector<Rank>{};
    shuffle::Partition groups;
    if (!workers.empty()) groups = groups_of(*start, workers);
    const auto mine = std::ranges::find_if(groups, [&](const auto& group) {
      return std::ranges::any_of(
          group, [&](std::uint32_t worker) { return workers[worker] == place_.self; });
    });
    const auto number = std::size_t(mine - groups.begin());
    std::vector<Rank> members;
    if (mine == groups.end())
      members = {place_.self};  // has returned, and is in no group yet
    else
      for (const std::uint32_t worker : *mine) members.push_back(workers[worker]);
    turn.record("group", done_, double(number));
    turn.record("group_size", done_, double(members.size()));
    if (config_.senses()) turn.record("slow_sites", done_, double(start ? start->slow.size() : 0));
    exchange_ = members.size() == 1 ? Exchange::averaged : Exchange::averaging;
    if (members.size() == 1) return is_finite(turn);
    if (config_.senses())
      for (const Rank member : members)
        if (place_.member(member).site != place_.me().site) partner_ = member;
    given_ = turn.now();
    const Status begun =
        mean_.begin(group_number(start->epoch, done_ * place_.members.with(Role::worker).size() +
                                                   number + of_plan(start->plan)),
                    members,
                    {.buffers = config_.average_buffers,
                     .samples = counts_samples_,
                     .correction = corrects_,
                     .state = optimizer_state_},
                    samples_, turn, within(final_.overlay(), turn));
    if (!begun) fail(begun.error(), turn);
    return bool(begun);
  }

  void use_mean(Turn& turn) {
    note_cross(turn);
    exchange_ = Exchange::averaged;
    std::vector<float> state = mean_.take_state();
    if (state.empty()) return;
    exchange_ = Exchange::writing;
    turn.compute(OptimizerState{.set = std::move(state)});
  }

  shuffle::Partition groups_of(const shuffle::ScheduleSwitch::Start& start,
                               const std::vector<Rank>& workers) const {
    const Random draw(place_.seed, Stream{Purpose::members, done_, 0, std::uint32_t(start.epoch)});
    const shuffle::Partition sites = sites_of(workers, place_);
    std::vector<std::size_t> byes;
    for (std::size_t s = 0; s < sites.size(); ++s)
      for (const shuffle::SlowSite& one : start.slow)
        if (place_.member(one.site).site == place_.member(workers[sites[s].front()]).site)
          byes.push_back(s);
    return schedule_.groups(sites, done_, draw, byes);
  }

  // Reports the duration of this worker's cross exchange to the planner.
  void note_cross(Turn& turn) {
    const auto partner = std::exchange(partner_, std::nullopt);
    if (!partner || !turn.view().has(*partner)) return;
    site_rates_.crossed(done_, *partner, turn.now() - given_, within(site_rates_, turn));
  }

  void average_over_time(std::span<const float> x) {
    swa_.resize(x.size());
    ++swa_count_;
    for (std::size_t i = 0; i < x.size(); ++i)
      swa_[i] += (double(x[i]) - swa_[i]) / double(swa_count_);
  }
  bool finish_rounds(Turn& turn) override {
    if (std::exchange(swa_count_, 0) > 0)
      std::ranges::transform(swa_, parameters(turn).begin(), [](double x) { return float(x); });
    return true;
  }

  void archive_model(Archive& ar, Turn& turn) override {
    PeerStrategy::archive_model(ar, turn);
    ar(swa_, swa_count_);
    if (!swa_.empty() && swa_.size() != parameter_count(place_))
      ar.fail("holds a model of another size");
  }

  const Config config_;
  const Place place_;
  const Round swa_from_;  // number of completed rounds at which averaging over time starts
  const bool corrects_;
  const bool counts_samples_;
  const shuffle::Schedule schedule_;
  shuffle::GroupMean mean_;
  shuffle::ScheduleSwitch switch_;
  shuffle::SiteRates site_rates_;

  Exchange exchange_ = Exchange::grouping;
  Time given_{0};                       // time at which this worker contributed its model
  std::optional<Rank> partner_;         // worker of another site in the current mean
  std::vector<float> optimizer_state_;  // empty without sync_state
  // Mean over time of the models after each round, starting at swa_from_. The mean of these over
  // the workers is the mean over time of the mean model, which rounds preserve.
  std::vector<double> swa_;
  std::uint64_t swa_count_ = 0;
};

}  // namespace longhaul::sync
