#include "longhaul/sync/selmcast/rate_meter.h"

#include <algorithm>

namespace longhaul::sync::selmcast {
namespace {

constexpr std::size_t kMeasurements = 8;
constexpr double kMostMeasured = 1e15;  // bytes/s, maximum; the rate of a transfer in no time

std::uint64_t highest(const std::deque<double>& window) {
  return window.empty() ? 0 : std::uint64_t(*std::ranges::max_element(window));
}

// Replaces unknown rates by the least known rate; 1 if none is known.
void fill_unknown(std::vector<double>& rates) {
  double least = kMostMeasured;
  bool is_known = false;
  for (const double rate : rates)
    if (rate > 0) least = std::min(least, rate), is_known = true;
  for (double& rate : rates)
    if (rate <= 0) rate = is_known ? least : 1;
}

}  // namespace

flow::MulticastNetwork network_of(const std::vector<const MeasuredRates*>& measured,
                                  const std::vector<Rank>& live) {
  flow::MulticastNetwork network;
  bool has_pairs = false;
  for (std::size_t i = 0; i < live.size(); ++i) {
    network.up.push_back(double(measured[i]->up));
    network.down.push_back(double(measured[i]->down));
    for (std::size_t j = 0; j < live.size(); ++j) {
      const auto& pairs = measured[i]->pairs;
      // A worker sends no model to itself, so this pair must never be the slowest.
      const bool is_own = i == j;
      const double rate = live[j] < pairs.size() ? double(pairs[live[j]]) : 0;
      network.pairs.push_back(is_own ? kMostMeasured : rate);
      has_pairs |= !is_own && rate > 0;
    }
  }
  fill_unknown(network.up);
  fill_unknown(network.down);
  fill_unknown(network.pairs);
  if (!has_pairs) network.pairs.clear();
  return network;
}

void RateMeter::note(Window& window, std::uint64_t bytes, Time took) {
  if (bytes == 0) return;
  window.push_back(took > Time{0} ? std::min(kMostMeasured, double(bytes) / seconds(took))
                                  : kMostMeasured);
  if (window.size() > kMeasurements) window.pop_front();
}

void RateMeter::sent(Rank to, std::uint64_t bytes, Time took) {
  note(pairs_[to], bytes, took);
  out_bytes_ += bytes;
  out_took_ = std::max(out_took_, took);
}

void RateMeter::end_round(Time took) {
  note(up_, std::exchange(out_bytes_, 0), std::exchange(out_took_, Time{0}));
  note(down_, std::exchange(in_bytes_, 0), took);
}

MeasuredRates RateMeter::rates(std::uint32_t nodes) const {
  MeasuredRates rates{highest(up_), highest(down_), {}};
  if (pairs_.empty()) return rates;
  rates.pairs.resize(nodes);
  for (const auto& [to, window] : pairs_) rates.pairs.at(to) = highest(window);
  return rates;
}

}  // namespace longhaul::sync::selmcast
