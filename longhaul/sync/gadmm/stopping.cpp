#include "longhaul/sync/gadmm/stopping.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace longhaul::sync::gadmm {

void Stopping::begin(Round first) {
  next_ = first;
  since_.reset();
  // Others may be in that round already.
  std::erase_if(figures_, [&](const auto& one) { return one.first < first; });
}

void Stopping::add(Rank from, Round round, double figure) {
  if (is_on() && round >= next_ && !fired_) figures_[round][from] = figure;
}

std::vector<Stopping::Judged> Stopping::judge(const std::vector<Rank>& live) {
  std::vector<Judged> all;
  while (is_on() && !fired_ && missing(live).empty()) {
    double sum = -config_.least, most = std::numeric_limits<double>::lowest();
    const auto told = figures_.extract(next_);
    for (const auto& [rank, figure] : told.mapped()) {  // in rank order
      sum += figure;
      most = std::max(most, figure - config_.least);
    }
    const double error = wants_scores() ? most : sum;
    const bool is_within = (wants_scores() ? error : std::abs(error)) < config_.tolerance;
    if (!is_within) since_.reset();
    if (is_within && !since_) since_ = next_;
    const Round hold = config_.rule == "settled" ? config_.hold : 1;
    if (since_ && next_ + 1 - *since_ >= hold) fired_ = since_;
    all.push_back({next_++, error});
  }
  if (fired_) figures_.clear();
  return all;
}

std::vector<Rank> Stopping::missing(const std::vector<Rank>& live) const {
  const auto told = figures_.find(next_);
  std::vector<Rank> ranks;
  for (const Rank rank : live)
    if (told == figures_.end() || !told->second.contains(rank)) ranks.push_back(rank);
  return ranks;
}

}  // namespace longhaul::sync::gadmm
