#pragma once
// Watchers that hold a run to its promises, and one that boils it down to a number.
#include <deque>
#include <map>
#include <set>

#include "longhaul/sim/watcher.h"

namespace longhaul::sim {

// XXH64 chained over every action and every delivery, with its time, nodes and bytes: equal runs,
// equal hashes.
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

// Reliable messages arrive once and in order per (from, to, class); none comes to or from the
// grave: nothing is handed to a crashed node, nothing is delivered that was not sent.
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

// All nodes that reach an epoch see the same list, and each sees epochs in ascending order.
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
