#pragma once
// Verifier runs the accurate model: batches of representatives from sites (itself too), in order of
// arrival, one at a time; the site gets the verdicts, and is told while they take long. Its queue
// is bounded by what sites may have on their way.
#include <deque>

#include "longhaul/core/machine.h"
#include "longhaul/focus/messages.h"

namespace longhaul::focus {

class Verifier {
 public:
  static constexpr TimerId kTimer{6};  // of the node, which then calls advance()
  // `node`: whose part it is. `length`: values of an object, 0: any. `patience`: of the sites.
  Verifier(const Machine& node, std::uint32_t version, std::uint32_t length, Time patience)
      : node_(node), version_(version), length_(length), still_after_(still_after(patience)) {}

  // Error: its objects do not fit, are none of a stream, or it is more than a site may send.
  Status take(Rank from, const Check&, const Payload& body, Time now);
  void advance(Turn&);  // tells other sites that their batches are here
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
    Time told{0};  // the site, of this batch
    void state(auto& ar) { ar(from, number, items, told); }
  };
  const Machine& node_;
  std::uint32_t version_, length_;
  Time still_after_;
  std::deque<Batch> queue_;
};

}  // namespace longhaul::focus
