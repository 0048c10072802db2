#pragma once
// Watchers that check invariants of a run, and one that hashes its trace.
#include <deque>
#include <map>
#include <set>

#include "longhaul/sim/watcher.h"

namespace longhaul::sim {

// XXH64 over every action and delivery in order, with time, nodes and bytes: equal runs have equal
// hashes.
class TraceHash final : public Watcher {
 public:
  std::uint64_t value() const { return hash_; }
  void acted(Time, Rank, const Action&) override;
  void delivering(Time, const Packet&) override;
  void crashed(Time, Rank) override;
  void state(Archive& ar) override { ar(hash_); }

 private:
  template <class... T>
  void mix(const T&... values);
  void mix_bytes(const void* data, std::size_t size);
  void mix_message(const Message&);
  std::uint64_t hash_ = 0;
};

// Checks that reliable messages arrive once and in order per (from, to, class), that nothing is
// delivered to a crashed node, and that nothing is delivered that was not sent.
class OrderChecker final : public Watcher {
 public:
  void acted(Time, Rank, const Action&) override;
  void delivering(Time, const Packet&) override;
  void crashed(Time, Rank rank) override { dead_.insert(rank); }
  void restarted(Time, Rank rank) override;
  Status after(const World&, Rank) override;
  void state(Archive& ar) override { ar(sent_, dead_); }

 private:
  using Line = std::tuple<Rank, Rank, unsigned>;  // from, to, class
  std::map<Line, std::deque<std::uint64_t>> sent_;
  std::set<Rank> dead_;
  std::optional<Error> error_;
};

// Checks that all nodes that reach an epoch see the same members, and that epochs ascend at each.
class EpochChecker final : public Watcher {
 public:
  void restarted(Time, Rank rank) override { last_.erase(rank); }
  Status after(const World&, Rank) override;
  void state(Archive& ar) override { ar(lists_, last_); }

 private:
  std::map<Epoch, std::vector<Rank>> lists_;
  std::map<Rank, Epoch> last_;
};

}  // namespace longhaul::sim
