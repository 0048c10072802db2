#include "longhaul/focus/ingest.h"

#include <algorithm>

namespace longhaul::focus {

void Ingest::arrived(std::vector<Item> items) {
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

Ingest::Batch Ingest::take() {
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

}  // namespace longhaul::focus
