// Sfb, of workers that have come back: what they are given, and where they begin.
//
// All workers of a view settle alike which clock one that is outside enters with (sfb/recovery.h).
// With staleness 0 it is given the senior worker's state when that has come to this clock, so that
// all begin it with one model; the means of the rest that are formed meanwhile it stands in for.
// With staleness it is given the state as it stands, and what is not in it by everybody.
//
// The state may hold gradients of a lost worker that only its sender had, who may be lost next.
// So until all have shown that they have them, too (proof_), a new view makes a worker that has
// come back give up what it has and begin again outside. What it has sent counts as that of a lost
// one.
#include <algorithm>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/sfb.h"

namespace longhaul::sync {

// Who has sent clock c has all clocks before c - s: so do all who were here in the view before.
bool Sfb::is_proven(const std::map<Rank, Epoch>& before, Turn& turn) const {
  if (phase_ == Phase::outside) return false;
  // Copies may differ. But the overlay forgets at a new view what one that has come back has begun,
  // until it has had a mean: the others may have this one, and if none of them has been here from
  // the start, nobody may know which is next.
  if (is_partial()) {
    const bool has_founder =
        std::ranges::any_of(live_, [&](Rank rank) { return turn.view().since(rank) == 0; });
    return has_mixed_ || (has_founder && phase_ != Phase::mixing);
  }
  if (phase_ == Phase::averaging || phase_ == Phase::ended || phase_ == Phase::failed) return true;
  const View& view = turn.view();
  if (!has_factors() || senior_worker(turn.place(), view) == turn.self()) return true;
  return std::ranges::all_of(live_, [&](Rank rank) {
    const auto it = before.find(rank);
    const bool is_new = view.since(rank) != (it == before.end() ? Epoch{0} : it->second);
    return is_new || rank == turn.self() || store_.done(rank) >= proof_;
  });
}

void Sfb::leave_run() {
  if (knows_model()) {  // the others may get as far ahead as of one that knows nothing
    Archive nothing;
    StopRule(StopConfig{}).hand_over(nothing);
    const Buffer bytes = nothing.take();
    Archive ar(bytes);
    stop_.hand_over(ar);
    LH_CHECK(ar.finish());
  }
  phase_ = Phase::outside;
  has_mixed_ = false;
  store_.clear();
  applied_.clear();
  hashes_.clear();
  means_.clear();
  extras_.reset();
}

// --- at the others

// Is somebody to begin this clock with this worker's model as it stands?
bool Sfb::gives_state(Turn& turn) const {
  if (is_eager() || !is_settled_ || phase_ != Phase::deciding) return false;
  return senior_worker(turn.place(), turn.view()) == turn.self() &&
         std::ranges::any_of(owed_, [&](const auto& one) { return one.second == clock_; });
}

void Sfb::hand_over(Turn& turn) {
  const bool is_last = phase_ == Phase::ended;
  if (is_last && copies_differ()) {
    Turn below = within(final_return_, turn);
    final_return_.serve(below);
  }
  const bool is_still = phase_ == Phase::ready || phase_ == Phase::deciding ||
                        phase_ == Phase::flushing || phase_ == Phase::averaging || is_last;
  if (owed_.empty() || !is_settled_ || !is_still || turn.learner_is_busy() ||
      senior_worker(turn.place(), turn.view()) != turn.self())
    return;
  const bool is_over = phase_ == Phase::flushing || phase_ == Phase::averaging;
  const bool at_entry = !is_eager() && !is_last && !is_over;
  if (at_entry && (!gives_state(turn) || !optimizer_.ready(turn))) return;
  // Others repeat to the newcomer what this worker did not have when it reported.
  if (is_eager() && !is_last && phase_ != Phase::averaging) apply_arrived(turn);
  Handed handed{
      .epoch = epoch_, .clock = clock_, .samples = samples_, .is_over = is_over, .done = {}};
  for (Rank rank = 0; rank < place_.size(); ++rank)
    if (place_.member(rank).is(Role::worker))
      handed.done[rank] = is_eager()     ? applied_[rank]
                          : is_partial() ? clock_
                                         : std::min(clock_, store_.done(rank));
  Archive ar;
  archive_for_returned(ar, handed, turn);
  const Bytes bytes = share(ar.take());
  Turn below = within(state_transfer_, turn);
  std::erase_if(owed_, [&](const auto& one) {
    if (at_entry && one.second != clock_) return false;
    state_transfer_.send(one.first, {clock_, is_last, bytes}, below);
    return true;
  });
  optimizer_.forget();
}

void Sfb::archive_for_returned(Archive& ar, Handed& handed, Turn& turn) {
  ar.expect("sfb");
  ar(handed, optimizer_);
  outer_->state(ar);
  stop_.hand_over(ar);
  ar.floats(turn.params());
}

// --- at the worker that has come back

bool Sfb::come_in(Turn& turn) {
  if (!is_settled_ || turn.learner_is_busy()) return false;
  const bool is_at_entry = is_eager() || stand_in(turn);
  const StateTransfer::TransferredState* received = state_transfer_.received();
  if (phase_ == Phase::failed || !received) return false;
  return take_state(is_at_entry || received->last, turn);
}

// In each mean of the rest, and of the buffers, before the clock that this worker enters with.
// True: that one is next in all.
bool Sfb::stand_in(Turn& turn) {
  Overlay& overlay = final_.overlay();
  bool is_at_entry = true;
  for (const auto& [range, length] : mean_lengths()) {
    const bool is_of_models = is_partial() && range == kBuffersRange;
    const Round entry = store_.entry(turn.self()) / (is_of_models ? config_.mean_every : 1);
    if (const auto it = stands_.find(range); it != stands_.end())
      (void)overlay.poll({it->second, 0, range});  // of no use without the model that it changes
    const auto next = overlay.next_round(0, range);
    is_at_entry &= next && *next >= entry;
    if (!next || *next >= entry) continue;
    const auto stands = stands_.find(range);
    if (stands != stands_.end() && stands->second == *next) continue;
    stands_[range] = *next;
    Turn below = within(overlay, turn);
    const Status begun = overlay.begin(
        {*next, 0, range}, {},
        {.values = {}, .length = length, .contributes = false, .exact = range == kBuffersRange},
        below);
    if (!begun) fail(begun.error(), turn);
  }
  return is_at_entry;
}

// If it may: one that waits for its entry takes a state of the run's end alone.
bool Sfb::take_state(bool is_at_entry, Turn& turn) {
  const StateTransfer::TransferredState received = *state_transfer_.received();
  Handed handed;
  Archive head(*received.bytes);
  head.expect("sfb");
  head(handed);
  const bool is_of_view = head.failed() || handed.epoch == epoch_;
  if (is_of_view && !head.failed() && !is_at_entry && !handed.is_over) return false;
  state_transfer_.drop_received();
  if (!is_of_view) return false;  // the sender sends another
  Archive ar(*received.bytes);
  archive_for_returned(ar, handed, turn);
  Status read = ar.finish();
  const Round entry = store_.entry(turn.self());
  const auto is_far = [&](const auto& one) { return one.second > furthest() + 1; };
  if (read && (handed.clock != received.round || !outer_->fits(parameter_count(turn.place()))))
    read = malformed("it is of a model of another size");
  if (read && !received.last &&
      (handed.clock > entry || (!is_eager() && !handed.is_over && handed.clock != entry) ||
       std::ranges::any_of(handed.done, is_far)))
    read = malformed("it is of clock " + std::to_string(handed.clock) + "; expected " +
                     std::to_string(entry));
  if (!read) {
    fail(malformed("the state that was received is none of this job: " + read.error().what), turn);
    return false;
  }
  clock_ = handed.clock;
  samples_ = handed.samples;
  Turn below = within(state_transfer_, turn);
  state_transfer_.confirm(below);
  if (received.last) {
    phase_ = Phase::ended;
    turn.finish();
    return false;
  }
  begin_from(handed, turn);
  return true;
}

void Sfb::begin_from(const Handed& handed, Turn& turn) {
  Round newest = clock_;
  for (const auto& [rank, done] : handed.done) {
    store_.begin_at(rank, done);
    newest = std::max(newest, done);
  }
  proof_ = newest + config_.staleness + 1;
  asked_ = turn.now();
  if (is_eager() || handed.is_over) {
    applied_ = handed.done;
    phase_ = handed.is_over ? Phase::flushing : Phase::entering;
    return;
  }
  phase_ = Phase::restoring;
  optimizer_.on_returned();
  if (!optimizer_.set(turn)) phase_ = Phase::deciding;
}

// With staleness the others may have come further than the sender of the state, and the run may end
// before this worker's first clock. Clocks that it has missed are done with the model as it stands.
bool Sfb::enter_run(Turn& turn) {
  Turn below = within(stop_, turn);
  while (clock_ < store_.entry(turn.self())) {
    const StopRule::Step step = clock_ == 0 ? StopRule::Step::go_on : stop_.after(clock_ - 1);
    if (step == StopRule::Step::wait) return false;
    if (step == StopRule::Step::stop) {
      phase_ = Phase::flushing;
      return true;
    }
    ++clock_;
    stop_.round_done(clock_ - 1, turn.params(), samples_, below);
  }
  phase_ = Phase::deciding;
  return true;
}

Result<bool> Sfb::take_final(Turn& turn) {
  if (!place_.comes_back()) return final_.take(turn);
  Turn below = within(final_return_, turn);
  return final_return_.follow(/*gives=*/true, below, within(final_.overlay(), turn));
}

}  // namespace longhaul::sync
