#include "longhaul/sync/gaia/send_rates.h"

#include <algorithm>

namespace longhaul::sync::gaia {
namespace {

constexpr double kKept = 0.8;  // of what was measured before, with each batch that has left

}  // namespace

void SendRates::queued(Rank to, std::uint64_t bytes, Time now) {
  Link& link = links_[to];
  if (link.queued == 0) link.since = now;
  link.queued += bytes;
}

void SendRates::sent(Rank to, std::uint64_t bytes, Time now) {
  const auto found = links_.find(to);
  if (found == links_.end()) return;
  Link& link = found->second;
  link.bytes = kKept * link.bytes + double(bytes);
  link.seconds = kKept * link.seconds + seconds(now - link.since);
  link.since = now;
  link.queued -= std::min(link.queued, bytes);
}

std::optional<double> SendRates::until_sent(Rank to, std::uint64_t bytes) const {
  const auto found = links_.find(to);
  if (found == links_.end() || found->second.seconds <= 0) return std::nullopt;
  const Link& link = found->second;
  return double(link.queued + bytes) * link.seconds / link.bytes;
}

}  // namespace longhaul::sync::gaia
