#pragma once
// A Transfer for tests of what stands on one: whole ranges at once, as they were queued; or, where
// it scrambles, in an order of its own but for the class: overlays may not depend on any.
#include <deque>

#include "longhaul/core/transfer.h"

namespace longhaul::testing {

class PlainTransfer final : public Transfer {
 public:
  struct Piece {
    LONGHAUL_MESSAGE(1, "piece");
    TransferKey key;
    Range range;
    double weight = 0;
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(key);
      LONGHAUL_FIELD(range);
      LONGHAUL_FIELD(weight, .min = 0, .max = 1e200);
    }
  };
  explicit PlainTransfer(bool scrambles = false) : scrambles_(scrambles) {}

  void attach(VectorPort& port) override { port_ = &port; }
  void begin(Outgoing out, Turn& turn) override {
    const Item whole{out.key, out.to, out.ranges, out.weight, out.service.priority, turn.now()};
    if (!scrambles_) queue_.push_back(whole);
    for (std::size_t i = 0; scrambles_ && i < out.ranges.size(); ++i) {
      queue_.push_back(whole);
      queue_.back().ranges = {out.ranges[i]};
    }
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
    TransferKey key;
    Rank to = 0;
    std::vector<Range> ranges;
    double weight = 0;
    std::uint8_t priority = 0;
    Time since{0};
    std::uint64_t bytes = 0;
    void state(auto& ar) { ar(key, to, ranges, weight, priority, since, bytes); }
  };
  template <class T>
  static std::optional<T> pop(std::deque<T>& queue) {
    if (queue.empty()) return std::nullopt;
    T first = std::move(queue.front());
    queue.pop_front();
    return first;
  }
  void send_first(Item& item, Service service, Turn& turn) {
    const Range range = item.ranges.front();
    item.ranges.erase(item.ranges.begin());
    Payload body = port_->encoded(item.key, range);
    item.bytes += body.size();
    turn.send(item.to, Piece{item.key, range, item.weight}, std::move(body), service);
    if (item.ranges.empty())
      sent_.push_back({item.key, item.to, true, item.bytes, turn.now() - item.since});
  }
  void pump(Rank to, Turn& turn) {
    if (scrambles_) return scramble(to, turn);
    for (Item& item : queue_) {
      const Service service{.priority = item.priority};
      while (item.to == to && !item.ranges.empty() && turn.room(to, service) > 0)
        send_first(item, service, turn);
    }
    std::erase_if(queue_, [](const Item& item) { return item.ranges.empty(); });
  }
  void scramble(Rank to, Turn& turn) {
    while (turn.room(to, kScrambled) > 0) {
      std::vector<std::size_t> choices;
      for (std::size_t i = 0; i < queue_.size(); ++i)
        if (queue_[i].to == to) choices.push_back(i);
      if (choices.empty()) return;
      Random random = turn.random(Purpose::test, draws_++, turn.self(), to);
      const std::size_t choice = choices[random.below(choices.size())];
      Item item = queue_[choice];
      queue_.erase(queue_.begin() + std::ptrdiff_t(choice));
      send_first(item, kScrambled, turn);
    }
  }

  const bool scrambles_;
  VectorPort* port_ = nullptr;
  std::deque<Item> queue_;
  std::deque<Arrival> arrivals_;
  std::deque<Sent> sent_;
  Round draws_ = 0;
  static constexpr Service kScrambled{.priority = 4};  // as vectors of overlays go
};

}  // namespace longhaul::testing
