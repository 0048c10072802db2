#include "longhaul/sync/sfb/recovery.h"

#include <algorithm>

#include "longhaul/base/check.h"

namespace longhaul::sync::sfb {

void Recovery::begin(std::vector<Rank> live) {
  live_ = std::move(live);
  reports_.clear();
}

bool Recovery::report(Rank from, std::vector<Round> done) {
  if (!std::binary_search(live_.begin(), live_.end(), from)) return false;
  return reports_.try_emplace(from, std::move(done)).second;
}

std::vector<Rank> Recovery::missing() const {
  std::vector<Rank> ranks;
  for (const Rank rank : live_)
    if (!reports_.contains(rank)) ranks.push_back(rank);
  return ranks;
}

Round Recovery::clocks_of(Rank lost) const { return has(donor(lost), lost); }

Rank Recovery::donor(Rank lost) const {
  LH_CHECK(missing().empty() && !live_.empty());
  Rank donor = live_.front();
  for (const Rank rank : live_)
    if (has(rank, lost) > has(donor, lost)) donor = rank;
  return donor;
}

}  // namespace longhaul::sync::sfb
