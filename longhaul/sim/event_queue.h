#pragma once
// Future events in order of time; ties break by order of pushing, so equal runs pop equal events. A
// 4-ary heap of plain data: events refer to objects by number and can be archived.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::sim {

template <class Event>
class EventQueue {
 public:
  struct Entry {
    Time at{0};
    std::uint64_t sequence = 0;  // unique: says which push this was
    Event event{};
    bool before(const Entry& other) const {
      return at != other.at ? at < other.at : sequence < other.sequence;
    }
    void state(auto& archive) { archive(at, sequence, event); }
  };

  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  const Entry& top() const { return heap_.front(); }
  const std::vector<Entry>& entries() const { return heap_; }  // in no order

  // Returns the sequence number.
  std::uint64_t push(Time at, const Event& event) {
    const Entry entry{at, sequence_++, event};
    std::size_t hole = heap_.size();
    heap_.push_back(entry);
    while (hole > 0 && entry.before(heap_[(hole - 1) / kArity])) {
      heap_[hole] = heap_[(hole - 1) / kArity];
      hole = (hole - 1) / kArity;
    }
    heap_[hole] = entry;
    return entry.sequence;
  }

  Entry pop() {
    LH_CHECK(!heap_.empty());
    const Entry first = heap_.front();
    const Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last);
    return first;
  }

  void state(Archive& ar) { ar(heap_, sequence_); }

 private:
  static constexpr std::size_t kArity = 4;

  // Puts the entry where the first one was taken out.
  void sink(const Entry& entry) {
    std::size_t hole = 0;
    for (;;) {
      const std::size_t first = hole * kArity + 1;
      if (first >= heap_.size()) break;
      const std::size_t end = std::min(first + kArity, heap_.size());
      std::size_t least = first;
      for (std::size_t child = first + 1; child < end; ++child)
        if (heap_[child].before(heap_[least])) least = child;
      if (!heap_[least].before(entry)) break;
      heap_[hole] = heap_[least];
      hole = least;
    }
    heap_[hole] = entry;
  }

  std::vector<Entry> heap_;
  std::uint64_t sequence_ = 0;
};

}  // namespace longhaul::sim
