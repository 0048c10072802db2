#pragma once
// Verifier runs the accurate model: batches of representatives from sites (itself too), in order of
// arrival, one at a time; the site gets the verdicts, and is told while they take long. Its queue
// is bounded by what sites may have on their way.
#include <algorithm>
#include <cstring>
#include <deque>

#include "longhaul/core/machine.h"
#include "longhaul/focus/checks.h"
#include "longhaul/focus/messages.h"

namespace longhaul::focus {

class Verifier {
 public:
  static constexpr TimerId kTimer{6};  // of the node, which then calls advance()
  // `node`: whose part it is. `length`: values of an object, 0: any. `patience`: of the sites.
  Verifier(const Machine& node, std::uint32_t version, std::uint32_t length, Time patience)
      : node_(node), version_(version), length_(length), still_after_(still_after(patience)) {}

  // Error: its objects do not fit, are none of a stream, or it is more than a site may send.
  Status take(Rank from, const Check& check, const Payload& body, Time now) {
    if (check.items.empty() || check.length * sizeof(float) > check.stride || body.is_phantom() ||
        body.size() != check.items.size() * std::size_t(check.stride))
      return malformed("a check whose objects do not fit its size");
    if (length_ > 0 && check.length != length_)
      return malformed("a check of objects of " + std::to_string(check.length) +
                       " values, not of " + std::to_string(length_));
    const auto queued = std::count_if(queue_.begin(), queue_.end(),
                                      [&](const Batch& batch) { return batch.from == from; });
    if (std::size_t(queued) >= Checks::kInFlight) return malformed("a check beyond those allowed");
    Batch batch{from, check.batch, {}, now};
    for (std::size_t i = 0; i < check.items.size(); ++i) {
      const CheckItem& checked = check.items[i];
      if (checked.seq == 0) return malformed("a check of an object without a number");
      Item item{from, checked.seq, Time{checked.at_ns}, std::vector<float>(check.length)};
      if (check.length > 0)
        std::memcpy(item.values.data(), body.view().data() + i * check.stride,
                    check.length * sizeof(float));
      batch.items.push_back(std::move(item));
    }
    queue_.push_back(std::move(batch));
    return Ok{};
  }

  // tells other sites that their batches are here
  void advance(Turn& turn) {
    std::optional<Time> next;
    for (Batch& batch : queue_) {
      if (batch.from == turn.self() || !turn.view().has(batch.from)) continue;
      if (turn.now() >= batch.told + still_after_) {
        batch.told = turn.now();
        turn.send(batch.from, StillChecking{batch.number}, {}, kAnswer);
      }
      next = std::min(next.value_or(batch.told + still_after_), batch.told + still_after_);
    }
    if (next) turn.set_timer(node_, kTimer, *next);
  }

  bool has_work() const { return !queue_.empty(); }
  // The items of the oldest batch, for Infer; it stays until verdicts().
  std::vector<Item> items() const { return queue_.front().items; }
  void verdicts(std::span<const float> classes, Turn& turn) {
    const Batch batch = std::move(queue_.front());
    queue_.pop_front();
    LH_CHECK(classes.size() == batch.items.size());
    Verdict verdict{batch.number, version_, {}};
    for (const float cls : classes) verdict.classes.push_back(std::uint32_t(cls));
    if (turn.view().has(batch.from)) turn.send(batch.from, verdict, {}, kAnswer);
  }

  // drops the batches of lost sites, but not one that runs
  void on_view(Turn& turn) {
    if (queue_.empty()) return;
    queue_.erase(std::remove_if(queue_.begin() + 1, queue_.end(),
                                [&](const Batch& batch) { return !turn.view().has(batch.from); }),
                 queue_.end());
  }

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
