#pragma once
// Verifier runs the accurate model: batches of representatives from sites (itself too), in order of
// arrival, one at a time; the site gets the verdicts. Its queue is bounded by what sites may have
// on their way.
#include <deque>

#include "longhaul/core/turn.h"
#include "longhaul/focus/messages.h"

namespace longhaul::focus {

class Verifier {
 public:
  explicit Verifier(std::uint32_t version) : version_(version) {}

  Status take(Rank from, const Check&, const Payload& body);
  bool has_work() const { return !queue_.empty(); }
  // The items of the oldest batch, for Infer; it stays until verdicts().
  std::vector<Item> items() const { return queue_.front().items; }
  void verdicts(std::span<const float> classes, Turn&);
  void on_view(Turn&);  // drops the batches of lost sites, but not one that runs
  void state(Archive& ar) { ar(queue_); }

 private:
  struct Batch {
    Rank from = 0;
    std::uint64_t number = 0;
    std::vector<Item> items;
    void state(auto& ar) { ar(from, number, items); }
  };
  std::uint32_t version_;
  std::deque<Batch> queue_;
};

}  // namespace longhaul::focus
