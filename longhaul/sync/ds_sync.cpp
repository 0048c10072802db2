#include "longhaul/sync/ds_sync.h"

#include <algorithm>
#include <cmath>

#include "longhaul/base/decimal.h"
#include "longhaul/core/group_number.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync {
namespace {

// A worker waits for those in its groups, and through them, some rounds ago, for all. How many
// rounds that are is 2 for a grid; with random groups it has no bound, but the odds that a worker
// was in no group that leads to another for so many rounds are below 1e-19 (three workers, b = 2:
// 3^-64 is the worst). A site that is sensed as slow meets others in one cross round of five.
Round most_apart(const DsSync::Config& config, const Place& place) {
  return (64 + place.size()) * (config.senses() ? 5 : 1);
}

StopConfig stop_of_shuffled(StopConfig config, const DsSync::Config& mine, const Place& place) {
  config.apart = most_apart(mine, place);
  config.reporter_counts = true;
  return config;
}

std::uint32_t workers_in(const Place& place) {
  return std::uint32_t(std::count_if(place.members->begin(), place.members->end(),
                                     [](const Member& one) { return one.is(Role::worker); }));
}

// The workers of each site, by their places in `workers`; sites in the order of their first.
shuffle::Partition sites_of(const std::vector<Rank>& workers, const Place& place) {
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
void adapt_ds_sync(const Settings& settings, SyncTraits& traits) {
  const Setting* correction = settings.find("correction");
  const auto* is_on = correction ? std::get_if<bool>(&correction->value.data) : nullptr;
  traits.exact_means = !is_on || *is_on;
}

// fp32 writes values as they stand.
bool loses(const SyncParts& parts) {
  constexpr std::size_t kSome = 1024;
  return parts.make_codec && parts.make_codec(false)->encoded_size(kSome) < kSome * sizeof(float);
}

// A plan that a loss came into the middle of may have been begun by who is lost: its groups are
// not those that others give the same round.
std::uint64_t of_plan(std::uint32_t plan) { return std::uint64_t(plan % 4) << 24; }

Round swa_from(const DsSync::Config& config, Round max_rounds) {
  if (config.swa_fraction == 0) return ~Round(0);
  return Round(whole_down((1 - config.swa_fraction) * double(max_rounds))) + 1;
}

}  // namespace

// Models differ from worker to worker: a node that comes back begins with the senior worker's.
SyncEntry DsSync::entry() {
  return strategy_entry<DsSync>(
      {.name = "ds_sync",
       .summary = "average models inside small groups, others in every round (DS-Sync)",
       .traits = {.takes_outer = false,
                  .no_feedback = "averages models, whose error must not be added to the next",
                  .takes_unbiased = false,
                  .when_lost = "its group goes on without it, and the groups are made anew of the "
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

Status DsSync::check(const Config& config, const Place& place) {
  const std::uint32_t n = workers_in(place);
  if (config.group_size > 0 && (config.group_size < 2 || config.group_size > n))
    return invalid("[sync] group_size = " + std::to_string(config.group_size) +
                   ": expected 2 to the number of workers, which is " + std::to_string(n) +
                   ", or 0 for round(sqrt(n))");
  return check_min_sites(config.min_sites, place);
}

DsSync::DsSync(const Config& config, SyncParts parts, const Place& place)
    : config_(config),
      place_(place),
      swa_from_(swa_from(config, parts.stop.max_rounds)),
      corrects_(config.correction && loses(parts)),
      stop_config_(stop_of_shuffled(parts.stop, config, place)),
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

void DsSync::on_start(Turn& turn) {
  phase_ = turn.place().comes_back() ? Phase::awaiting_state : Phase::ready;
}

void DsSync::on_view(const View& before, Turn& turn) {
  follow_returned(before, turn);
  if (phase_ == Phase::ended) return;
  const Status enough = enough_sites(config_.min_sites, turn.place(), turn.view());
  if (!enough) fail(enough.error(), turn);
}

// The overlay starts after its parent: the first round begins here.
void DsSync::on_progress(Turn& turn) {
  // Sent twice.
  if (phase_ != Phase::awaiting_state && phase_ != Phase::concluding)
    state_transfer_.drop_received();
  hand_over(turn);
  sense(turn);
  while (advance(turn)) {
  }
  hand_over(turn);
}

// One move of the round, if one can be made now.
bool DsSync::advance(Turn& turn) {
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
    case Phase::unstarted:
    case Phase::computing:
    case Phase::reading_state:
    case Phase::writing_state:
    case Phase::ended:
      return false;
  }
  return false;
}

void DsSync::on_step(const StepResult& step, Turn&) {
  if (phase_ == Phase::reading_state) optimizer_state_ = step.outputs;
}

void DsSync::on_computed(const Computed& computed, Turn& turn) {
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

shuffle::Partition DsSync::groups_of(const std::vector<Rank>& workers, Epoch epoch, Round k,
                                     const shuffle::SlowSites& slow) const {
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
void DsSync::note_cross(Turn& turn) {
  const auto partner = std::exchange(partner_, std::nullopt);
  if (!partner || !turn.view().has(*partner)) return;
  Turn below = within(site_rates_, turn);
  site_rates_.crossed(done_, *partner, turn.now() - given_, below);
}

void DsSync::sense(Turn& turn) {
  const bool trains = phase_ == Phase::ready || phase_ == Phase::computing ||
                      phase_ == Phase::grouping || phase_ == Phase::averaging;
  if (!config_.senses() || !trains || to_settle_ > 0 || !switch_.plan()) return;
  Turn below = within(switch_, turn);
  if (auto slow = site_rates_.change(*switch_.plan(), turn))
    switch_.propose(*std::move(slow), below);
}

// x_i <- sum over j in G of x'_j / |G|
void DsSync::join_group(Turn& turn) {
  const Round k = exchange();
  const auto [epoch, workers] = switch_.workers_of(k);
  const shuffle::ScheduleSwitch::Start& start = switch_.start_of(k);
  const shuffle::Partition groups = groups_of(workers, epoch, k, start.slow);
  const auto me = std::uint32_t(std::lower_bound(workers.begin(), workers.end(), turn.self()) -
                                workers.begin());
  const auto mine = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
    return std::binary_search(group.begin(), group.end(), me);
  });
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

void DsSync::end_exchange(Turn& turn) {
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

void DsSync::end_round(Turn& turn) {
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
  const auto live = live_with(Role::worker, turn.place(), turn.view()).size();
  Turn below = within(stop_, turn);
  stop_.round_done(done_ - 1, turn.params(), std::uint64_t(std::llround(samples_ * double(live))),
                   below);
}

// A schedule that makes all models equal in a few rounds does that first. Which one it is all know,
// whatever view they have reached.
void DsSync::settle(Turn& turn) {
  use_average_over_time(turn);
  const auto n = std::uint32_t(switch_.workers_of(exchange()).second.size());
  to_settle_ = config_.final == "mean" ? schedule_.rounds_to_consensus(n) : 0;
  if (to_settle_ == 0) return conclude(/*compare=*/false, turn);
  phase_ = Phase::grouping;
}

void DsSync::use_average_over_time(Turn& turn) {
  if (std::exchange(swa_count_, 0) == 0) return;
  std::ranges::transform(swa_, parameters(turn).begin(), [](double x) { return float(x); });
}

shuffle::Conclusion::Model DsSync::final_model() const {
  using Model = shuffle::Conclusion::Model;
  return config_.final == "mean" ? Model::mean : Model::senior;
}

// A loss in the last exchanges may have kept the models apart: that is looked at.
void DsSync::conclude(bool compare, Turn& turn) {
  phase_ = Phase::concluding;
  if (turn.place().comes_back())
    return conclusion_.join(final_model(), compare, /*has_model=*/true);
  const Status begun = conclusion_.begin(final_model(), compare, turn, within(*overlay_, turn));
  if (!begun) fail(begun.error(), turn);
}

void DsSync::fail(const Error& error, Turn& turn) {
  phase_ = Phase::ended;
  turn.fail({error.kind, "ds_sync, round " + std::to_string(exchange()) + ", site " +
                             turn.place().me().site + " (rank " + std::to_string(turn.self()) +
                             "): " + error.what});
}

std::string DsSync::waiting_for() const {
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
    case Phase::unstarted:
    case Phase::ready:
    case Phase::computing:
    case Phase::reading_state:
    case Phase::writing_state:
    case Phase::ended:
      return "";
  }
  return "";
}

void DsSync::state(Archive& ar) {
  ar.expect("ds_sync");
  ar(phase_, done_, settled_, to_settle_, samples_, asked_, given_, partner_, mean_, conclusion_);
  ar(optimizer_state_, swa_, swa_count_);
  ar(returned_, was_sent_, asks_final_, asked_final_of_);
}

}  // namespace longhaul::sync
