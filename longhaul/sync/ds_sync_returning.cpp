// DsSync, of workers that have come back: what they are given, and where they begin.
#include <algorithm>

#include "longhaul/sync/ds_sync.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync {

// --- at the others

void DsSync::follow_returned(const View& before, Turn& turn) {
  const View& view = turn.view();
  const auto is_gone = [&](Rank rank) { return !view.has(rank); };
  std::erase_if(returned_, [&](const auto& one) { return is_gone(one.first); });
  std::erase_if(was_sent_, is_gone);
  std::erase_if(asks_final_, is_gone);
  for (const auto& [rank, epoch] : view.returned)
    if (epoch == view.epoch && rank != turn.self() && turn.place().member(rank).is(Role::worker)) {
      returned_[rank] = epoch;
      was_sent_.erase(rank);
      asks_final_.erase(rank);
    }
  if (!turn.place().comes_back()) return;
  // The overlay's group of all workers begins anew.
  for (Rank rank = 0; rank < turn.place().size(); ++rank) {
    const Member& member = turn.place().member(rank);
    if (!member.is(Role::worker) && !member.is(Role::server)) continue;
    if (before.has(rank) != view.has(rank) || before.since(rank) != view.since(rank))
      conclusion_.begin_anew();
  }
  if (phase_ == Phase::awaiting_state && senior_worker(turn.place(), view) == turn.self())
    fail(state_lost("all sites that knew the model are lost; resume from a checkpoint"), turn);
}

// The senior worker's model as it stands, whenever the learner is at rest.
void DsSync::hand_over(Turn& turn) {
  std::erase_if(returned_, [&](const auto& one) { return state_transfer_.has_state(one.first); });
  const bool knows = phase_ != Phase::unstarted && phase_ != Phase::awaiting_state;
  const bool is_last = phase_ == Phase::ended;
  if (!knows || (returned_.empty() && asks_final_.empty()) || turn.learner_is_busy() ||
      senior_worker(turn.place(), turn.view()) != turn.self())
    return;
  std::set<Rank> to;
  for (const auto& [rank, epoch] : returned_)
    if (was_sent_.insert(rank).second || is_last) to.insert(rank);
  if (is_last) {
    to.merge(std::exchange(asks_final_, {}));
    returned_.clear();
  }
  if (to.empty()) return;
  Archive ar;
  archive_for_returned(ar, done_, turn);
  const Bytes bytes = share(ar.take());
  Turn below = within(state_transfer_, turn);
  for (const Rank rank : to) state_transfer_.send(rank, {done_, is_last, bytes}, below);
}

void DsSync::archive_for_returned(Archive& ar, Round& done, Turn& turn) {
  ar.expect("ds_sync");
  ar(done, samples_, swa_, swa_count_);
  stop_.hand_over(ar);
  ar.floats(turn.params());
}

Status DsSync::on_message(Rank from, const Message& message, Turn& turn) {
  return dispatch(Messages{}, message, [&](const FinalAsked& asked) -> Status {
    if (asked.epoch == 0 || asked.epoch != turn.view().since(from))
      return malformed("the final model is asked for by one that has not come back");
    asks_final_.insert(from);
    return Ok{};
  });
}

// --- at the worker that has come back

bool DsSync::take_state(Turn& turn) {
  const StateTransfer::TransferredState* received = state_transfer_.received();
  if (!received) return false;
  const bool is_last = received->last;
  Round done = 0;
  Archive ar(*received->bytes);
  archive_for_returned(ar, done, turn);
  Status read = ar.finish();
  if (read && !swa_.empty() && swa_.size() != parameter_count(turn.place()))
    read = malformed("it is of a model of another size");
  state_transfer_.drop_received();
  if (!read) {
    fail(malformed("the state that was received is none of this job: " + read.error().what), turn);
    return false;
  }
  Turn below = within(state_transfer_, turn);
  state_transfer_.confirm(below);
  phase_ = Phase::entering;
  if (!is_last) return true;
  done_ = done;
  phase_ = Phase::ended;
  turn.finish();
  return false;
}

// Does training end before exchange `entry`? The others may have come further than the sender of
// the state. `end`: after how many rounds.
DsSync::End DsSync::end_before(Round entry, Round& end) {
  constexpr Round kMostToSettle = 64;
  end = std::min(entry, stop_config_.max_rounds);
  for (Round r = entry - std::min(entry, kMostToSettle); r + 1 < end; ++r) {
    if (r < stop_config_.lag || r - stop_config_.lag + 1 < stop_config_.report_every) continue;
    const StopRule::Step step = stop_.after(r);
    if (step == StopRule::Step::wait) return End::unknown;
    if (step == StopRule::Step::stop) end = r + 1;
  }
  return end < entry ? End::before : End::later;
}

bool DsSync::enter_run(Turn& turn) {
  const auto entry = switch_.entry();
  if (!entry) return false;
  Round end = 0;
  const End training = end_before(*entry, end);
  if (training == End::unknown) return false;
  done_ = end;
  asked_ = turn.now();
  if (training == End::later) {
    phase_ = Phase::deciding;
    return true;
  }
  use_average_over_time(turn);
  const Round settled = *entry - done_;
  const std::uint32_t rounds =
      config_.final == "mean" ? schedule_.rounds_to_consensus(switch_.worker_count(done_)) : 0;
  if (settled < rounds) {
    settled_ = settled;
    to_settle_ = rounds - std::uint32_t(settled);
    phase_ = Phase::grouping;
    return true;
  }
  settled_ = rounds;
  conclusion_.join(final_model(), /*compare=*/rounds > 0, /*has_model=*/false);
  phase_ = Phase::concluding;
  return true;
}

// Too late for what the others have decided it asks the senior worker, which answers at its own
// end.
Result<bool> DsSync::follow_conclusion(Turn& turn) {
  if (state_transfer_.received()) {
    (void)take_state(turn);
    return false;
  }
  const Rank senior = senior_worker(turn.place(), turn.view());
  if (senior == turn.self() && (conclusion_.missed() || !conclusion_.has_model()))
    return unavailable("all sites that had the final model are lost; resume from a checkpoint");
  const auto taken = conclusion_.follow(turn, within(*overlay_, turn));
  if (!taken || *taken || !conclusion_.missed() || asked_final_of_ == senior) return taken;
  asked_final_of_ = senior;
  turn.send(senior, FinalAsked{turn.view().since(turn.self())}, {}, kControl);
  return false;
}

}  // namespace longhaul::sync
