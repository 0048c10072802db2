#pragma once
// Clocks counts what each live worker has completed, and says who may go on at a staleness bound s:
// a worker that has completed c clocks may begin the next if all have completed c - s, so that all
// updates of clocks up to c - s - 1 are in what it reads.
//   Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server",
//   NIPS 2013, section 3.
#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "longhaul/core/types.h"

namespace longhaul::sync::server {

class Clocks {
 public:
  explicit Clocks(const std::vector<Rank>& workers) {
    for (Rank rank : workers) completed_[rank] = 0;
  }
  void complete(Rank rank) {
    if (auto found = completed_.find(rank); found != completed_.end()) ++found->second;
  }
  void lose(Rank rank) { completed_.erase(rank); }
  // It returns, as one of the slowest.
  void join(Rank rank) {
    const std::uint64_t slowest = minimum();
    completed_[rank] = slowest;
  }
  std::uint64_t of(Rank rank) const {
    const auto found = completed_.find(rank);
    return found == completed_.end() ? 0 : found->second;
  }
  // Of the slowest live worker; 0 if none is left.
  std::uint64_t minimum() const {
    const auto slowest =
        std::min_element(completed_.begin(), completed_.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return slowest == completed_.end() ? 0 : slowest->second;
  }
  std::vector<Rank> slowest() const {
    std::vector<Rank> ranks;
    for (const auto& [rank, clock] : completed_)
      if (clock == minimum()) ranks.push_back(rank);
    return ranks;
  }
  void state(auto& ar) { ar(completed_); }

 private:
  std::map<Rank, std::uint64_t> completed_;
};

// May a worker that has completed `clock` go on, knowing that all have completed `minimum`?
inline bool within_bound(std::uint64_t clock, std::uint64_t minimum, std::uint64_t staleness) {
  return clock <= minimum + staleness;
}

}  // namespace longhaul::sync::server
