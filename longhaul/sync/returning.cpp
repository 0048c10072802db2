// Synchronous, of nodes that come back: what they do until they have a model, and what the others
// do for them.
#include <algorithm>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {

// --- at the node that has come back

// Parameters and extras may be a round apart: one of them came to the others before this node did.
bool Synchronous::stand_in(Turn& turn) {
  const auto parameters = parts_.overlay->next_round(0, kParameters);
  const auto extras = this->extras(turn) > 0 ? parts_.overlay->next_round(0, kExtras) : parameters;
  if (!parameters || !extras) return false;
  done_ = std::min(*parameters, *extras);
  stands_in_all_ = *parameters == *extras;
  phase_ = Phase::standing;
  const Layout& layout = *turn.place().layout;
  Turn below = within(*parts_.overlay, turn);
  const auto begin = [&](std::uint32_t range, std::uint64_t length) {
    const std::vector<float> nothing(turn.place().phantom ? 0 : length);
    const Contribution none{nothing, length, 1, /*contributes=*/false, range == kExtras};
    const Status begun = parts_.overlay->begin({done_, 0, range}, {}, none, below);
    if (!begun) fail(begun.error(), turn);
  };
  if (*parameters == done_) begin(kParameters, layout.parameters().length);
  if (this->extras(turn) > 0 && *extras == done_) begin(kExtras, this->extras(turn));
  return true;
}

// The mean says nothing to a node without the model that it is the mean of.
bool Synchronous::stood_in(Turn& turn) {
  // No mean comes any more if the others are at their end.
  if (handover_.whole() && handover_.whole()->last && handover_.whole()->round == done_)
    return learn(turn);
  for (const std::uint32_t range : {kParameters, kExtras}) {
    if (range == kExtras && extras(turn) == 0) continue;
    (void)parts_.overlay->poll({done_, 0, range});
    if (parts_.overlay->next_round(0, range).value_or(0) <= done_) return false;
  }
  ++done_;
  // Whoever knows the model has had the last mean of all ranges: else another round like this.
  phase_ = stands_in_all_ ? Phase::learning : Phase::calling;
  return true;
}

bool Synchronous::learn(Turn& turn) {
  const Handover::Given* given = handover_.whole();
  if (!given || given->round != done_) return false;
  Archive ar(*given->bytes);
  const std::map<Rank, Epoch> here = std::exchange(newcomers_, {});
  const Rank giver = giver_;
  state_to_hand_over(ar, turn);
  Status read = ar.finish();
  if (read && (done_ != given->round || phase_ != (given->last ? Phase::ended : Phase::ready)))
    read = malformed("it is not of the beginning of a round");
  if (read && !fits(parameter_count(turn.place())))
    read = malformed("it is of a model of another size");
  handover_.drop();
  // What has changed since it was written down is known here.
  for (const auto& [rank, epoch] : here) newcomers_[rank] = epoch;
  std::erase_if(newcomers_, [&](const auto& one) { return !turn.view().has(one.first); });
  giver_ = giver;
  if (!read) {
    fail(malformed("the state that was handed over is none of this job: " + read.error().what),
         turn);
    return false;
  }
  Turn below = within(handover_, turn);
  handover_.tell_have(below);
  if (phase_ == Phase::ended) turn.finish();
  if (phase_ == Phase::ready) came_back(turn);
  return phase_ != Phase::ended;
}

// --- at the others

void Synchronous::follow_newcomers(Turn& turn) {
  const View& view = turn.view();
  std::erase_if(newcomers_, [&](const auto& entry) { return !view.has(entry.first); });
  std::erase_if(owed_, [&](Rank rank) { return !view.has(rank); });
  for (const auto& [rank, epoch] : view.returned)
    if (epoch == view.epoch && turn.place().member(rank).is(Role::worker)) newcomers_[rank] = epoch;
  const bool knows = phase_ < Phase::calling;
  if (knows && phase_ == Phase::ended) return hand_over(/*last=*/true, turn);
  if (knows) return;
  const Rank senior = senior_worker(turn.place(), view);
  if (senior == turn.self())
    return fail(unavailable("all sites that knew the model are lost; resume from a checkpoint"),
                turn);
  // Who was to hand over is lost: the next senior does after the round that runs.
  if (phase_ == Phase::standing || senior != giver_) phase_ = Phase::calling;
  giver_ = senior;
}

// The mean is here: whoever took part without a share waits for what the next round begins with.
void Synchronous::welcome() {
  const Epoch formed = std::max(mean_->epoch, extras_ ? extras_->epoch : 0);
  for (auto it = newcomers_.begin(); it != newcomers_.end();) {
    const auto [rank, since] = *it;
    // What it gave before it was lost says nothing.
    const bool counted = mean_->epoch >= since &&
                         std::binary_search(mean_->counted.begin(), mean_->counted.end(), rank);
    const bool knows = counted || handover_.has(rank);
    if (!knows && formed >= since) owed_.insert(rank);
    it = knows ? newcomers_.erase(it) : std::next(it);
  }
}

void Synchronous::hand_over(bool last, Turn& turn) {
  if (last)
    for (const auto& [rank, epoch] : newcomers_) owed_.insert(rank);
  const std::set<Rank> owed = std::exchange(owed_, {});
  if (owed.empty() || senior_worker(turn.place(), turn.view()) != turn.self()) return;
  Archive ar;
  state_to_hand_over(ar, turn);
  const Bytes bytes = share(ar.take());
  Turn below = within(handover_, turn);
  for (const Rank to : owed) handover_.give(to, {done_, last, bytes}, below);
}

void Synchronous::state_to_hand_over(Archive& ar, Turn& turn) {
  state(ar);
  stop_.hand_over(ar);
  ar.floats(turn.params());
}

}  // namespace longhaul::sync
