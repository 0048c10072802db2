#include "longhaul/focus/clustering.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace longhaul::focus {
namespace {

double distance(std::span<const float> feature, std::span<const double> mean) {
  if (feature.size() != mean.size()) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (std::size_t i = 0; i < mean.size(); ++i)
    sum += (feature[i] - mean[i]) * (feature[i] - mean[i]);
  return std::sqrt(sum);
}

}  // namespace

Clustering::Clustering(double threshold, std::size_t most_active)
    : threshold_(threshold), most_active_(most_active) {
  LH_CHECK(threshold >= 0 && most_active >= 1);
}

Clustering::Joined Clustering::add(std::span<const float> feature) {
  ++added_;
  if (threshold_ == 0) return {next_++, true};  // no mean is ever asked for
  Active* nearest = nullptr;
  double least = threshold_;
  for (Active& active : active_)
    if (const double d = distance(feature, active.mean); d < least || (!nearest && d == least)) {
      nearest = &active;
      least = d;
    }
  if (nearest) {
    ++nearest->count;
    nearest->joined = added_;
    for (std::size_t i = 0; i < feature.size(); ++i)
      nearest->mean[i] += (feature[i] - nearest->mean[i]) / double(nearest->count);
    return {nearest->cluster, false};
  }
  if (active_.size() == most_active_)
    active_.erase(
        std::min_element(active_.begin(), active_.end(),
                         [](const Active& a, const Active& b) { return a.joined < b.joined; }));
  active_.push_back({next_, 1, added_, {feature.begin(), feature.end()}});
  return {next_++, true};
}

std::vector<double> Clustering::mean(std::uint64_t cluster) const {
  for (const Active& active : active_)
    if (active.cluster == cluster) return active.mean;
  return {};
}

}  // namespace longhaul::focus
