#pragma once
// Ingest is the queue of objects between a site's source and its cheap model. If objects arrive
// faster than the model indexes them, Ingest drops the oldest. Dropped or missing objects form a
// gap.
#include <algorithm>
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
  void arrived(std::vector<Item> items) {
    for (Item& item : items) {
      if (item.seq <= last_seq_) continue;
      Entry entry;
      const std::int64_t at_ns = item.at.count();
      if (item.seq > last_seq_ + 1)
        entry.before = LoggedGap{item.seq - 1, {std::min(last_ns_, at_ns), at_ns}};
      last_seq_ = item.seq;
      last_ns_ = at_ns;
      entry.item = std::move(item);
      queue_.push_back(std::move(entry));
      if (queue_.size() <= most_) continue;
      const Entry oldest = std::move(queue_.front());
      queue_.pop_front();
      ++dropped_;
      const std::int64_t then = oldest.item.at.count();
      LoggedGap gap{oldest.item.seq, {then, then}};
      if (oldest.before) gap.interval.from_ns = std::min(oldest.before->interval.from_ns, then);
      std::optional<LoggedGap>& next = queue_.front().before;
      if (next) {
        gap.last_seq = next->last_seq;
        gap.interval.to_ns = std::max(gap.interval.to_ns, next->interval.to_ns);
      }
      next = gap;
    }
  }

  bool has_work() const { return !queue_.empty(); }
  std::size_t waiting() const { return queue_.size(); }
  // Up to kBatch of the oldest, with the gap before the first of them.
  struct Batch {
    std::vector<LoggedGap> gaps;
    std::vector<Item> items;
    void state(auto& ar) { ar(gaps, items); }
  };
  Batch take() {
    Batch batch;
    while (!queue_.empty() && batch.items.size() < kBatch) {
      Entry& entry = queue_.front();
      if (entry.before && !batch.items.empty()) break;
      if (entry.before) batch.gaps.push_back(*entry.before);
      batch.items.push_back(std::move(entry.item));
      queue_.pop_front();
    }
    return batch;
  }

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
