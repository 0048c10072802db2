#pragma once
// A Transfer that sends what it was given in an order of its own, but for the class: overlays may
// not depend on any.
#include <deque>

#include "longhaul/core/transfer.h"

namespace longhaul::overlay::testing {

class Scrambler final : public Transfer {
 public:
  struct Piece {
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "piece";
    TransferKey key;
    Range range;
    double weight = 0;
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      visit(Field{.name = "key"}, self.key);
      visit(Field{.name = "range"}, self.range);
      visit(Field{.name = "weight", .min = 0, .max = 1e200}, self.weight);
    }
  };

  void attach(VectorPort& port) override { port_ = &port; }
  void begin(Outgoing, Turn&) override;
  void cancel(const TransferKey&, std::optional<Rank> to) override;
  std::uint64_t remaining(const TransferKey&, Rank to) const override;
  void reprioritise(const TransferKey&, Rank, Service, Turn&) override {}
  std::optional<Arrival> arrived() override;
  std::optional<Sent> sent() override;

  Status on_message(Rank from, const Message&, Turn&) override;
  void on_writable(Rank, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void state(Archive& ar) override { ar(queue_, arrivals_, sent_, draws_); }

 private:
  struct Item {
    Rank to = 0;
    Piece piece;
    Time since{0};
    void state(auto& ar) { ar(to, piece, since); }
  };
  void pump(Rank to, Turn&);

  VectorPort* port_ = nullptr;
  std::vector<Item> queue_;
  std::deque<Arrival> arrivals_;
  std::deque<Sent> sent_;  // each piece alone
  Round draws_ = 0;
};

}  // namespace longhaul::overlay::testing
