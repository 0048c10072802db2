#pragma once
// What a round of groups comes to: the weighted mean of the updates of each group, and of those
// means by the groups' shares.
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

// The shares of the groups by the samples of their members, or alike.
void set_shares(std::vector<Group>&, const std::map<Rank, std::uint64_t>& samples, bool by_data);

// Into `sum`: over the groups with an update, in order, pi_g over their sum of pi, times the mean
// of the group's updates by weight, in order of rank and version. The groups that have none; if it
// is all of them, `sum` stays as it is.
std::set<std::size_t> weigh(const std::vector<Group>&, const Pending&, std::span<double> sum);

}  // namespace longhaul::sync::grouping
