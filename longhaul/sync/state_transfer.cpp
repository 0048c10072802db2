#include "longhaul/sync/state_transfer.h"

namespace longhaul::sync {
namespace {

constexpr Service kBulk{.priority = 4};

// A model, its anchor, what two moments of the outer and of the local optimiser take, and room for
// the rest.
std::uint64_t most_bytes(const Place& place) {
  return 8 * sizeof(float) * place.layout->size() + (std::uint64_t{1} << 20);
}

}  // namespace

void StateTransfer::send(Rank to, TransferredState transferred, Turn& turn) {
  LH_CHECK(transferred.bytes && !transferred.bytes->empty() &&
           transferred.bytes->size() <= most_bytes(turn.place()));
  outgoing_[to] = {std::move(transferred), 0};
  send_more(to, turn);
}

void StateTransfer::send_more(Rank to, Turn& turn) {
  const auto it = outgoing_.find(to);
  if (it == outgoing_.end()) return;
  auto& [transferred, sent] = it->second;
  const std::uint64_t total = transferred.bytes->size();
  while (sent < total && turn.room(to, kBulk) > 0) {
    const std::uint64_t length = std::min<std::uint64_t>(total - sent, turn.place().chunk_bytes);
    turn.send(to, StatePart{transferred.round, transferred.last, sent, total},
              Payload(transferred.bytes, sent, length), kBulk);
    sent += length;
  }
  if (sent == total) outgoing_.erase(it);
}

Status StateTransfer::on_message(Rank from, const Message& message, Turn& turn) {
  return dispatch(Messages{}, message, [&](const auto& m) -> Status {
    if constexpr (std::is_same_v<std::decay_t<decltype(m)>, StatePart>)
      return take(from, m, message.body, turn);
    else
      return take(from, m, turn);
  });
}

Status StateTransfer::take(Rank from, const StatePart& part, const Payload& body, Turn& turn) {
  if (turn.view().since(turn.self()) == 0 || from != senior_worker(turn.place(), turn.view()))
    return malformed("a state for a node that did not return, or not from the senior worker");
  if (part.total == 0 || part.total > most_bytes(turn.place()))
    return malformed("a state of " + std::to_string(part.total) + " bytes");
  if (part.offset == 0) incoming_ = Incoming{part.round, part.last, part.total, {}};
  const std::span<const std::byte> bytes = body.view();
  if (!incoming_ || incoming_->round != part.round || incoming_->last != part.last ||
      incoming_->total != part.total || incoming_->bytes.size() != part.offset || bytes.empty() ||
      bytes.size() > part.total - part.offset)
    return malformed("a part of a state that does not follow the part before");
  incoming_->bytes.insert(incoming_->bytes.end(), bytes.begin(), bytes.end());
  if (incoming_->bytes.size() < incoming_->total) return Ok{};
  received_ =
      TransferredState{incoming_->round, incoming_->last, share(std::move(incoming_->bytes))};
  incoming_.reset();
  return Ok{};
}

void StateTransfer::confirm(Turn& turn) {
  for (const Rank rank : live_with(Role::worker, turn.place(), turn.view()))
    if (rank != turn.self())
      turn.send(rank, StateReceived{turn.view().since(turn.self())}, {}, kControl);
}

Status StateTransfer::take(Rank from, const StateReceived& have, Turn& turn) {
  if (have.epoch == 0 || have.epoch != turn.view().since(from))
    return malformed("a receipt of a node that has not returned");
  confirmed_.insert(from);
  return Ok{};
}

void StateTransfer::on_view(const View& before, Turn& turn) {
  const View& view = turn.view();
  std::erase_if(outgoing_, [&](const auto& entry) { return !view.has(entry.first); });
  std::erase_if(confirmed_, [&](Rank rank) { return view.since(rank) != before.since(rank); });
  // The round before this state may be repeated without the lost node's contribution.
  if (!view.has(senior_worker(turn.place(), before))) {
    incoming_.reset();
    received_.reset();
  }
}

void StateTransfer::state(Archive& ar) {
  ar(outgoing_, incoming_, received_, confirmed_);
  for (const auto& [to, going] : outgoing_)
    if (!going.transferred.bytes || going.sent >= going.transferred.bytes->size())
      return ar.fail("holds a state that is sent already");
  if (received_ && !received_->bytes) ar.fail("holds a state without bytes");
}

}  // namespace longhaul::sync
