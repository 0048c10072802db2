// Synchronous, of returned nodes: what they do until they have a model, and what the others do for
// them.
#include <algorithm>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {

// --- at the returned node

// Of the exchanges that a round has; 0: it has none of this range.
std::uint64_t Synchronous::length_of(std::uint32_t range, const Turn& turn) const {
  if (range == kParameters) return exchanged(turn);
  return range == kExtras ? extras(turn) : exchanged_second();
}

// The next round of all with an exchange of this range; nothing as long as it is not known.
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

// The ranges may be a round apart: the others may have had the mean of one before this node
// returned.
bool Synchronous::stand_in_for_round(Turn& turn) {
  std::map<std::uint32_t, Round> next;
  std::optional<Round> first;
  for (const std::uint32_t range : {kParameters, kExtras, kSecond}) {
    if (length_of(range, turn) == 0) continue;
    const auto round = next_round(range);
    if (!round) return false;
    next[range] = *round;
    first = std::min(*round, first.value_or(*round));
  }
  done_ = first.value();
  stands_in_all_ranges_ = true;
  phase_ = Phase::standing_in;
  Turn below = within(*parts_.overlay, turn);
  for (const auto& [range, round] : next) {
    stands_in_all_ranges_ &= round == done_;
    if (round != done_) continue;
    const Contribution none{.values = {},
                            .length = length_of(range, turn),
                            .contributes = false,
                            .exact = range == kExtras};
    const Status begun = parts_.overlay->begin(key(range), {}, none, below);
    if (!begun) fail(begun.error(), turn);
  }
  return true;
}

// A mean is of no use to a node without the model that it changes.
bool Synchronous::end_stand_in(Turn& turn) {
  // No mean arrives any more if the others have ended.
  if (state_transfer_.received() && state_transfer_.received()->last &&
      state_transfer_.received()->round == done_)
    return begin_from_state(turn);
  for (const std::uint32_t range : {kParameters, kExtras, kSecond}) {
    if (length_of(range, turn) == 0) continue;
    (void)parts_.overlay->poll(key(range));
    if (next_round(range).value_or(0) <= done_) return false;
  }
  ++done_;
  // The senior worker sends its state after a mean of all ranges: else stand in once more.
  phase_ = stands_in_all_ranges_ ? Phase::awaiting_state : Phase::finding_round;
  return true;
}

bool Synchronous::begin_from_state(Turn& turn) {
  const StateTransfer::TransferredState* received = state_transfer_.received();
  if (!received || received->round != done_) return false;
  Archive ar(*received->bytes);
  const std::map<Rank, Epoch> here = std::exchange(returned_, {});
  const Rank sender = state_sender_;
  archive_state(ar, turn);
  Status read = ar.finish();
  if (read &&
      (done_ != received->round || phase_ != (received->last ? Phase::ended : Phase::ready)))
    read = malformed("it is not of the beginning of a round");
  if (read && !fits(parameter_count(turn.place())))
    read = malformed("it is of a model of another size");
  state_transfer_.drop_received();
  // This node knows what has changed since the state was written.
  for (const auto& [rank, epoch] : here) returned_[rank] = epoch;
  std::erase_if(returned_, [&](const auto& one) { return !turn.view().has(one.first); });
  state_sender_ = sender;
  if (!read) {
    fail(malformed("the state that was received is none of this job: " + read.error().what), turn);
    return false;
  }
  Turn below = within(state_transfer_, turn);
  state_transfer_.confirm(below);
  if (phase_ == Phase::ended) turn.finish();
  if (phase_ == Phase::ready) on_returned(turn);
  return phase_ != Phase::ended;
}

// --- at the others

void Synchronous::follow_returned(Turn& turn) {
  const View& view = turn.view();
  std::erase_if(returned_, [&](const auto& entry) { return !view.has(entry.first); });
  std::erase_if(needs_state_, [&](Rank rank) { return !view.has(rank); });
  for (const auto& [rank, epoch] : view.returned)
    if (epoch == view.epoch && turn.place().member(rank).is(Role::worker)) returned_[rank] = epoch;
  const bool knows = phase_ < Phase::finding_round;
  if (knows && phase_ == Phase::ended) return send_state(/*last=*/true, turn);
  if (knows) return;
  const Rank senior = senior_worker(turn.place(), view);
  if (senior == turn.self())
    return fail(state_lost("all sites that knew the model are lost; resume from a checkpoint"),
                turn);
  // If the sender of the state is lost, the next senior sends its own after the round that runs.
  if (phase_ == Phase::standing_in || senior != state_sender_) phase_ = Phase::finding_round;
  state_sender_ = senior;
}

// The mean is here: returned nodes that took part without contributing wait for the state that the
// next round begins with.
void Synchronous::note_who_needs_state() {
  const Epoch formed = std::max(mean_->epoch, extras_ ? extras_->epoch : 0);
  for (auto it = returned_.begin(); it != returned_.end();) {
    const auto [rank, since] = *it;
    // A contribution from before it was lost says nothing.
    const bool counted = mean_->epoch >= since &&
                         std::binary_search(mean_->counted.begin(), mean_->counted.end(), rank);
    const bool knows = counted || state_transfer_.has_state(rank);
    if (!knows && formed >= since) needs_state_.insert(rank);
    it = knows ? returned_.erase(it) : std::next(it);
  }
}

bool Synchronous::sends_state(const Turn& turn) const {
  return senior_worker(turn.place(), turn.view()) == turn.self();
}

void Synchronous::send_state(bool last, Turn& turn) {
  if (last)
    for (const auto& [rank, epoch] : returned_) needs_state_.insert(rank);
  const std::set<Rank> owed = std::exchange(needs_state_, {});
  if (owed.empty() || !sends_state(turn)) return;
  Archive ar;
  archive_state(ar, turn);
  const Bytes bytes = share(ar.take());
  Turn below = within(state_transfer_, turn);
  for (const Rank to : owed) state_transfer_.send(to, {done_, last, bytes}, below);
}

void Synchronous::archive_state(Archive& ar, Turn& turn) {
  state(ar);
  stop_.hand_over(ar);
  ar.floats(ar.loading() ? turn.params() : model(turn));
}

}  // namespace longhaul::sync
