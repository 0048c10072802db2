#include "longhaul/sync/synchronous.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/relay.h"

namespace longhaul::sync {

Status check_min_sites(std::uint32_t min_sites, const Place& place) {
  std::set<std::string> sites;
  for (const Member& member : *place.members) {
    if (sites.size() >= min_sites) return Ok{};
    if (member.is(Role::worker)) sites.insert(member.site);
  }
  if (min_sites <= sites.size()) return Ok{};
  return invalid("[sync] min_sites = " + std::to_string(min_sites) + ", but the job has " +
                 std::to_string(sites.size()) + " sites with workers: lower it");
}

Status enough_sites(std::uint32_t min_sites, const Place& place, const View& view) {
  std::set<std::string> all, left;
  for (Rank rank = 0; rank < place.size(); ++rank) {
    if (!place.member(rank).is(Role::worker)) continue;
    all.insert(place.member(rank).site);
    if (view.has(rank)) left.insert(place.member(rank).site);
  }
  if (left.size() >= min_sites) return Ok{};
  std::string names;
  for (const std::string& site : all)
    if (!left.contains(site)) names += (names.empty() ? "" : ", ") + site;
  return unavailable(std::to_string(left.size()) + " of " + std::to_string(all.size()) +
                     " sites are left, [sync] min_sites is " + std::to_string(min_sites) +
                     "; lost: " + names + ". Bring them back and resume, or lower min_sites");
}

Synchronous::Synchronous(const SyncEntry& entry, SyncParts parts, std::uint32_t min_sites,
                         std::unique_ptr<Machine> service)
    : name_(entry.name),
      lets_return_(entry.traits.lets_return),
      min_sites_(min_sites),
      parts_(std::move(parts)),
      service_(std::move(service)),
      stop_(parts_.stop) {
  LH_CHECK(parts_.overlay && parts_.outer);
  own(*parts_.overlay, kOverlayChild);
  if (service_) own(*service_, kServiceChild);
  own(stop_, {1, "stop rule"});
  own(state_transfer_, {2, "state transfer"});
}

// The overlay starts after its parent: the first round begins in on_progress.
void Synchronous::on_start(Turn& turn) {
  phase_ = turn.place().comes_back() ? Phase::finding_round : Phase::ready;
}

void Synchronous::on_progress(Turn& turn) {
  if (phase_ < Phase::finding_round) state_transfer_.drop_received();  // sent twice
  for (auto before = Phase::not_started; before != phase_;) {
    while (advance(turn)) {
    }
    before = phase_;
    if (phase_ < Phase::ended) on_idle(turn);  // may contribute, and the mean be there at once
  }
}

// One move of the round, if one can be made now.
bool Synchronous::advance(Turn& turn) {
  switch (phase_) {
    case Phase::ready:
      phase_ = Phase::working;
      if (done_ == 0) begin_run(turn);
      begin_round(turn);
      return phase_ != Phase::working;
    case Phase::averaging:
      return collect(turn);
    case Phase::averaging_again:
      return collect_second(turn);
    case Phase::deciding: {
      // The state that returned nodes need is read at a step boundary.
      if ((preparing_state_ || !needs_state_.empty()) && !has_model(turn)) return false;
      preparing_state_ = false;
      const StopRule::Step step = stop_.after(done_ - 1);
      if (step == StopRule::Step::wait) return false;
      const bool last = step == StopRule::Step::stop || is_over();
      if (last && !close(turn)) return false;
      preparing_state_ =
          !last && !needs_state_.empty() && sends_state(turn) && !ready_to_send_state(turn);
      if (preparing_state_) return false;
      waited(Wait::verdict, turn.now() - over_, turn);
      if (last) turn.finish();
      phase_ = last ? Phase::ended : Phase::ready;
      send_state(last, turn);
      return true;
    }
    case Phase::finding_round:
      return stand_in_for_round(turn);
    case Phase::standing_in:
      return end_stand_in(turn);
    case Phase::awaiting_state:
      return begin_from_state(turn);
    case Phase::not_started:
    case Phase::working:
    case Phase::ended:
      return false;
  }
  return false;
}

void Synchronous::contribute(std::span<const float> values, double weight, const Computed& computed,
                             Turn& turn) {
  contribute({.values = values,
              .buffers = buffers(turn),
              .weight = weight,
              .loss = computed.loss,
              .samples = computed.samples},
             turn);
}

void Synchronous::contribute(const LocalResult& result, Turn& turn) {
  LocalResult mine = result;
  // Phantoms have no losses, and weights have nothing to weigh: they count the samples.
  if (turn.place().phantom) mine.weight = double(result.samples);
  if (!turn.place().phantom) {
    turn.record("train_loss", done_, result.loss);
    turn.record("update_norm", done_, norm_of(result.values));
  }
  if (counts_samples()) turn.record("samples_given", done_, double(result.samples));
  exchange(mine, true, turn);
}

void Synchronous::stand_by(Turn& turn) { exchange({}, /*contributes=*/false, turn); }

// The rounds of one range follow each other without a gap.
VectorId Synchronous::key(std::uint32_t range) const {
  const std::uint32_t parts = range == kParameters ? fragments() : 1;
  if (parts == 1) return {done_, 0, range};
  return {done_ / parts, 0, kFragments + std::uint32_t(done_ % parts)};
}

void Synchronous::exchange(const LocalResult& mine, bool contributes, Turn& turn) {
  LH_CHECK(!contributes || mine.scalars.size() == scalars());
  phase_ = Phase::averaging;
  asked_ = turn.now();
  weight_ = mine.weight;
  mean_.reset();
  extras_.reset();
  Turn below = within(*parts_.overlay, turn);
  Status status =
      parts_.overlay->begin(key(kParameters), {},
                            {.values = mine.values,
                             .length = exchanged(turn),
                             .weight = mine.weight,
                             .contributes = contributes,
                             .loss = contributes ? std::optional(mine.loss) : std::nullopt,
                             .knows_round = true},
                            below);
  if (status && extras(turn) > 0) {
    std::vector<float> exact;
    if (contributes && !turn.place().phantom) {
      exact.assign(mine.buffers.begin(), mine.buffers.end());
      exact.insert(exact.end(), mine.scalars.begin(), mine.scalars.end());
      // Its weighted mean times the sum of the weights is the number of samples of all.
      if (extras(turn) > exact.size()) exact.push_back(float(double(mine.samples) / mine.weight));
    }
    status = parts_.overlay->begin(key(kExtras), {},
                                   {.values = exact,
                                    .length = extras(turn),
                                    .weight = mine.weight,
                                    .contributes = contributes,
                                    .exact = true,
                                    .knows_round = true},
                                   below);
  }
  if (!status) fail(status.error(), turn);
}

std::uint64_t Synchronous::extras(const Turn& turn) const {
  return turn.place().layout->buffers().length + scalars() + (parts_.stop.max_samples > 0 ? 1 : 0);
}

bool Synchronous::collect(Turn& turn) {
  if (!mean_) mean_ = parts_.overlay->poll(key(kParameters));
  if (extras(turn) > 0 && !extras_) extras_ = parts_.overlay->poll(key(kExtras));
  if (!mean_ || (extras(turn) > 0 && !extras_)) return false;
  if (!takes_mean(turn)) return false;
  phase_ = Phase::working;
  note_who_needs_state();
  waited(Wait::exchange, turn.now() - asked_, turn);
  note_left_out(turn);
  const bool refused = !mean_->counted.empty() && mean_->counted.size() < quorum();
  counted_ = refused ? RankList{} : mean_->counted;
  counted_in_ = done_;
  if (counted_.has(turn.self())) turn.record("samples_used", done_, double(turn.self()));
  record_counted(turn);
  if (mean_->gave > Time{0}) gave_ = mean_->gave;
  mean_came(turn);
  if (extras_ && !extras_->counted.empty() && !refused) take_extras(*extras_, turn);
  // Every contributor was lost or late: an empty round, which leaves the model as it was.
  if (mean_->counted.empty() || refused) {
    use_nothing(turn);
  } else {
    use_mean(mean_->values, turn);
  }
  mean_.reset();
  extras_.reset();
  return phase_ != Phase::working;
}

// The samples of a lost node are used if a mean has counted it, and it may not have come to say so.
void Synchronous::record_counted(Turn& turn) {
  if (turn.view().live.shares(turn.place().members.all())) return;  // nobody is lost
  std::vector<Rank> left;
  for (const Rank rank : counted_) {
    if (turn.view().has(rank))
      left.push_back(rank);
    else
      turn.record("samples_used", counted_in_, double(rank));
  }
  counted_ = std::move(left);
}

// Live workers that the mean was formed without.
void Synchronous::note_left_out(Turn& turn) {
  const std::size_t live = live_with(Role::worker, turn.place(), turn.view()).size();
  const std::size_t counted = mean_->counted.size();
  if (counted < live) turn.record("left_out", done_, double(live - counted) / double(live));
}

void Synchronous::contribute_second(std::span<const float> values, Turn& turn) {
  phase_ = Phase::averaging_again;
  asked_ = turn.now();
  Turn below = within(*parts_.overlay, turn);
  const Status status = parts_.overlay->begin(
      {done_, 0, kSecond}, {},
      {.values = values, .length = exchanged_second(), .weight = weight_, .knows_round = true},
      below);
  if (!status) fail(status.error(), turn);
}

// It counts this node at least.
bool Synchronous::collect_second(Turn& turn) {
  auto mean = parts_.overlay->poll({done_, 0, kSecond});
  if (!mean) return false;
  LH_CHECK(!mean->counted.empty());
  phase_ = Phase::working;
  waited(Wait::exchange, turn.now() - asked_, turn);
  use_second_mean(mean->values, turn);
  return phase_ != Phase::working;
}

void Synchronous::take_extras(const Outcome& outcome, Turn& turn) {
  scalars_.resize(scalars());
  if (turn.place().phantom) {
    samples_ += std::uint64_t(outcome.weight);
    return;
  }
  const Range buffers = turn.place().layout->buffers();
  const auto rest = outcome.values.begin() + std::ptrdiff_t(buffers.length);
  std::copy(outcome.values.begin(), rest, model(turn).begin() + std::ptrdiff_t(buffers.offset));
  std::copy_n(rest, scalars(), scalars_.begin());
  if (parts_.stop.max_samples > 0)
    samples_ += std::uint64_t(std::llround(double(outcome.values.back()) * outcome.weight));
}

std::span<const float> Synchronous::mean_scalars() const {
  LH_CHECK(scalars_.size() == scalars());
  return scalars_;
}

void Synchronous::waited(Wait what, Time took, Turn& turn) {
  if (what == Wait::exchange) turn.record("wait_s", done_, seconds(took));
  if (what == Wait::verdict && took > Time{0})
    turn.record("verdict_wait_s", done_ - 1, seconds(took));
}

void Synchronous::end_round(std::span<const float> model, Turn& turn) {
  phase_ = Phase::deciding;
  over_ = turn.now();
  ++done_;
  Turn below = within(stop_, turn);
  stop_.round_done(done_ - 1, model, samples_, below);
}

void Synchronous::on_view(const View&, Turn& turn) {
  record_counted(turn);
  follow_returned(turn);
  if (phase_ == Phase::ended) return;
  const Status sites = enough_sites(min_sites_, turn.place(), turn.view());
  if (!sites) return fail(sites.error(), turn);
  const std::size_t live = live_with(Role::worker, turn.place(), turn.view()).size();
  if (live < quorum())
    fail(unavailable(std::to_string(live) + " workers are left, [sync] min_clients is " +
                     std::to_string(quorum()) + ". Bring lost sites back and resume, or lower it"),
         turn);
}

void Synchronous::fail(const Error& error, Turn& turn) {
  phase_ = Phase::ended;
  turn.fail({error.kind, name_ + ", round " + std::to_string(done_) + ", site " +
                             turn.place().me().site + " (rank " + std::to_string(turn.self()) +
                             "): " + error.what});
}

std::string Synchronous::waiting_for() const {
  if (phase_ == Phase::averaging || phase_ == Phase::averaging_again)
    return parts_.overlay->waiting_for();
  if (phase_ == Phase::deciding) return stop_.waiting_for();
  if (phase_ == Phase::finding_round || phase_ == Phase::standing_in)
    return "the round that runs, to come back to it; " + parts_.overlay->waiting_for();
  if (phase_ == Phase::awaiting_state) return "the model of round " + std::to_string(done_);
  return "";
}

void Synchronous::state(Archive& ar) {
  ar.expect(name_);
  ar(phase_, done_, samples_, asked_, mean_, extras_);
  ar(returned_, needs_state_, state_sender_, stands_in_all_ranges_);
  ar(scalars_, over_, weight_, gave_, counted_, counted_in_, preparing_state_);
  parts_.outer->state(ar);
}

}  // namespace longhaul::sync
