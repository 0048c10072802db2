#pragma once
// Clustering of a stream of feature vectors as they come (Focus, OSDI 2018, in outline): a vector
// joins the active cluster with the nearest mean, or begins one if none is within T. At most M are
// active; to make room, the one that was joined longest ago retires (ours: retiring the smallest
// would retire the newest). Deterministic: equal vectors in equal order give equal clusters.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"

namespace longhaul::focus {

class Clustering {
  static double distance(std::span<const float> feature, std::span<const double> mean) {
    if (feature.size() != mean.size()) return std::numeric_limits<double>::infinity();
    double sum = 0;
    for (std::size_t i = 0; i < mean.size(); ++i)
      sum += (feature[i] - mean[i]) * (feature[i] - mean[i]);
    return std::sqrt(sum);
  }

 public:
  // threshold: T, a Euclidean distance; 0: every vector begins a cluster. most_active: M, >= 1.
  Clustering(double threshold, std::size_t most_active)
      : threshold_(threshold), most_active_(most_active) {
    LH_CHECK(threshold >= 0 && most_active >= 1);
  }

  struct Joined {
    std::uint64_t cluster = 0;  // numbered from 0 as they begin
    bool begun = false;
  };
  Joined add(std::span<const float> feature) {
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

  // All active ones retire: features that come are not those of before.
  void begin_anew(double threshold) {
    active_.clear();
    threshold_ = threshold;
  }
  std::uint64_t size() const { return next_; }  // clusters so far
  // Of the active ones, by number; empty if it has retired.
  std::vector<double> mean(std::uint64_t cluster) const {
    for (const Active& active : active_)
      if (active.cluster == cluster) return active.mean;
    return {};
  }

  void state(Archive& ar) { ar(threshold_, active_, next_, added_); }

 private:
  struct Active {
    std::uint64_t cluster = 0, count = 0, joined = 0;  // joined: when last, in vectors added
    std::vector<double> mean;
    void state(auto& ar) { ar(cluster, count, joined, mean); }
  };

  double threshold_;
  std::size_t most_active_;
  std::vector<Active> active_;
  std::uint64_t next_ = 0, added_ = 0;
};

}  // namespace longhaul::focus
