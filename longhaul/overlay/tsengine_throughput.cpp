#include "longhaul/overlay/tsengine_throughput.h"

#include <algorithm>

namespace longhaul::overlay::tsengine {

void Throughput::learn(Rank from, Rank to, std::uint64_t bytes, Time elapsed, Round round) {
  const double rate = double(bytes) / seconds(std::max(elapsed, Time{1}));
  const auto known = of(from, to, round);
  links_[{from, to}] = {known ? weight_ * rate + (1 - weight_) * *known : rate, round};
}

void Throughput::failed(Rank from, Rank to, Round round) { links_[{from, to}] = {0, round}; }

std::optional<double> Throughput::of(Rank from, Rank to, Round now) const {
  const auto link = links_.find({from, to});
  if (link == links_.end() || old(link->second, now)) return std::nullopt;
  return link->second.rate;
}

void Throughput::forget(Round now) {
  std::erase_if(links_, [&](const auto& entry) { return old(entry.second, now); });
}

}  // namespace longhaul::overlay::tsengine
