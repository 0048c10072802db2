#pragma once
// A Transfer for tests of what stands on one: pieces go as they were queued, whole ranges at once.
#include <algorithm>
#include <deque>

#include "longhaul/core/transfer.h"

namespace longhaul::testing {

class PlainTransfer final : public Transfer {
 public:
  struct Piece {
    LONGHAUL_MESSAGE(1, "piece");
    TransferKey key;
    Range range;
    LONGHAUL_FIELDS(key, range)
  };

  void attach(VectorPort& port) override { port_ = &port; }
  void begin(Outgoing out, Turn& turn) override {
    queue_.push_back({out.key, out.to, out.ranges, out.service.priority, 0});
    pump(out.to, turn);
  }
  void cancel(const TransferKey& key, std::optional<Rank> to) override {
    std::erase_if(queue_, [&](const Item& i) { return i.key == key && (!to || i.to == *to); });
  }
  std::uint64_t remaining(const TransferKey& key, Rank to) const override {
    std::uint64_t left = 0;
    for (const Item& item : queue_)
      for (const Range& range : item.ranges)
        left += item.key == key && item.to == to ? range.length : 0;
    return left;
  }
  void reprioritise(const TransferKey& key, Rank to, Service service, Turn& turn) override {
    for (Item& item : queue_)
      if (item.key == key && item.to == to) item.priority = service.priority;
    pump(to, turn);
  }
  std::optional<Arrival> arrived() override { return pop(arrivals_); }
  std::optional<Sent> sent() override { return pop(sent_); }

  Status on_message(Rank from, const Message& message, Turn&) override {
    return dispatch(MessageList<Piece>{}, message, [&](const Piece& piece) -> Status {
      LH_TRY(port_->admit(from, piece.key, piece.range));
      auto values = port_->decode(piece.key, piece.range, message.body);
      if (!values) return values.error();
      arrivals_.push_back({from, piece.key, piece.range, std::move(*values), 0});
      return Ok{};
    });
  }
  void on_writable(Rank peer, Turn& turn) override { pump(peer, turn); }
  void on_view(const View&, Turn& turn) override {
    std::erase_if(queue_, [&](const Item& item) { return !turn.view().has(item.to); });
  }
  void state(Archive& ar) override { ar(queue_, arrivals_, sent_); }

 private:
  struct Item {
    TransferKey key;
    Rank to = 0;
    std::vector<Range> ranges;
    std::uint8_t priority = 0;
    std::uint64_t bytes = 0;
    void state(auto& ar) { ar(key, to, ranges, priority, bytes); }
  };
  template <class T>
  static std::optional<T> pop(std::deque<T>& queue) {
    if (queue.empty()) return std::nullopt;
    T first = std::move(queue.front());
    queue.pop_front();
    return first;
  }
  void pump(Rank to, Turn& turn) {
    for (auto item = queue_.begin(); item != queue_.end();) {
      const Service service{.priority = item->priority};
      while (item->to == to && !item->ranges.empty() && turn.room(to, service) > 0) {
        const Range range = item->ranges.front();
        item->ranges.erase(item->ranges.begin());
        Payload body = port_->encoded(item->key, range);
        item->bytes += body.size();
        turn.send(to, Piece{item->key, range}, std::move(body), service);
      }
      if (item->ranges.empty()) sent_.push_back({item->key, item->to, true, item->bytes, Time{0}});
      item = item->ranges.empty() ? queue_.erase(item) : std::next(item);
    }
  }

  VectorPort* port_ = nullptr;
  std::deque<Item> queue_;
  std::deque<Arrival> arrivals_;
  std::deque<Sent> sent_;
};

}  // namespace longhaul::testing
