#include "longhaul/overlay/testing/scrambler.h"

#include "longhaul/overlay/attempt.h"

namespace longhaul::overlay::testing {

void Scrambler::begin(Outgoing out, Turn& turn) {
  for (const Range& range : out.ranges)
    queue_.push_back({out.to, {out.key, range, out.weight}, turn.now()});
  pump(out.to, turn);
}

void Scrambler::pump(Rank to, Turn& turn) {
  while (turn.room(to, kBulk) > 0) {
    std::vector<std::size_t> choices;
    for (std::size_t i = 0; i < queue_.size(); ++i)
      if (queue_[i].to == to) choices.push_back(i);
    if (choices.empty()) return;
    Random random = turn.random(Purpose::test, draws_++, turn.self(), to);
    const std::size_t choice = choices[random.below(choices.size())];
    const Item item = queue_[choice];
    queue_.erase(queue_.begin() + std::ptrdiff_t(choice));
    Payload body = port_->encoded(item.piece.key, item.piece.range);
    sent_.push_back({item.piece.key, to, true, body.size(), turn.now() - item.since});
    turn.send(to, item.piece, std::move(body), kBulk);
  }
}

void Scrambler::cancel(const TransferKey& key, std::optional<Rank> to) {
  std::erase_if(queue_, [&](const Item& i) { return i.piece.key == key && (!to || i.to == *to); });
}

std::uint64_t Scrambler::remaining(const TransferKey& key, Rank to) const {
  std::uint64_t left = 0;
  for (const Item& item : queue_)
    if (item.piece.key == key && item.to == to) left += item.piece.range.length;
  return left;
}

std::optional<Arrival> Scrambler::arrived() {
  if (arrivals_.empty()) return std::nullopt;
  Arrival arrival = std::move(arrivals_.front());
  arrivals_.pop_front();
  return arrival;
}

std::optional<Sent> Scrambler::sent() {
  if (sent_.empty()) return std::nullopt;
  Sent sent = std::move(sent_.front());
  sent_.pop_front();
  return sent;
}

Status Scrambler::on_message(Rank from, const Message& message, Turn&) {
  return dispatch(MessageList<Piece>{}, message, [&](const Piece& piece) -> Status {
    LH_TRY(port_->admit(from, piece.key, piece.range));
    auto values = port_->decode(piece.key, piece.range, message.body);
    if (!values) return values.error();
    arrivals_.push_back({from, piece.key, piece.range, std::move(*values), piece.weight});
    return Ok{};
  });
}

void Scrambler::on_writable(Rank peer, Turn& turn) { pump(peer, turn); }

void Scrambler::on_view(const View&, Turn& turn) {
  std::erase_if(queue_, [&](const Item& item) { return !turn.view().has(item.to); });
}

}  // namespace longhaul::overlay::testing
