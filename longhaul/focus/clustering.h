#pragma once
// Clustering of a stream of feature vectors as they come (Focus, OSDI 2018, in outline): a vector
// joins the active cluster with the nearest mean, or begins one if none is within T. At most M are
// active; to make room, the one that was joined longest ago retires (ours: retiring the smallest
// would retire the newest). Deterministic: equal vectors in equal order give equal clusters.
#include <span>
#include <vector>

#include "longhaul/base/archive.h"

namespace longhaul::focus {

class Clustering {
 public:
  // threshold: T, a Euclidean distance; 0: every vector begins a cluster. most_active: M, >= 1.
  Clustering(double threshold, std::size_t most_active);

  struct Joined {
    std::uint64_t cluster = 0;  // numbered from 0 as they begin
    bool begun = false;
  };
  Joined add(std::span<const float> feature);

  // All active ones retire: features that come are not those of before.
  void begin_anew(double threshold) {
    active_.clear();
    threshold_ = threshold;
  }
  std::uint64_t size() const { return next_; }  // clusters so far
  // Of the active ones, by number; empty if it has retired.
  std::vector<double> mean(std::uint64_t cluster) const;
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
