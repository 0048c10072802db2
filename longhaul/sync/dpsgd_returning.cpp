// Dpsgd, of workers that have returned: what they are given, and where they begin.
//
// Why a return adds nothing to how far apart workers are: in a view a worker is at most the length
// of a path ahead of another one, or where the furthest was when the view began. One that has
// returned begins no earlier than any neighbour that has been here longer, and while it has not
// begun its neighbours mix nothing. So the round of the last worker never falls.
#include <cmath>

#include "longhaul/sync/dpsgd.h"

namespace longhaul::sync {
namespace {
// While this worker waits, the others may go on: so many times as far as they are apart.
constexpr Round kMostMissed = 4;
}  // namespace

// --- at the others

// The senior worker's model, whenever the learner is at rest. A neighbour of the one that has
// returned waits for it while it mixes, and may be the senior worker.
void Dpsgd::hand_over(Turn& turn) {
  if (phase_ == Phase::outside) return;
  state_transfer_.drop_received();  // sent twice
  if (phase_ == Phase::entering || turn.learner_is_busy()) return;
  newcomers_.hand_over(state_transfer_, done_, turn, within(state_transfer_, turn),
                       [&](Archive& ar) { archive_for_returned(ar, turn); });
}

void Dpsgd::archive_for_returned(Archive& ar, Turn& turn) {
  ar.expect("dpsgd");
  ar(done_, samples_);
  stop_.hand_over(ar);
  ar.floats(turn.params());
}

// --- at the worker that has returned

bool Dpsgd::take_state(Turn& turn) {
  if (!state_transfer_.received()) return false;
  const Round round = state_transfer_.received()->round;
  Status read =
      gossip::read_received(state_transfer_, [&](Archive& ar) { archive_for_returned(ar, turn); });
  if (read && done_ != round) read = malformed("the state that was received is of another round");
  if (!read) {
    fail(read.error(), turn);
    return false;
  }
  phase_ = Phase::entering;
  Turn below = within(state_transfer_, turn);
  state_transfer_.confirm(below);
  return true;
}

// Those who have been here longer: so that of two who have returned only one waits for the other.
std::vector<Rank> Dpsgd::older_neighbours() const {
  const auto since = [&](Rank rank) {
    const auto it = returned_.find(rank);
    return std::pair(it == returned_.end() ? Epoch{0} : it->second, rank);
  };
  std::vector<Rank> older = neighbours_.all();
  std::erase_if(older, [&](Rank rank) { return since(self_) < since(rank); });
  return older;
}

// Rounds that this worker has missed count as done with its model as it stands.
bool Dpsgd::enter_run(Turn& turn) {
  const std::vector<Rank> older = older_neighbours();
  if (!neighbours_.untold(older).empty()) return false;
  const Round first = neighbours_.latest(older, done_);
  if (first > done_ + kMostMissed * apart_) {
    fail(malformed("a neighbour says that it is in round " + std::to_string(first) +
                   ", the senior worker was in round " + std::to_string(done_)),
         turn);
    return false;
  }
  const auto live = live_with(Role::worker, turn.place(), turn.view()).size();
  Turn below = within(stop_, turn);
  while (done_ < first) {
    ++done_;
    stop_.round_done(done_ - 1, turn.params(), std::uint64_t(std::llround(samples_ * double(live))),
                     below);
  }
  neighbours_.begin(done_);
  join(turn);
  phase_ = Phase::deciding;
  return true;
}

bool Dpsgd::take_final(Turn& turn) {
  if (!turn.place().comes_back()) return final_.take(turn);
  Turn below = within(final_return_, turn);
  const Result<bool> taken =
      final_return_.follow(/*gives=*/true, below, within(final_.overlay(), turn));
  if (!taken) fail(taken.error(), turn);
  return taken && *taken;
}

}  // namespace longhaul::sync
