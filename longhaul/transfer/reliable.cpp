#include "longhaul/transfer/reliable.h"

#include <algorithm>

#include "longhaul/transfer/entry.h"

namespace longhaul::transfer {

TransferEntry Reliable::entry() {
  return transfer_entry<Reliable>(
      {.name = "reliable", .summary = "every value arrives, in pieces of a chunk, by priority"});
}

Reliable::Reliable(const Place& place) : longest_(place.longest_piece()), phantom_(place.phantom) {
  LH_CHECK(longest_ > 0);
}

void Reliable::begin(Outgoing out, Turn& turn) {
  LH_CHECK(port_ && out.to != turn.self());
  std::erase_if(out.ranges, [](const Range& range) { return range.length == 0; });
  if (out.ranges.empty()) return sent_.push_back({out.key, out.to, true, 0, Time{0}});
  Classes& classes = queues_[out.to];
  Item item{out.key, std::move(out.ranges), 0, out.weight, out.service, 0, turn.now()};
  classes[out.service.service_class()].emplace(Spot{out.service.order, sequence_++},
                                               std::move(item));
  pump(out.to, classes, turn);
}

// Classes have rooms of their own; within one, the queue decides.
void Reliable::pump(Rank to, Classes& classes, Turn& turn) {
  for (auto& [service_class, queue] : classes) {
    while (!queue.empty()) {
      Item& item = queue.begin()->second;
      if (turn.room(to, item.service) == 0) break;
      send_piece(to, item, turn);
      if (item.next < item.ranges.size()) continue;
      sent_.push_back({item.key, to, true, item.bytes, turn.now() - item.since});
      queue.erase(queue.begin());
    }
  }
}

void Reliable::send_piece(Rank to, Item& item, Turn& turn) {
  Range& rest = item.ranges[item.next];
  const Range piece{rest.offset, std::min(rest.length, longest_)};
  rest = {piece.end(), rest.length - piece.length};
  if (rest.length == 0) ++item.next;
  Payload body = port_->encoded(item.key, piece);
  item.bytes += body.size();
  turn.send(to, Piece{item.key, piece, item.weight}, std::move(body), item.service);
}

void Reliable::cancel(const TransferKey& key, std::optional<Rank> to) {
  for (auto& [rank, classes] : queues_) {
    if (to && *to != rank) continue;
    for (auto& [service_class, queue] : classes)
      std::erase_if(queue, [&](const auto& entry) { return entry.second.key == key; });
  }
}

std::uint64_t Reliable::remaining(const TransferKey& key, Rank to) const {
  std::uint64_t left = 0;
  const auto peer = queues_.find(to);
  if (peer == queues_.end()) return 0;
  for (const auto& [service_class, queue] : peer->second)
    for (const auto& [place, item] : queue)
      for (std::size_t i = item.next; item.key == key && i < item.ranges.size(); ++i)
        left += item.ranges[i].length;
  return left;
}

bool Reliable::has_queued(Rank to) const {
  const auto peer = queues_.find(to);
  if (peer == queues_.end()) return false;
  return std::any_of(peer->second.begin(), peer->second.end(),
                     [](const auto& queue) { return !queue.second.empty(); });
}

// In its new class it stands behind what was queued there before, of the same order.
void Reliable::reprioritise(const TransferKey& key, Rank to, Service service, Turn& turn) {
  const auto peer = queues_.find(to);
  if (peer == queues_.end()) return;
  std::vector<Item> moved;
  for (auto& [service_class, queue] : peer->second)
    for (auto it = queue.begin(); it != queue.end();) {
      const bool moves = it->second.key == key;
      if (moves) moved.push_back(std::move(it->second));
      it = moves ? queue.erase(it) : std::next(it);
    }
  for (Item& item : moved) {
    item.service = service;
    peer->second[service.service_class()].emplace(Spot{service.order, sequence_++},
                                                  std::move(item));
  }
  pump(to, peer->second, turn);
}

std::optional<Arrival> Reliable::arrived() {
  if (arrivals_.empty()) return std::nullopt;
  Arrival arrival = std::move(arrivals_.front());
  arrivals_.pop_front();
  return arrival;
}

std::optional<Sent> Reliable::sent() {
  if (sent_.empty()) return std::nullopt;
  Sent sent = std::move(sent_.front());
  sent_.pop_front();
  return sent;
}

Status Reliable::on_message(Rank from, const Message& message, Turn&) {
  return dispatch(Messages{}, message, [&](const Piece& piece) -> Status {
    if (piece.range.length == 0 || piece.range.length > longest_)
      return malformed("piece of " + std::to_string(piece.range.length) + " values; up to " +
                       std::to_string(longest_) + " are allowed by [overlay] chunk");
    if (message.body.size() == 0 || message.body.is_phantom() != phantom_)
      return malformed("piece without the numbers it should hold");
    LH_TRY(port_->admit(from, piece.key, piece.range));
    LH_LET(values, port_->decode(piece.key, piece.range, message.body));
    arrivals_.push_back({from, piece.key, piece.range, std::move(values), piece.weight});
    return Ok{};
  });
}

void Reliable::on_writable(Rank peer, Turn& turn) {
  if (auto it = queues_.find(peer); it != queues_.end()) pump(peer, it->second, turn);
}

void Reliable::on_view(const View&, Turn& turn) {
  std::erase_if(queues_, [&](const auto& entry) { return !turn.view().has(entry.first); });
}

void Reliable::state(Archive& ar) { ar(sequence_, queues_, arrivals_, sent_); }

}  // namespace longhaul::transfer
