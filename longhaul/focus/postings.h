#pragma once
// The index itself: which clusters are posted under which class. It only grows.
#include <algorithm>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"

namespace longhaul::focus {

// The K classes of the highest scores, best first; ties: the lower class.
inline std::vector<std::uint32_t> top_classes(std::span<const double> scores, std::size_t k) {
  std::vector<std::uint32_t> classes(scores.size());
  for (std::uint32_t c = 0; c < classes.size(); ++c) classes[c] = c;
  k = std::min(k, classes.size());
  std::partial_sort(classes.begin(), classes.begin() + std::ptrdiff_t(k), classes.end(),
                    [&](std::uint32_t a, std::uint32_t b) {
                      return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
                    });
  classes.resize(k);
  return classes;
}

class Postings {
 public:
  struct Posting {
    std::uint64_t cluster = 0;
    double score = 0;       // of the class, when it was posted
    std::uint64_t seq = 0;  // of the object with which it was
    void state(auto& ar) { ar(cluster, score, seq); }
  };

  explicit Postings(std::size_t classes) : lists_(classes) {}

  // A cluster is posted under a class once: its owner knows.
  void post(std::uint32_t cls, const Posting& posting) { lists_.at(cls).push_back(posting); }
  std::span<const Posting> of(std::uint32_t cls) const { return lists_.at(cls); }
  std::size_t classes() const { return lists_.size(); }
  void state(Archive& ar) { ar(lists_); }

 private:
  std::vector<std::vector<Posting>> lists_;
};

}  // namespace longhaul::focus
