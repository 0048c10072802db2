#pragma once
// A Transfer that sends what it was given in an order of its own, but for the class: overlays may
// not depend on any.
#include <deque>

#include "longhaul/core/transfer.h"
#include "longhaul/overlay/attempt.h"

namespace longhaul::overlay::testing {

class Scrambler final : public Transfer {
 public:
  struct Piece {
    LONGHAUL_MESSAGE(1, "piece");
    TransferKey key;
    Range range;
    double weight = 0;
    LONGHAUL_FIELDS(key, range, (weight, .min = 0, .max = 1e200))
  };

  void attach(VectorPort& port) override { port_ = &port; }
  void begin(Outgoing out, Turn& turn) override {
    for (const Range& range : out.ranges)
      queue_.push_back({out.to, {out.key, range, out.weight}, turn.now()});
    pump(out.to, turn);
  }

  void cancel(const TransferKey& key, std::optional<Rank> to) override {
    std::erase_if(queue_,
                  [&](const Item& i) { return i.piece.key == key && (!to || i.to == *to); });
  }

  std::uint64_t remaining(const TransferKey& key, Rank to) const override {
    std::uint64_t left = 0;
    for (const Item& item : queue_)
      if (item.piece.key == key && item.to == to) left += item.piece.range.length;
    return left;
  }

  void reprioritise(const TransferKey&, Rank, Service, Turn&) override {}
  std::optional<Arrival> arrived() override {
    if (arrivals_.empty()) return std::nullopt;
    Arrival arrival = std::move(arrivals_.front());
    arrivals_.pop_front();
    return arrival;
  }

  std::optional<Sent> sent() override {
    if (sent_.empty()) return std::nullopt;
    Sent sent = std::move(sent_.front());
    sent_.pop_front();
    return sent;
  }

  Status on_message(Rank from, const Message& message, Turn&) override {
    return dispatch(MessageList<Piece>{}, message, [&](const Piece& piece) -> Status {
      LH_TRY(port_->admit(from, piece.key, piece.range));
      auto values = port_->decode(piece.key, piece.range, message.body);
      if (!values) return values.error();
      arrivals_.push_back({from, piece.key, piece.range, std::move(*values), piece.weight});
      return Ok{};
    });
  }

  void on_writable(Rank peer, Turn& turn) override { pump(peer, turn); }

  void on_view(const View&, Turn& turn) override {
    std::erase_if(queue_, [&](const Item& item) { return !turn.view().has(item.to); });
  }

  void state(Archive& ar) override { ar(queue_, arrivals_, sent_, draws_); }

 private:
  struct Item {
    Rank to = 0;
    Piece piece;
    Time since{0};
    void state(auto& ar) { ar(to, piece, since); }
  };
  void pump(Rank to, Turn& turn) {
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

  VectorPort* port_ = nullptr;
  std::vector<Item> queue_;
  std::deque<Arrival> arrivals_;
  std::deque<Sent> sent_;  // each piece alone
  Round draws_ = 0;
};

}  // namespace longhaul::overlay::testing
