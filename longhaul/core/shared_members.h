#pragma once
// Ranks in ascending order. Copies share one list; a change of a copy duplicates it first. In a
// simulation of n nodes every node knows the n members, and memory must not grow with n^2.
//
// Reads like the std::vector that it holds, and converts to it. One thread.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/base/bytes.h"
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
  // Returns true if both share one list in memory: equal without comparing the ranks.
  bool shares(const RankList& other) const { return ranks_ == other.ranks_; }

  void insert(Rank rank) {  // no effect if the rank is in the list
    if (has(rank)) return;
    Ranks changed = all();
    changed.insert(std::ranges::upper_bound(changed, rank), rank);
    *this = std::move(changed);
  }
  void erase(Rank rank) {  // no effect if the rank is not in the list
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

// Returns true if every rank of `part` is in `whole`.
inline bool includes(const RankList& whole, const RankList& part) {
  return whole.shares(part) || std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}

// Returns the ranks for which `is_one` is true.
std::vector<Rank> those_of(const auto& ranks, auto&& is_one) {
  std::vector<Rank> some;
  for (const Rank rank : ranks)
    if (is_one(rank)) some.push_back(rank);
  return some;
}

// Members of a job, and values that every node derives from them identically. Copies share all of
// it, so that a simulation of n nodes holds it once. A witness trains and serves nothing. It counts
// for majorities, so that one of two sites can continue without the other.
enum class Role : std::uint8_t { worker = 1, server = 2, state_server = 4, witness = 8 };

struct Member {
  std::string site;
  std::uint32_t rank_in_site = 0;
  // For the node itself: 0 if it is in the run from the start. Otherwise the run has declared it
  // lost; it knows nothing of the run and must be admitted. For other nodes: 0.
  std::uint32_t incarnation = 0;
  std::uint8_t roles = std::uint8_t(Role::worker);

  bool is(Role role) const { return (roles & std::uint8_t(role)) != 0; }
};
using Members = std::vector<Member>;  // index = rank

// A pointer to constant Members. One thread, that of the nodes which share it.
class SharedMembers {
 public:
  SharedMembers() = default;
  SharedMembers(std::shared_ptr<Members> members)
      : SharedMembers(std::shared_ptr<const Members>(std::move(members))) {}
  SharedMembers(std::shared_ptr<const Members> members) : members_(std::move(members)) {
    if (members_) derived_ = std::make_shared<Derived>(*members_);
  }

  const Members& operator*() const { return *members_; }
  const Members* operator->() const { return members_.get(); }
  const Members* get() const { return members_.get(); }
  operator std::shared_ptr<const Members>() const { return members_; }

  const RankList& all() const { return derived_->all; }
  const RankList& with(Role role) const { return derived_->with[std::size_t(role)]; }
  // Returns make(), which must give every node the same ranks for the same `key`. The first node's
  // result is shared and kept until kKept others were made. `what`: distinguishes kinds of keys.
  RankList once(std::string_view what, std::span<const std::byte> key, auto&& make) const {
    for (const Made& one : derived_->made)
      if (one.what == what && one.key.size() == key.size() &&
          (key.empty() || std::memcmp(one.key.data(), key.data(), key.size()) == 0))
        return one.ranks;
    if (derived_->made.size() >= kKept) derived_->made.pop_back();
    derived_->made.push_front({std::string(what), {key.begin(), key.end()}, make()});
    return derived_->made.front().ranks;
  }

 private:
  static constexpr std::size_t kKept = 8;
  struct Made {
    std::string what;
    Buffer key;
    RankList ranks;
  };
  struct Derived {
    explicit Derived(const Members& members) : all(RankList::below(std::uint32_t(members.size()))) {
      for (const Role role : {Role::worker, Role::server, Role::state_server, Role::witness})
        with[std::size_t(role)] = those_of(all, [&](Rank rank) { return members[rank].is(role); });
    }
    RankList all;
    std::array<RankList, std::size_t(Role::witness) + 1> with;  // by role
    std::deque<Made> made;                                      // newest first
  };

  std::shared_ptr<const Members> members_;
  std::shared_ptr<Derived> derived_;
};

}  // namespace longhaul
