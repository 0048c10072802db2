#include "longhaul/sync/synchronous.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "longhaul/core/sample_count.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/relay.h"

namespace longhaul::sync {

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
  if (phase_ < Phase::finding_round && !follower_.catches_up)
    state_transfer_.drop_received();  // a duplicate
  if (phase_ == Phase::ended) send_state(/*last=*/true, turn);
  for (auto before = Phase::not_started; before != phase_;) {
    while (advance(turn)) {
    }
    before = phase_;
    // A contribution is possible, and the mean can arrive at once.
    if (phase_ < Phase::ended && !follower_.catches_up) on_idle(turn);
  }
}

// Makes one transition of the round if possible. Returns true if another can follow at once.
bool Synchronous::advance(Turn& turn) {
  if (follower_.finds_round_anew) return find_round_anew(turn);
  switch (phase_) {
    case Phase::ready:
      if (!learner_is_set(turn)) return false;
      if (follower_.catches_up) return catch_up(turn);
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
          !last && !needs_state_.empty() && is_senior(turn) && !ready_to_send_state(turn);
      if (preparing_state_) return false;
      waited(Wait::verdict, turn.now() - over_, turn);
      if (last) turn.finish();
      if (last && follower_.catches_up) confirm_state(turn);
      phase_ = last ? Phase::ended : Phase::ready;
      send_state(last, turn);
      return true;
    }
    case Phase::finding_round:
      return begin_from_state(turn) || (phase_ == Phase::finding_round && stand_in_for_round(turn));
    case Phase::standing_in:
      return begin_from_state(turn) || (phase_ == Phase::standing_in && end_stand_in(turn));
    case Phase::awaiting_state:
      return begin_from_state(turn);
    default:
      return false;
  }
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
  // A phantom has no loss and no values to weigh. Its weight counts the samples.
  if (turn.place().phantom) mine.weight = double(result.samples);
  if (!turn.place().phantom) {
    turn.record("train_loss", done_, result.loss);
    turn.record("update_norm", done_, norm_of(result.values));
  }
  if (counts_samples()) turn.record("samples_given", done_, double(result.samples));
  exchange(mine, true, turn);
}

void Synchronous::stand_by(Turn& turn) { exchange({}, /*contributes=*/false, turn); }

// Returns the key of this round's exchange for `range`. Keys of one range follow each other without
// a gap.
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
      // The weighted mean of this times the sum of the weights is the number of samples of all
      // workers.
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
  if (!mean_) mean_ = poll(kParameters);
  if (extras(turn) > 0 && !extras_) extras_ = poll(kExtras);
  if (!mean_ || (extras(turn) > 0 && !extras_)) return false;
  if (!follower_.catches_up && !takes_mean(turn)) return false;
  phase_ = Phase::working;
  note_who_needs_state(turn);
  if (!follower_.catches_up) waited(Wait::exchange, turn.now() - asked_, turn);
  note_left_out(turn);
  const bool refused = !mean_->counted.empty() && mean_->counted.size() < quorum();
  counted_ = refused ? RankList{} : mean_->counted;
  counted_in_ = done_;
  if (counted_.has(turn.self())) turn.record("samples_used", done_, double(turn.self()));
  record_counted(turn);
  if (mean_->gave > Time{0}) gave_ = mean_->gave;
  mean_came(turn);
  if (extras_ && !extras_->counted.empty() && !refused) take_extras(*extras_, turn);
  // Every contributor was lost or late, or there are too few: the round leaves the model unchanged.
  if (mean_->counted.empty() || refused) {
    use_nothing(turn);
  } else {
    use_mean(mean_->values, turn);
  }
  mean_.reset();
  extras_.reset();
  return phase_ != Phase::working;
}

// Records the samples of lost nodes that a mean has counted. The lost node may not have recorded
// them.
void Synchronous::record_counted(Turn& turn) {
  if (turn.view().live.shares(turn.place().members.all())) return;  // no node is lost
  std::vector<Rank> left;
  for (const Rank rank : counted_) {
    if (turn.view().has(rank))
      left.push_back(rank);
    else
      turn.record("samples_used", counted_in_, double(rank));
  }
  counted_ = std::move(left);
}

// Records the share of live workers that are not in the mean.
void Synchronous::note_left_out(Turn& turn) {
  const std::size_t live = live_workers(turn).size();
  const std::size_t counted = mean_->counted.size();
  if (counted < live) turn.record("left_out", done_, double(live - counted) / double(live));
}

void Synchronous::contribute_second(std::span<const float> values, Turn& turn) {
  phase_ = Phase::averaging_again;
  asked_ = turn.now();
  if (follower_.catches_up) return;  // it takes part already
  const Status status = parts_.overlay->begin(
      {done_, 0, kSecond}, {},
      {.values = values, .length = exchanged_second(), .weight = weight_, .knows_round = true},
      within(*parts_.overlay, turn));
  if (!status) fail(status.error(), turn);
}

// Takes the second mean, which counts at least this node, or those that it caught up with.
bool Synchronous::collect_second(Turn& turn) {
  auto mean = poll(kSecond);
  if (!mean) return false;
  LH_CHECK(!mean->counted.empty());
  phase_ = Phase::working;
  if (!follower_.catches_up) waited(Wait::exchange, turn.now() - asked_, turn);
  use_second_mean(mean->values, turn);
  return phase_ != Phase::working;
}

void Synchronous::take_extras(const Outcome& outcome, Turn& turn) {
  scalars_.resize(scalars());
  if (turn.place().phantom) {
    samples_ = plus_samples(samples_, std::floor(outcome.weight));
    return;
  }
  const Range buffers = turn.place().layout->buffers();
  const auto rest = outcome.values.begin() + std::ptrdiff_t(buffers.length);
  std::copy(outcome.values.begin(), rest, model(turn).begin() + std::ptrdiff_t(buffers.offset));
  std::copy_n(rest, scalars(), scalars_.begin());
  if (parts_.stop.max_samples > 0)
    samples_ = plus_samples(samples_, double(outcome.values.back()) * outcome.weight);
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
  over_ = turn.now();
  ++done_;
  if (follower_.catches_up && follower_.next_is_here()) {  // the others have decided on this round
    phase_ = Phase::ready;
    return;
  }
  phase_ = Phase::deciding;
  stop_.round_done(done_ - 1, model, samples_, within(stop_, turn));
}

void Synchronous::on_view(const View& before, Turn& turn) {
  record_counted(turn);
  follow_returned(before, turn);
  if (phase_ == Phase::ended) return;
  const Status sites = enough_sites(min_sites_, turn.place(), turn.view());
  if (!sites) return fail(sites.error(), turn);
  const std::size_t live = live_workers(turn).size();
  if (live < quorum())
    fail(unavailable(std::to_string(live) + " workers are left, [sync] min_clients is " +
                     std::to_string(quorum()) + ". Bring lost sites back and resume, or lower it"),
         turn);
}

void Synchronous::fail(const Error& error, Turn& turn) {
  phase_ = Phase::ended;
  returned_.clear();
  follower_ = {};
  const std::string name = name_ + ", round " + std::to_string(done_);
  turn.fail({error.kind, who(name, turn.place()) + error.what});
}

std::string Synchronous::waiting_for() const {
  if (phase_ == Phase::averaging || phase_ == Phase::averaging_again)
    return parts_.overlay->waiting_for();
  if (phase_ == Phase::deciding) return stop_.waiting_for();
  if (phase_ < Phase::finding_round) return "";
  return state_transfer_.waiting_for(phase_ == Phase::awaiting_state
                                         ? "the model of the senior worker"
                                         : "the current round, to take part in it; " +
                                               parts_.overlay->waiting_for());
}

void Synchronous::state(Archive& ar) {
  ar.expect(name_);
  ar(phase_, done_, samples_, asked_, mean_, extras_);
  ar(returned_, needs_state_, follower_);
  ar(scalars_, over_, weight_, gave_, counted_, counted_in_, preparing_state_);
  parts_.outer->state(ar);
}

// --- a returned node

// Returns the length of a round's exchange of this range; 0 if there is none.
std::uint64_t Synchronous::length_of(std::uint32_t range, const Turn& turn) const {
  if (range == kParameters) return exchanged(turn);
  return range == kExtras ? extras(turn) : exchanged_second();
}

// Returns the next round of the members with an exchange of this range; null if not known yet.
std::optional<Round> Synchronous::next_round(std::uint32_t range) const {
  const std::uint32_t parts = range == kParameters ? fragments() : 1;
  if (parts == 1) return parts_.overlay->next_round(0, range);
  std::optional<Round> first;
  for (std::uint32_t part = 0; part < parts; ++part) {
    const auto turn_of_part = parts_.overlay->next_round(0, kFragments + part);
    if (!turn_of_part) return std::nullopt;
    const Round round = *turn_of_part * parts + part;
    first = std::min(round, first.value_or(round));
  }
  return first;
}

// Returns the mean of this round, once.
std::optional<Outcome> Synchronous::poll(std::uint32_t range) {
  if (auto kept = follower_.take(range)) return kept;
  return parts_.overlay->poll(key(range));
}

bool Synchronous::find_round_anew(Turn& turn) {
  if (turn.learner_is_busy()) return false;
  const Follower before = std::exchange(follower_, {});
  follower_.wants_state = before.catches_up || before.wants_state;
  stop_.forget_round();
  phase_ = Phase::finding_round;
  return true;
}

// Takes part in the current round without a contribution.
bool Synchronous::stand_in_for_round(Turn& turn) {
  std::map<std::uint32_t, Round> next;
  for (const std::uint32_t range : {kParameters, kExtras, kSecond}) {
    if (length_of(range, turn) == 0) continue;
    const auto round = next_round(range);
    if (!round) return false;
    next[range] = *round;
  }
  done_ = follower_.begin(next, done_);
  if (std::exchange(follower_.wants_state, false))
    state_transfer_.ask_for(done_ + 1, within(state_transfer_, turn));
  phase_ = Phase::standing_in;
  for (const auto& [range, round] : next) {
    if (round != done_) continue;
    const Contribution none{.values = {},
                            .length = length_of(range, turn),
                            .contributes = false,
                            .exact = range == kExtras};
    const Status begun = parts_.overlay->begin(key(range), {}, none, within(*parts_.overlay, turn));
    if (!begun) fail(begun.error(), turn);
  }
  return true;
}

// Keeps the means until a model has arrived that they change.
bool Synchronous::end_stand_in(Turn& turn) {
  std::size_t ranges = 0;
  bool is_over = true;
  for (const std::uint32_t range : {kParameters, kExtras, kSecond}) {
    if (length_of(range, turn) == 0) continue;
    ++ranges;
    if (auto mean = parts_.overlay->poll(key(range))) follower_.means[range] = *std::move(mean);
    is_over &= next_round(range).value_or(0) > done_;
  }
  if (!is_over) return false;
  ++done_;
  // Rounds below the quorum would follow each other without a pause.
  const auto mean = follower_.means.find(kParameters);
  const bool is_refused =
      quorum() > 1 && mean != follower_.means.end() && mean->second.counted.size() < quorum();
  follower_.end(ranges, fragments());
  const bool is_full = follower_.is_full(turn.place());
  const bool waits = (is_refused || is_full) && state_transfer_.is_receiving();
  if (is_full && !waits) follower_.drop_missed();
  phase_ = waits ? Phase::awaiting_state : Phase::finding_round;
  return true;
}

// Begins with the state that has arrived, if this node has the means of all rounds since then.
// Returns true if it has read the state.
bool Synchronous::begin_from_state(Turn& turn) {
  const StateTransfer::TransferredState* received = state_transfer_.received();
  const bool is_in_part = phase_ == Phase::standing_in && !follower_.stands_in_all_ranges;
  if (!received || !follower_.has_found_round || is_in_part || received->round > done_)
    return false;
  const Round runs = done_;
  if (!follower_.can_begin(received->round, runs)) {
    state_transfer_.ask_for(runs, within(state_transfer_, turn));
    if (phase_ == Phase::awaiting_state) phase_ = Phase::finding_round;
    return false;
  }
  const std::map<Rank, Epoch> here = std::exchange(returned_, {});
  Follower follower = std::exchange(follower_, {});
  follower.joins = phase_ == Phase::standing_in ? runs + 1 : runs;
  const Status read = state_transfer_.read(
      [&](Archive& ar) { archive_state(ar, turn); },
      [&](const auto& state) -> Status {
        if (done_ != state.round || phase_ != (state.last ? Phase::ended : Phase::ready))
          return malformed("it is not of the beginning of a round");
        if (!fits(parameter_count(turn.place())))
          return malformed("it is of a model of another size");
        return Ok{};
      });
  // This node knows what has changed since the state was written.
  for (const auto& [rank, epoch] : here) returned_[rank] = epoch;
  std::erase_if(returned_, [&](const auto& one) { return !turn.view().has(one.first); });
  follower_ = std::move(follower);
  if (!read) return fail(read.error(), turn), false;
  follower_.catches_up = phase_ == Phase::ready;
  if (follower_.catches_up) {
    stop_.skip_to(runs);
    on_returned(turn);
    return true;
  }
  state_transfer_.confirm(within(state_transfer_, turn));
  turn.finish();
  return true;
}

void Synchronous::confirm_state(Turn& turn) {
  follower_ = {};
  state_transfer_.confirm(within(state_transfer_, turn));
}

// Uses the mean of a round that this node took part in without contributing. Its model is that of
// the others after the last of them.
bool Synchronous::catch_up(Turn& turn) {
  if (done_ == follower_.joins) {
    confirm_state(turn);
    return true;
  }
  phase_ = Phase::averaging;
  asked_ = turn.now();
  mean_.reset();
  extras_.reset();
  return true;
}

// --- the other nodes

void Synchronous::follow_returned(const View& before, Turn& turn) {
  const View& view = turn.view();
  std::erase_if(returned_, [&](const auto& entry) { return !view.has(entry.first); });
  std::erase_if(needs_state_, [&](Rank rank) { return !view.has(rank); });
  for (const auto& [rank, epoch] : view.returned)
    if (epoch == view.epoch && rank != turn.self() && turn.place().member(rank).is(Role::worker))
      returned_[rank] = epoch;
  const bool knows = phase_ < Phase::finding_round && !follower_.catches_up;
  if (knows && phase_ == Phase::ended) return send_state(/*last=*/true, turn);
  if (knows) return;
  if (is_senior(turn))
    return fail(state_lost("all sites that knew the model are lost; resume from a checkpoint"),
                turn);
  follower_.on_view(before, turn);
}

// Called when the mean has arrived. Collects the returned nodes that took part without a
// contribution: the senior worker sends them the state that the next round begins with, once.
void Synchronous::note_who_needs_state(const Turn& turn) {
  const Epoch formed = std::max(mean_->epoch, extras_ ? extras_->epoch : 0);
  for (auto it = returned_.begin(); it != returned_.end();) {
    const auto [rank, since] = *it;
    // A contribution from before its loss does not count.
    const bool counted = mean_->epoch >= since && std::ranges::binary_search(mean_->counted, rank);
    const bool knows = counted || state_transfer_.has_state(rank);
    if (!knows && formed >= since && is_senior(turn) && !state_transfer_.sends_to(rank))
      needs_state_.insert(rank);
    it = knows ? returned_.erase(it) : std::next(it);
  }
}

void Synchronous::send_state(bool last, Turn& turn) {
  if (last)
    for (const auto& [rank, epoch] : returned_)
      if (!state_transfer_.sends_to(rank) && !state_transfer_.has_state(rank))
        needs_state_.insert(rank);
  const std::set<Rank> owed = std::exchange(needs_state_, {});
  if (owed.empty() || !is_senior(turn)) return;
  state_transfer_.send(
      owed, done_, last, [&](Archive& ar) { archive_state(ar, turn); },
      within(state_transfer_, turn), /*beside_rounds=*/!last);
}

void Synchronous::archive_state(Archive& ar, Turn& turn) {
  state(ar);
  stop_.hand_over(ar);
  ar.floats(ar.loading() ? turn.params() : model(turn));
}

}  // namespace longhaul::sync
