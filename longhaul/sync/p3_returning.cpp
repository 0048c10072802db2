// P3, of workers that have come back: what they do until they have a model, and what the others do
// for them. As in returning.cpp, with a range for each part.
#include <algorithm>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/p3.h"

namespace longhaul::sync {

// --- at the others

void P3::on_view(const View&, Turn& turn) {
  const View& view = turn.view();
  std::erase_if(returned_, [&](const auto& one) { return !view.has(one.first); });
  std::erase_if(needs_state_, [&](Rank rank) { return !view.has(rank); });
  for (const auto& [rank, epoch] : view.returned)
    if (epoch == view.epoch && rank != turn.self() && turn.place().member(rank).is(Role::worker))
      returned_[rank] = epoch;
  if (phase_ == Phase::ended) return send_state(/*last=*/true, turn);
  if (knows_model() || phase_ == Phase::setting_optimizer) return;
  const Rank senior = senior_worker(turn.place(), view);
  if (senior == turn.self())
    return fail(state_lost("all sites that knew the model are lost; resume from a checkpoint"),
                turn);
  // If the sender of the state is lost, the next senior sends its own after the round that runs.
  if (phase_ == Phase::standing_in || senior != state_sender_) phase_ = Phase::finding_round;
  state_sender_ = senior;
}

// A contribution from before it was lost says nothing.
void P3::note_returned(const Outcome& mean, Turn&) {
  formed_ = part_ == 0 ? mean.epoch : std::max(formed_, mean.epoch);
  std::erase_if(returned_, [&](const auto& one) {
    return mean.epoch >= one.second && std::ranges::binary_search(mean.counted, one.first);
  });
}

// A worker that has stood in for a part of the round waits for the state that the next begins with.
void P3::note_who_needs_state() {
  std::erase_if(returned_, [&](const auto& one) { return state_transfer_.has_state(one.first); });
  for (const auto& [rank, since] : returned_)
    if (formed_ >= since) needs_state_.insert(rank);
}

void P3::send_state(bool last, Turn& turn) {
  if (last)
    for (const auto& [rank, epoch] : returned_) needs_state_.insert(rank);
  const std::set<Rank> to = std::exchange(needs_state_, {});
  if (to.empty() || senior_worker(turn.place(), turn.view()) != turn.self()) return;
  Archive ar;
  archive_for_returned(ar, turn);
  const Bytes bytes = longhaul::share(ar.take());
  Turn below = within(state_transfer_, turn);
  for (const Rank rank : to) state_transfer_.send(rank, {done_, last, bytes}, below);
}

void P3::archive_for_returned(Archive& ar, Turn& turn) {
  ar.expect("p3");
  ar(done_, samples_, optimizer_);
  stop_.hand_over(ar);
  ar.floats(turn.params());
}

// --- at the worker that has come back

std::map<std::uint32_t, std::uint64_t> P3::lengths() const {
  std::map<std::uint32_t, std::uint64_t> all;
  for (std::size_t p = 0; p < parts_.size(); ++p) all[range(p)] = parts_[p].values.length;
  if (place_.layout->buffers().length > 0) all[buffers_range()] = place_.layout->buffers().length;
  return all;
}

// In the older of the two rounds that run: of some parts its mean may have been formed before.
bool P3::stand_in(Turn& turn) {
  std::optional<Round> first;
  const auto all = lengths();
  for (const auto& [range, length] : all) {
    const auto next = overlay_->next_round(0, range);
    if (!next) return false;
    first = std::min(*next, first.value_or(*next));
  }
  done_ = first.value();
  phase_ = Phase::standing_in;
  stands_in_all_ = true;
  Turn below = within(*overlay_, turn);
  for (const auto& [range, length] : all) {
    const bool runs = overlay_->next_round(0, range) == done_;
    stands_in_all_ &= runs;
    if (!runs) continue;
    const Status begun = overlay_->begin(
        {done_, 0, range}, {},
        {.values = {}, .length = length, .contributes = false, .exact = range == buffers_range()},
        below);
    if (!begun) fail(begun.error(), turn);
  }
  return phase_ == Phase::standing_in;
}

// A mean is of no use to a worker without the model that it changes.
bool P3::end_stand_in(Turn& turn) {
  // No mean comes any more if the others have ended.
  if (state_transfer_.received() && state_transfer_.received()->last) return begin_from_state(turn);
  for (const auto& [range, length] : lengths()) {
    (void)overlay_->poll({done_, 0, range});
    if (overlay_->next_round(0, range).value_or(0) <= done_) return false;
  }
  ++done_;
  // Until the overlay has had a mean of every part here, a new view makes it forget what it is
  // given of that part: then stand in once more.
  phase_ = stands_in_all_ ? Phase::awaiting_state : Phase::finding_round;
  return true;
}

bool P3::begin_from_state(Turn& turn) {
  const StateTransfer::TransferredState* received = state_transfer_.received();
  if (!received || (received->round != done_ && !received->last)) return false;
  const bool is_last = received->last;
  const Round round = received->round;
  Archive ar(*received->bytes);
  archive_for_returned(ar, turn);
  Status read = ar.finish();
  if (read && done_ != round) read = malformed("it is not of the beginning of a round");
  state_transfer_.drop_received();
  if (!read) {
    fail(malformed("the state that was received is none of this job: " + read.error().what), turn);
    return false;
  }
  Turn below = within(state_transfer_, turn);
  state_transfer_.confirm(below);
  if (is_last) {
    phase_ = Phase::ended;
    turn.finish();
    return false;
  }
  first_ = round_ = done_;
  part_ = 0;
  asked_ = turn.now();
  optimizer_.on_returned();
  phase_ = Phase::setting_optimizer;
  if (optimizer_.set(turn)) return false;
  phase_ = Phase::awaiting;
  return true;
}

}  // namespace longhaul::sync
