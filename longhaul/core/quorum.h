#pragma once
// The members of a view that decide for it: a majority of all members or, if the job names a site,
// a majority of that site's nodes.
#include <algorithm>
#include <vector>

#include "longhaul/core/types.h"

namespace longhaul {

struct Quorum {
  // The ranks of the named site ([net] continue_with), ascending; empty: none is named.
  std::vector<Rank> named = {};

  // Returns the members of `live` whose answers count.
  std::vector<Rank> voters(const auto& live) const {
    std::vector<Rank> voters;
    for (const Rank rank : live)
      if (std::ranges::binary_search(named, rank)) voters.push_back(rank);
    // The named site is not in the view: it has agreed to the view.
    if (voters.empty()) voters.assign(live.begin(), live.end());
    return voters;
  }
  // Returns the number of voters of `live` that must answer.
  std::size_t needed(const auto& live) const { return voters(live).size() / 2 + 1; }
  // Returns true if the ranks with answered(rank) decide for all of `live`.
  bool decides(const auto& live, auto&& answered) const {
    const std::vector<Rank> asked = voters(live);
    return std::size_t(std::ranges::count_if(asked, answered)) > asked.size() / 2;
  }
};

}  // namespace longhaul
