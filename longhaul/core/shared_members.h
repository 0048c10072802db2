#pragma once
// The members of a job, and what every node derives from them alike. Copies share all of it, so
// that a simulation of n nodes holds it once.
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/base/bytes.h"
#include "longhaul/core/rank_list.h"

namespace longhaul {

// A witness trains nothing and serves nothing: it counts where a majority has to agree, so that one
// of two sites can go on without the other.
enum class Role : std::uint8_t { worker = 1, server = 2, state_server = 4, witness = 8 };

struct Member {
  std::string site;
  std::uint32_t rank_in_site = 0;
  // Of the node itself: 0 if it is there from the beginning; else it comes back to a run that has
  // declared it lost, knows nothing of it and has to be let in. Of the others: 0.
  std::uint32_t incarnation = 0;
  std::uint8_t roles = std::uint8_t(Role::worker);

  bool is(Role role) const { return (roles & std::uint8_t(role)) != 0; }
};
using Members = std::vector<Member>;  // index = rank

// A pointer to Members that never change. One thread, that of the nodes which share it.
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
  // make(), which gives every node the same ranks for the same `key`: called by the first node that
  // asks, kept until kKept others were made. `what`: tells kinds of keys apart.
  template <class Make>
  RankList once(std::string_view what, std::span<const std::byte> key, Make&& make) const {
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
      for (const Role role : {Role::worker, Role::server, Role::state_server, Role::witness}) {
        std::vector<Rank> ranks;
        for (const Rank rank : all)
          if (members[rank].is(role)) ranks.push_back(rank);
        with[std::size_t(role)] = std::move(ranks);
      }
    }
    RankList all;
    std::array<RankList, std::size_t(Role::witness) + 1> with;  // by role
    std::deque<Made> made;                                      // the newest first
  };

  std::shared_ptr<const Members> members_;
  std::shared_ptr<Derived> derived_;
};

}  // namespace longhaul
