#pragma once
// The result of a round of groups: the weighted mean of the updates of each group, and the mean of
// those means by the groups' shares.
#include <map>
#include <set>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::grouping {

struct Group {
  std::vector<Rank> members;   // ascending, since groups were made
  double share = 0;            // pi: of the groups together 1
  std::uint32_t missed = 0;    // quotas in a row that it missed at the deadline
  bool one_is_enough = false;  // it has missed two
  void state(auto& ar) { ar(members, share, missed, one_is_enough); }
};

struct Update {
  double weight = 1;  // samples times what lateness leaves
  std::vector<float> values;
  void state(auto& ar) { ar(weight, values); }
};
using Pending = std::map<std::pair<Rank, std::uint64_t>, Update>;  // by (whose, from version)

inline std::vector<const Update*> of_group(const Group& group, const Pending& pending) {
  std::vector<const Update*> found;
  for (Rank rank : group.members)
    for (auto it = pending.lower_bound({rank, 0}); it != pending.end() && it->first.first == rank;
         ++it)
      found.push_back(&it->second);
  return found;
}

// Sets the groups' shares by the samples of their members, or equal if not `by_data`.
inline void set_shares(std::vector<Group>& groups, const std::map<Rank, std::uint64_t>& samples,
                       bool by_data) {
  double all = 0;
  for (Group& group : groups) {
    group.share = 0;
    for (Rank rank : group.members) {
      const auto found = samples.find(rank);
      group.share += found == samples.end() || found->second == 0 ? 1 : double(found->second);
    }
    if (!by_data) group.share = 1;
    all += group.share;
  }
  for (Group& group : groups) group.share /= all;
}

// Writes to `sum` the groups' means, each times pi_g over the sum of pi of the groups with an
// update. A group's mean is that of its updates by weight, in order of rank and version. Returns
// the groups without an update; if no group has one, `sum` is unchanged.
inline std::set<std::size_t> weigh(const std::vector<Group>& groups, const Pending& pending,
                                   std::span<double> sum) {
  std::set<std::size_t> without;
  double shares = 0;
  for (std::size_t g = 0; g < groups.size(); ++g)
    of_group(groups[g], pending).empty() ? (void)without.insert(g)
                                         : (void)(shares += groups[g].share);
  if (without.size() == groups.size()) return without;
  for (double& s : sum) s = 0;
  for (const Group& group : groups) {
    const std::vector<const Update*> updates = of_group(group, pending);
    double weights = 0;
    for (const Update* u : updates) weights += u->weight;
    for (const Update* u : updates) {
      const double factor = group.share / shares * (u->weight / weights);
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += factor * double(u->values[k]);
    }
  }
  return without;
}

}  // namespace longhaul::sync::grouping
