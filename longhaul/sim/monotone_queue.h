#pragma once
// Future events in order of time; ties break by order of pushing, as in EventQueue. An event must
// not be pushed with a time before the last pop. The queue is a radix heap (Ahuja, Mehlhorn, Orlin,
// Tarjan, JACM 37(2), 1990), for millions of events: it reads and writes its buckets sequentially,
// where a binary heap waits for memory at every level.
//
// Bucket 0 holds events at the time of the last pop, bucket b those whose time differs from it in
// bit b - 1 and in none above. When bucket 0 is empty, the events of the first non-empty bucket are
// distributed to the buckets before it, which are empty. Events of equal times are always in one
// bucket, so they stay in order.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/check.h"
#include "longhaul/core/types.h"

namespace longhaul::sim {

template <class Event>
class MonotoneQueue {
 public:
  struct Entry {
    Time at{0};
    Event event{};
    void state(auto& archive) { archive(at, event); }
  };

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  // CHECKs that the queue is not empty.
  Time first() const {
    LH_CHECK(size_ > 0);
    return done_ < buckets_[0].entries.size() ? last_ : buckets_[std::size_t(bucket())].least;
  }
  // CHECKs that `at` is not before the time of the last pop.
  void push(Time at, const Event& event) {
    LH_CHECK(at >= last_);
    put({at, event});
    ++size_;
  }
  Entry pop() {
    LH_CHECK(size_ > 0);
    if (done_ == buckets_[0].entries.size()) deal();
    --size_;
    return buckets_[0].entries[done_++];
  }
  template <class Visit>
  void for_each(Visit&& visit) const {  // events of equal times in order
    for (std::size_t b = 0; b < kBuckets; ++b)
      for (std::size_t i = b == 0 ? done_ : 0; i < buckets_[b].entries.size(); ++i)
        visit(buckets_[b].entries[i]);
  }

  void state(Archive& ar) {
    std::vector<Entry> entries;
    if (!ar.loading()) for_each([&](const Entry& entry) { entries.push_back(entry); });
    ar(last_, entries);
    if (!ar.loading()) return;
    buckets_ = {};
    size_ = done_ = 0;
    for (const Entry& entry : entries) {
      if (entry.at < last_) return ar.fail("holds an event of the past");
      push(entry.at, entry.event);
    }
  }

 private:
  static constexpr std::size_t kBuckets = 65;
  static constexpr std::size_t kKept = 4096;  // entries whose memory an empty bucket keeps
  struct Bucket {
    std::vector<Entry> entries;
    Time least = Time::max();
  };

  void put(const Entry& entry) {
    const auto differs = std::uint64_t(entry.at.count()) ^ std::uint64_t(last_.count());
    Bucket& bucket = buckets_[std::size_t(std::bit_width(differs))];
    bucket.entries.push_back(entry);
    bucket.least = std::min(bucket.least, entry.at);
  }
  // Returns the first non-empty bucket behind bucket 0.
  std::size_t bucket() const {
    std::size_t b = 1;
    while (buckets_[b].entries.empty()) ++b;
    return b;
  }
  void deal() {
    buckets_[0].entries.clear();
    done_ = 0;
    Bucket& from = buckets_[bucket()];
    dealt_.swap(from.entries);
    last_ = std::exchange(from.least, Time::max());
    for (const Entry& entry : dealt_) put(entry);
    dealt_.clear();
    // Otherwise each bucket would keep the memory of the largest number of events in any bucket.
    if (dealt_.capacity() > kKept) dealt_ = std::vector<Entry>();
  }

  Time last_ = Time::min();  // time of the last pop
  std::array<Bucket, kBuckets> buckets_;
  std::size_t size_ = 0;
  std::size_t done_ = 0;      // events popped from bucket 0
  std::vector<Entry> dealt_;  // empty between calls
};

}  // namespace longhaul::sim
