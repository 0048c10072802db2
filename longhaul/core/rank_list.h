#pragma once
// Ranks in ascending order. Copies share one list, which a change of one of them copies first: in a
// simulation of n nodes every node knows the n members, and memory must not grow with n^2.
//
// Reads like the std::vector that it holds, and converts to it. One thread.
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <vector>

#include "longhaul/core/types.h"

namespace longhaul {

class RankList {
 public:
  using Ranks = std::vector<Rank>;
  using value_type = Rank;
  using size_type = Ranks::size_type;
  using difference_type = Ranks::difference_type;
  using const_reference = const Rank&;
  using reference = const_reference;
  using const_iterator = Ranks::const_iterator;
  using iterator = const_iterator;

  RankList() = default;
  RankList(Ranks ranks)
      : ranks_(ranks.empty() ? nullptr : std::make_shared<const Ranks>(std::move(ranks))) {}
  RankList(std::initializer_list<Rank> ranks) : RankList(Ranks(ranks)) {}
  static RankList below(std::uint32_t count) {  // 0 .. count - 1
    Ranks ranks(count);
    std::iota(ranks.begin(), ranks.end(), Rank{0});
    return ranks;
  }

  operator const Ranks&() const { return ranks_ ? *ranks_ : kNone; }
  const_iterator begin() const { return all().begin(); }
  const_iterator end() const { return all().end(); }
  size_type size() const { return all().size(); }
  bool empty() const { return !ranks_; }
  const Rank& operator[](size_type at) const { return (*ranks_)[at]; }
  const Rank& at(size_type at) const { return all().at(at); }
  const Rank& front() const { return ranks_->front(); }
  const Rank& back() const { return ranks_->back(); }
  bool has(Rank rank) const { return std::binary_search(begin(), end(), rank); }
  // The same list in memory: equal without looking at the ranks.
  bool shares(const RankList& other) const { return ranks_ == other.ranks_; }

  void insert(Rank rank) {  // no effect if it is there
    if (has(rank)) return;
    Ranks changed = all();
    changed.insert(std::upper_bound(changed.begin(), changed.end(), rank), rank);
    *this = std::move(changed);
  }
  void erase(Rank rank) {  // no effect if it is not there
    Ranks changed = all();
    std::erase(changed, rank);
    *this = std::move(changed);
  }

  friend bool operator==(const RankList& a, const RankList& b) {
    return a.shares(b) || a.all() == b.all();
  }
  void state(auto& archive) {
    Ranks ranks = archive.loading() ? Ranks{} : all();
    archive(ranks);
    if (archive.loading()) *this = std::move(ranks);
  }

 private:
  const Ranks& all() const { return *this; }
  static inline const Ranks kNone = {};

  std::shared_ptr<const Ranks> ranks_;  // null: none
};

// Is every rank of `part` in `whole`?
inline bool includes(const RankList& whole, const RankList& part) {
  return whole.shares(part) || std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}

}  // namespace longhaul
