// Sfb with partial spread: in each clock factors go to some of the others, and to others in the
// next, so that a worker has only some gradients of a clock. Models differ until a mean of all of
// them, every mean_every clocks and at the end.
//
// A worker waits for those that send to it in its clock, by the workers of the view. Workers in
// different clocks learn of a new view, and what was sent by the old one is not what the new one
// waits for. So all agree on the newest clock that anybody is in: that one goes to all, and who is
// behind it waits for nobody until then, and uses its own gradients alone. What a lost worker
// sent does not count. The next mean repairs what that leaves.
#include <algorithm>

#include "longhaul/sync/sfb.h"

namespace longhaul::sync {

std::vector<Rank> Sfb::workers_of(Round clock) const {
  std::vector<Rank> ranks = live_;
  std::erase_if(ranks, [&](Rank rank) { return store_.entry(rank) > clock; });
  return ranks;
}

std::vector<Rank> Sfb::senders_of(Round clock) const {
  return partners(clock, sfb::partial_senders);
}

std::vector<Rank> Sfb::receivers_of(Round clock) const {
  return partners(clock, sfb::partial_receivers);
}

std::vector<Rank> Sfb::partners(Round clock, decltype(sfb::partial_senders)& by_clock) const {
  std::vector<Rank> workers = workers_of(clock);
  if (clock < meeting_.value_or(0) || !std::ranges::binary_search(workers, place_.self)) return {};
  if (clock != meeting_) return by_clock(clock, place_.self, config_.partial_peers, workers);
  std::erase(workers, place_.self);
  return workers;
}

// What there is of the clock that all wait for everybody's. Some may have it: they drop it.
void Sfb::send_to_all(Turn& turn) {
  const auto* pieces = store_.find(turn.self(), *meeting_);
  if (!knows_model() || !pieces) return;
  for (const auto& [part, piece] : *pieces) {
    sfb::FactorStore::Piece again = piece;
    again.header.epoch = epoch_;
    send(receivers_of(*meeting_), again, turn);
  }
}

void Sfb::begin_mixing(Turn& turn) {
  phase_ = Phase::mixing;
  asked_ = turn.now();
  Overlay& overlay = final_.overlay();
  Turn below = within(overlay, turn);
  const Status begun = overlay.begin(
      {clock_ / config_.mean_every - 1, 0, kBuffersRange}, {},
      {.values = turn.params(), .length = turn.place().layout->size(), .exact = true}, below);
  if (!begun) fail(begun.error(), turn);
}

bool Sfb::end_mixing(Turn& turn) {
  const auto mean = final_.overlay().poll({clock_ / config_.mean_every - 1, 0, kBuffersRange});
  if (!mean) return false;
  has_mixed_ = true;
  if (!mean->counted.empty())
    std::copy(mean->values.begin(), mean->values.end(), turn.params().begin());
  turn.record("mean_s", clock_ - 1, seconds(turn.now() - asked_));
  finish_clock(turn);
  return true;
}

}  // namespace longhaul::sync
