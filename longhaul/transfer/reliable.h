#pragma once
// The plain transfer: every value arrives, once and in the order of the queue.
//
// The queue holds names of vectors and their ranges, not bytes: the owner (VectorPort) encodes
// these when the link has room for one more message. So a vector that waits for a slow link costs
// nothing, and a cancelled one is never encoded. docs/transfer/reliable.md
#include <algorithm>
#include <functional>
#include <map>

#include "longhaul/base/queue.h"
#include "longhaul/core/registry.h"

namespace longhaul::transfer {

// Removes the first element and returns it; nothing if the queue is empty.
auto take_front(auto& queue) -> std::optional<std::decay_t<decltype(queue.front())>> {
  if (queue.empty()) return std::nullopt;
  std::optional taken(std::move(queue.front()));
  queue.pop_front();
  return taken;
}

class Reliable final : public Transfer {
 public:
  // A range of at most Place::chunk_bytes of fp32 values; the body comes from VectorPort. In a
  // phantom job it may be of chunk_run chunks.
  struct Piece {
    LONGHAUL_MESSAGE(1, "piece");
    TransferKey key;
    Range range;
    double weight = 0;
    LONGHAUL_FIELDS(key, range, (weight, .min = 0, .max = 1e200))
  };
  using Messages = MessageList<Piece>;

  struct Config {
    static void fields(auto&, auto&&) {}
  };
  explicit Reliable(const Place& place) : longest_(place.longest_piece()), phantom_(place.phantom) {
    LH_CHECK(longest_ > 0);
  }

  Reliable(const Config&, const Place& place) : Reliable(place) {}

  void attach(VectorPort& port) override { port_ = &port; }
  void begin(Outgoing out, Turn& turn) override {
    LH_CHECK(port_ && out.to != turn.self());
    std::erase_if(out.ranges, [](const Range& range) { return range.length == 0; });
    if (out.ranges.empty()) return sent_.push_back({out.key, out.to, true, 0, Time{0}});
    Classes& classes = queues_[out.to];
    Item item{out.key, std::move(out.ranges), 0, out.weight, out.service, 0, turn.now()};
    classes[out.service.service_class()].emplace(Spot{out.service.order, sequence_++},
                                                 std::move(item));
    pump(out.to, classes, turn);
  }

  void cancel(const TransferKey& key, std::optional<Rank> to) override {
    for (auto& [rank, classes] : queues_) {
      if (to && *to != rank) continue;
      for (auto& [service_class, queue] : classes)
        std::erase_if(queue, [&](const auto& entry) { return entry.second.key == key; });
    }
  }

  std::uint64_t remaining(const TransferKey& key, Rank to) const override {
    std::uint64_t left = 0;
    const auto peer = queues_.find(to);
    if (peer == queues_.end()) return 0;
    for (const auto& [service_class, queue] : peer->second)
      for (const auto& [place, item] : queue)
        for (std::size_t i = item.next; item.key == key && i < item.ranges.size(); ++i)
          left += item.ranges[i].length;
    return left;
  }

  bool has_queued(Rank to) const {
    const auto peer = queues_.find(to);
    if (peer == queues_.end()) return false;
    return std::ranges::any_of(peer->second,
                               [](const auto& queue) { return !queue.second.empty(); });
  }

  // Puts it behind the entries of the same order in its new class.
  void reprioritise(const TransferKey& key, Rank to, Service service, Turn& turn) override {
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

  std::optional<Arrival> arrived() override { return take_front(arrivals_); }

  std::optional<Sent> sent() override { return take_front(sent_); }

  Status on_message(Rank from, const Message& message, Turn&) override {
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

  void on_writable(Rank peer, Turn& turn) override {
    if (auto it = queues_.find(peer); it != queues_.end()) pump(peer, it->second, turn);
  }

  void on_view(const View&, Turn& turn) override {
    std::erase_if(queues_, [&](const auto& entry) { return !turn.view().has(entry.first); });
  }

  void state(Archive& ar) override { ar(sequence_, queues_, arrivals_, sent_); }

 private:
  struct Item {
    TransferKey key;
    std::vector<Range> ranges;  // from `next` on; the first may be sent in part
    std::uint64_t next = 0;
    double weight = 0;
    Service service;
    std::uint64_t bytes = 0;  // bytes of the bodies sent
    Time since{0};
    void state(auto& ar) {
      ar(key, ranges, next, weight, service.delivery, service.priority, service.order, bytes,
         since);
    }
  };
  using Spot = std::pair<std::uint64_t, std::uint64_t>;  // (order, when it was begun)
  using Queue = std::map<Spot, Item>;
  using Classes = std::map<unsigned, Queue, std::greater<>>;  // priority is the class's low part

  // Each class has its own room; within one, the queue decides.
  void pump(Rank to, Classes& classes, Turn& turn) {
    for (auto& [service_class, queue] : classes) {
      while (!queue.empty()) {
        Item& item = queue.begin()->second;
        if (turn.room(to, item.service) == 0) break;
        Range& rest = item.ranges[item.next];
        const Range piece{rest.offset, std::min(rest.length, longest_)};
        rest = {piece.end(), rest.length - piece.length};
        if (rest.length == 0) ++item.next;
        Payload body = port_->encoded(item.key, piece);
        item.bytes += body.size();
        turn.send(to, Piece{item.key, piece, item.weight}, std::move(body), item.service);
        if (item.next < item.ranges.size()) continue;
        sent_.push_back({item.key, to, true, item.bytes, turn.now() - item.since});
        queue.erase(queue.begin());
      }
    }
  }

  const std::uint64_t longest_;  // values in a message
  const bool phantom_;
  VectorPort* port_ = nullptr;
  std::uint64_t sequence_ = 0;
  std::map<Rank, Classes> queues_;
  longhaul::Queue<Arrival> arrivals_;
  longhaul::Queue<Sent> sent_;
};

}  // namespace longhaul::transfer
