#include "longhaul/sync/handover.h"

namespace longhaul::sync {
namespace {

constexpr Service kBulk{.priority = 4};

// A model, its anchor and what two moments of an outer optimiser take, and room for the rest.
std::uint64_t most_bytes(const Place& place) {
  return 6 * sizeof(float) * place.layout->size() + (std::uint64_t{1} << 20);
}

}  // namespace

void Handover::give(Rank to, Given given, Turn& turn) {
  LH_CHECK(given.bytes && !given.bytes->empty() && given.bytes->size() <= most_bytes(turn.place()));
  going_[to] = {std::move(given), 0};
  go_on(to, turn);
}

void Handover::go_on(Rank to, Turn& turn) {
  const auto it = going_.find(to);
  if (it == going_.end()) return;
  auto& [given, sent] = it->second;
  const std::uint64_t total = given.bytes->size();
  while (sent < total && turn.room(to, kBulk) > 0) {
    const std::uint64_t length = std::min<std::uint64_t>(total - sent, turn.place().chunk_bytes);
    turn.send(to, Part{given.round, given.last, sent, total}, Payload(given.bytes, sent, length),
              kBulk);
    sent += length;
  }
  if (sent == total) going_.erase(it);
}

Status Handover::on_message(Rank from, const Message& message, Turn& turn) {
  return dispatch(Messages{}, message, [&](const auto& m) -> Status {
    if constexpr (std::is_same_v<std::decay_t<decltype(m)>, Part>)
      return take(from, m, message.body, turn);
    else
      return take(from, m, turn);
  });
}

Status Handover::take(Rank from, const Part& part, const Payload& body, Turn& turn) {
  if (turn.view().since(turn.self()) == 0 || from != senior_worker(turn.place(), turn.view()))
    return malformed("a state for a node that needs none, or not from the senior worker");
  if (part.total == 0 || part.total > most_bytes(turn.place()))
    return malformed("a state of " + std::to_string(part.total) + " bytes");
  if (part.offset == 0) coming_ = Coming{part.round, part.last, part.total, {}};
  const std::span<const std::byte> bytes = body.view();
  if (!coming_ || coming_->round != part.round || coming_->last != part.last ||
      coming_->total != part.total || coming_->bytes.size() != part.offset || bytes.empty() ||
      bytes.size() > part.total - part.offset)
    return malformed("a piece of a state that does not go on from the last");
  coming_->bytes.insert(coming_->bytes.end(), bytes.begin(), bytes.end());
  if (coming_->bytes.size() < coming_->total) return Ok{};
  whole_ = Given{coming_->round, coming_->last, share(std::move(coming_->bytes))};
  coming_.reset();
  return Ok{};
}

void Handover::tell_have(Turn& turn) {
  for (const Rank rank : live_with(Role::worker, turn.place(), turn.view()))
    if (rank != turn.self()) turn.send(rank, Have{turn.view().since(turn.self())}, {}, kControl);
}

Status Handover::take(Rank from, const Have& have, Turn& turn) {
  if (have.epoch == 0 || have.epoch != turn.view().since(from))
    return malformed("a receipt of a node that has not come back");
  have_.insert(from);
  return Ok{};
}

void Handover::on_view(const View& before, Turn& turn) {
  const View& view = turn.view();
  std::erase_if(going_, [&](const auto& entry) { return !view.has(entry.first); });
  std::erase_if(have_, [&](Rank rank) { return view.since(rank) != before.since(rank); });
  // The round that its state follows may be repeated without its share.
  if (!view.has(senior_worker(turn.place(), before))) {
    coming_.reset();
    whole_.reset();
  }
}

void Handover::state(Archive& ar) {
  ar(going_, coming_, whole_, have_);
  for (const auto& [to, going] : going_)
    if (!going.given.bytes || going.sent >= going.given.bytes->size())
      return ar.fail("holds a state that is given already");
  if (whole_ && !whole_->bytes) ar.fail("holds a state without bytes");
}

}  // namespace longhaul::sync
