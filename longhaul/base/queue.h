#pragma once
// First in, first out, like std::deque, which takes 576 bytes while it is empty: a simulation of
// many sites has several queues a site that are empty nearly always. Elements move when it grows.
// Owned by one thread. CHECKs that front(), back() and the pops find an element.
#include <cstddef>
#include <utility>
#include <vector>

#include "longhaul/base/check.h"

namespace longhaul {

template <class T>
class Queue {
 public:
  bool empty() const { return head_ == items_.size(); }
  std::size_t size() const { return items_.size() - head_; }
  auto begin() { return items_.begin() + std::ptrdiff_t(head_); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin() + std::ptrdiff_t(head_); }
  auto end() const { return items_.end(); }
  T& front() { return LH_CHECK(!empty()), items_[head_]; }
  T& back() { return LH_CHECK(!empty()), items_.back(); }

  void push_back(T item) { items_.push_back(std::move(item)); }
  void pop_back() {
    LH_CHECK(!empty());
    items_.pop_back();
    shrink();
  }
  void pop_front() {
    LH_CHECK(!empty());
    items_[head_++] = T();  // what it holds goes now
    shrink();
  }
  void clear() {
    items_.clear();
    head_ = 0;
  }
  void state(auto& archive) {  // as a sequence
    items_.erase(items_.begin(), begin());
    head_ = 0;
    archive(items_);
  }

 private:
  // Each element is moved by it once at most in the mean: half of them are gone.
  void shrink() {
    if (empty()) return clear();
    if (head_ < kMostGone || head_ < size()) return;
    items_.erase(items_.begin(), begin());
    head_ = 0;
  }

  static constexpr std::size_t kMostGone = 32;
  std::vector<T> items_;
  std::size_t head_ = 0;  // those before it are gone
};

}  // namespace longhaul
