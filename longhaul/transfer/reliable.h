#pragma once
// The plain transfer: every value arrives, once and in the order of the queue.
//
// Queued are names of vectors and stretches of them, not bytes: those are asked of the owner
// (VectorPort) when the link has room for one more message. So a vector that waits for a slow link
// costs nothing, and what is cancelled was never written. docs/transfer/reliable.md
#include <functional>
#include <map>

#include "longhaul/base/queue.h"
#include "longhaul/core/registry.h"

namespace longhaul::transfer {

class Reliable final : public Transfer {
 public:
  // One stretch of at most Place::chunk_bytes of fp32 values; the body is what VectorPort wrote.
  // In a phantom job it may be of chunk_run chunks.
  struct Piece {
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "piece";
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
  using Messages = MessageList<Piece>;

  struct Config {
    template <class Self, class Visit>
    static void fields(Self&, Visit&&) {}
  };
  static TransferEntry entry();

  explicit Reliable(const Place& place);
  Reliable(const Config&, const Place& place) : Reliable(place) {}

  void attach(VectorPort& port) override { port_ = &port; }
  void begin(Outgoing, Turn&) override;
  void cancel(const TransferKey&, std::optional<Rank> to) override;
  std::uint64_t remaining(const TransferKey&, Rank to) const override;
  bool has_queued(Rank to) const;
  void reprioritise(const TransferKey&, Rank to, Service, Turn&) override;
  std::optional<Arrival> arrived() override;
  std::optional<Sent> sent() override;

  Status on_message(Rank from, const Message&, Turn&) override;
  void on_writable(Rank, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void state(Archive&) override;

 private:
  struct Item {
    TransferKey key;
    std::vector<Range> ranges;  // from `next` on; the first may be sent in part
    std::uint64_t next = 0;
    double weight = 0;
    Service service;
    std::uint64_t bytes = 0;  // of bodies sent
    Time since{0};
    void state(auto& ar) {
      ar(key, ranges, next, weight, service.delivery, service.priority, service.order, bytes,
         since);
    }
  };
  using Spot = std::pair<std::uint32_t, std::uint64_t>;  // (order, when it was begun)
  using Queue = std::map<Spot, Item>;
  using Classes = std::map<unsigned, Queue, std::greater<>>;  // priority is the class's low part

  void pump(Rank to, Classes&, Turn&);
  void send_piece(Rank to, Item&, Turn&);

  const std::uint64_t longest_;  // values in a message
  const bool phantom_;
  VectorPort* port_ = nullptr;
  std::uint64_t sequence_ = 0;
  std::map<Rank, Classes> queues_;
  longhaul::Queue<Arrival> arrivals_;
  longhaul::Queue<Sent> sent_;
};

}  // namespace longhaul::transfer
