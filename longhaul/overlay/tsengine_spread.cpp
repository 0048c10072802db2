#include "longhaul/overlay/tsengine_spread.h"

namespace longhaul::overlay::tsengine {

Spread::Spread(Rank server, const std::vector<Rank>& receivers)
    : lacking_(receivers.size()), going_(receivers.size() + 1) {
  for (const Rank rank : receivers) stands_[rank] = Stand::lacks;
  LH_CHECK(stands_.emplace(server, Stand::has).second);
}

bool Spread::received(Rank rank) {
  const auto stand = stands_.find(rank);
  if (stand == stands_.end() || stand->second >= Stand::has) return false;
  if (stand->second != Stand::said) --lacking_;
  stand->second = Stand::has;
  return true;
}

void Spread::served(Rank rank) {
  Stand& stand = stands_.at(rank);
  if (stand >= Stand::said) return;
  --lacking_;
  stand = Stand::said;
}

void Spread::failed(Rank rank) {
  Stand& stand = stands_.at(rank);
  if (stand == Stand::assigned) stand = Stand::lacks;
}

std::vector<Rank> Spread::candidates(const Slots& slots) const {
  std::vector<Rank> ranks;
  for (const auto& [rank, stand] : stands_)
    if (stand == Stand::lacks && slots.in_free(rank)) ranks.push_back(rank);
  return ranks;
}

void Spread::let_go(Rank rank) {
  LH_CHECK(stands_.at(rank) == Stand::has);
  stands_.at(rank) = Stand::gone;
  --going_;
}

}  // namespace longhaul::overlay::tsengine
