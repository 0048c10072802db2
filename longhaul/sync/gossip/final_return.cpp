#include "longhaul/sync/gossip/final_return.h"

namespace longhaul::sync::gossip {
namespace {

void archive_final(Archive& ar, Turn& turn) {
  ar.expect("final model");
  ar.floats(turn.params());
}

}  // namespace

Result<bool> FinalReturn::follow(bool gives, Turn& turn, Turn overlay) {
  if (const StateTransfer::TransferredState* received = transfer_.received()) {
    Archive ar(*received->bytes);
    archive_final(ar, turn);
    const Status read = ar.finish();
    transfer_.drop_received();
    if (!read)
      return malformed("the final model that was received is none of this job: " +
                       read.error().what);
    return true;
  }
  const Rank senior = senior_worker(turn.place(), turn.view());
  if (senior == turn.self() && (missed_ || !gives))
    return unavailable("all sites that had the final model are lost; resume from a checkpoint");
  if (!begun_) {
    const auto next = mean_.overlay().next_round(0, 0);
    if (!next) return false;
    missed_ = *next > 0;
    if (!missed_) LH_TRY(mean_.begin(turn, overlay, gives));
    begun_ = true;
  }
  if (!missed_) return mean_.take(turn);
  if (asked_of_ == senior) return false;
  asked_of_ = senior;
  turn.send(senior, FinalAsked{turn.view().since(turn.self())}, {}, kControl);
  return false;
}

void FinalReturn::serve(Turn& turn) {
  if (asking_.empty() || senior_worker(turn.place(), turn.view()) != turn.self()) return;
  Archive ar;
  archive_final(ar, turn);
  const Bytes bytes = share(ar.take());
  Turn below = within(transfer_, turn);
  for (const Rank to : std::exchange(asking_, {})) transfer_.send(to, {0, true, bytes}, below);
}

Status FinalReturn::on_message(Rank from, const Message& message, Turn& turn) {
  return dispatch(Messages{}, message, [&](const FinalAsked& asked) -> Status {
    if (asked.epoch == 0 || asked.epoch != turn.view().since(from) ||
        !turn.place().member(from).is(Role::worker))
      return malformed("the final model is asked for by one that has not come back");
    asking_.insert(from);
    return Ok{};
  });
}

// At one that has come back the overlay's exchange of all workers begins anew with each change of
// them and of its servers.
void FinalReturn::on_view(const View& before, Turn& turn) {
  const View& view = turn.view();
  std::erase_if(asking_, [&](Rank rank) { return view.since(rank) != before.since(rank); });
  for (Rank rank = 0; rank < turn.place().size(); ++rank) {
    const Member& member = turn.place().member(rank);
    if (!member.is(Role::worker) && !member.is(Role::server)) continue;
    if (before.has(rank) != view.has(rank) || before.since(rank) != view.since(rank))
      begun_ = false;
  }
}

}  // namespace longhaul::sync::gossip
