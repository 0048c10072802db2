#pragma once
// Ingest is the queue of objects between a site's source and its cheap model. Where objects come
// faster than they are indexed, the oldest are dropped; what was dropped, or never came, is a gap.
#include <deque>

#include "longhaul/core/item.h"
#include "longhaul/focus/log.h"

namespace longhaul::focus {

class Ingest {
 public:
  static constexpr std::size_t kBatch = 32;  // objects of one run of the model
  explicit Ingest(std::size_t most) : most_(most) {}

  // Objects up to this seq are indexed already: the source sends from the next one.
  void begin_after(std::uint64_t seq, std::int64_t at_ns) { last_seq_ = seq, last_ns_ = at_ns; }
  // In ascending order of seq; those known are left out.
  void arrived(std::vector<Item>);
  bool has_work() const { return !queue_.empty(); }
  std::size_t waiting() const { return queue_.size(); }
  // Up to kBatch of the oldest, with the gap before the first of them.
  struct Batch {
    std::vector<LoggedGap> gaps;
    std::vector<Item> items;
    void state(auto& ar) { ar(gaps, items); }
  };
  Batch take();
  std::uint64_t dropped() const { return dropped_; }
  void state(Archive& ar) { ar(queue_, last_seq_, last_ns_, dropped_); }

 private:
  struct Entry {
    std::optional<LoggedGap> before;
    Item item;
    void state(auto& ar) { ar(before, item); }
  };
  std::size_t most_;
  std::deque<Entry> queue_;
  std::uint64_t last_seq_ = 0, dropped_ = 0;
  std::int64_t last_ns_ = 0;
};

}  // namespace longhaul::focus
