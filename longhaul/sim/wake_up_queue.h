#pragma once
// The next wake-up time of each of n numbered objects, and which is first: a tournament tree, so
// that changing one time costs O(log n) and changing most of them O(n). Ties go to the lower
// number.
#include <algorithm>
#include <bit>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/core/types.h"

namespace longhaul::sim {

class WakeUpQueue {
 public:
  static constexpr Time kNever = Time::max();

  void add(Time at) {
    if (++size_ > places_) {
      std::vector<Time> old(tree_.begin() + std::ptrdiff_t(places_), tree_.end());
      places_ = std::bit_ceil(size_);
      tree_.assign(2 * places_, kNever);
      std::copy(old.begin(), old.end(), tree_.begin() + std::ptrdiff_t(places_));
      rebuild();
    }
    set(size_ - 1, at);
  }
  void set(std::size_t i, Time at) {
    LH_CHECK(i < size_);
    std::size_t node = places_ + i;
    tree_[node] = at;
    for (node /= 2; node > 0; node /= 2) {
      const Time first = std::min(tree_[2 * node], tree_[2 * node + 1]);
      if (tree_[node] == first) return;
      tree_[node] = first;
    }
  }
  // As set(), but the tree is not in order until rebuild().
  void set_later(std::size_t i, Time at) { tree_[places_ + i] = at; }
  void rebuild() {
    for (std::size_t node = places_; node-- > 1;)
      tree_[node] = std::min(tree_[2 * node], tree_[2 * node + 1]);
  }

  std::size_t size() const { return size_; }
  Time at(std::size_t i) const { return tree_[places_ + i]; }
  Time first() const { return size_ == 0 ? kNever : tree_[1]; }
  std::size_t who() const {  // the number of the first
    std::size_t node = 1;
    while (node < places_) node = 2 * node + (tree_[2 * node] == tree_[node] ? 0 : 1);
    return node - places_;
  }

 private:
  std::size_t size_ = 0;
  std::size_t places_ = 1;
  std::vector<Time> tree_ = {kNever, kNever};
};

}  // namespace longhaul::sim
