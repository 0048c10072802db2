// GADMM in a new view: how its workers come together again after a loss, and how one that has
// returned comes in. It takes the model that the senior worker joins with, and the verdicts of the
// stop rule from the senior worker's state. Nobody holds a dual for it: all pairs with it begin at
// 0.
#include "longhaul/sync/gadmm.h"

namespace longhaul::sync {

// To all others: the iteration to come, the model as last sent and what is held for the receiver.
void Gadmm::send_joins(Turn& turn) {
  for (const Rank rank : live_with(Role::worker, place_, view_)) {
    if (rank == place_.self) continue;
    if (!knows_model_) {
      send({rank}, Kind::join, 0, {}, turn);
      continue;
    }
    const gadmm::DualLedger::Dual* dual = duals_.of(rank);
    std::vector<double> values = theta_;
    if (dual) values.insert(values.end(), dual->values.begin(), dual->values.end());
    if (place_.phantom) values.resize(dual ? 2 * size_ : size_);
    send({rank}, Kind::join, dual ? dual->steps : 0, doubles(std::move(values)), turn);
  }
}

// All have told where they are: nobody is in an iteration of the view before.
void Gadmm::join(Turn& turn) {
  Round first = done_;
  if (!take_joins(first, turn)) return;
  turn.record("join_s", done_, seconds(turn.now() - asked_));
  skip_to(first, turn);
  joined_at_ = first;
  stopping_.begin(first);
  is_greeted_ = false;
  phase_ = Phase::deciding;
}

// False: nobody has a model, and the run has failed.
bool Gadmm::take_joins(Round& first, Turn& turn) {
  const Rank senior = senior_worker(place_, view_);
  const auto joins = inbox_.joins();
  std::vector<Rank> without;
  for (const auto& [rank, iteration] : joins) {
    first = std::max(first, iteration);
    const gadmm::Inbox::Item item = inbox_.take(Kind::join, rank, iteration);
    if (item.content.kind() == ContentKind::none) {
      without.push_back(rank);
      continue;
    }
    std::vector<double> values = item.content.doubles();
    gadmm::DualLedger::Dual dual{item.steps, {}};
    if (item.steps > 0 && !place_.phantom)
      dual.values.assign(values.begin() + std::ptrdiff_t(size_), values.end());
    if (!place_.phantom) values.resize(size_);
    duals_.repair(rank, dual);
    seen_[rank] = std::move(values);
  }
  const bool senior_knows = senior == place_.self ? knows_model_ : seen_.contains(senior);
  if ((!without.empty() || !knows_model_) && !senior_knows) {
    fail(state_lost("all sites that knew the model are lost; resume from a checkpoint"), turn);
    return false;
  }
  if (!knows_model_) {
    theta_ = seen_.at(senior);
    done_ = joins.at(senior);
    knows_model_ = true;
  }
  const std::vector<double> theirs = senior == place_.self ? theta_ : seen_[senior];
  for (const Rank rank : without) seen_[rank] = theirs;
  return true;
}

// Rounds that this worker has missed count as done with its model as it stands.
void Gadmm::skip_to(Round iteration, Turn& turn) {
  show_model(turn);
  while (done_ < iteration) {
    ++done_;
    report_round(turn);
  }
  inbox_.pass(done_);
}

// --- of workers that have returned

// At the others: what no join tells.
void Gadmm::hand_over(Turn& turn) {
  if (!knows_model_) return;
  state_transfer_.drop_received();  // sent twice
  newcomers_.hand_over(state_transfer_, done_, turn, within(state_transfer_, turn),
                       [this](Archive& ar) { archive_for_returned(ar); });
}

void Gadmm::archive_for_returned(Archive& ar) {
  ar.expect("gadmm");
  ar(samples_);
  stop_.hand_over(ar);
}

// At the worker that has returned: are the verdicts here?
bool Gadmm::has_state(Turn& turn) {
  if (knows_model_ || has_state_) return true;
  if (!state_transfer_.received()) return false;
  const Status read =
      gossip::read_received(state_transfer_, [this](Archive& ar) { archive_for_returned(ar); });
  if (!read) {
    fail(read.error(), turn);
    return false;
  }
  has_state_ = true;
  Turn below = within(state_transfer_, turn);
  state_transfer_.confirm(below);
  return true;
}

bool Gadmm::take_final(Turn& turn) {
  if (!place_.comes_back()) return final_.take(turn);
  Turn below = within(final_return_, turn);
  const Result<bool> taken =
      final_return_.follow(/*gives=*/true, below, within(final_.overlay(), turn));
  if (!taken) fail(taken.error(), turn);
  return taken && *taken;
}

}  // namespace longhaul::sync
