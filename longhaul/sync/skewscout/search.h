#pragma once
// Search chooses how loosely a strategy communicates: hill climbing on an index into a grid that is
// ordered from tight to loose. Ours; the objective follows summaries of
//   Hsieh et al., "The non-IID data quagmire of decentralized machine learning", ICML 2020.
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::skewscout {

// J = loss_weight max(0, AL - tolerance) + cost_weight C
struct Objective {
  double tolerance = 0.05;  // of AL: accuracies in 0 .. 1
  double loss_weight = 50;
  double cost_weight = 1;
  double operator()(double accuracy_loss, double cost) const;
};

class Search {
 public:
  Search(std::uint32_t grid, std::uint32_t start, std::uint64_t forget, Objective objective);

  std::uint32_t index() const { return index_; }
  // Travel `travel` measured this at index(). Moves the index; returns J.
  double measured(Round travel, double accuracy_loss, double cost);
  // How many travels in a row, up to now, were above the tolerance at the tightest index.
  std::uint32_t helpless() const { return helpless_; }

  // For the others, who may have to follow: J of each index, and the travel behind it plus one; 0:
  // none.
  const std::vector<double>& objectives() const { return objectives_; }
  const std::vector<std::uint64_t>& travels() const { return travels_; }
  // As the scout has it. False, and nothing changes: it does not fit the grid.
  bool follow(std::uint32_t index, std::vector<double> objectives,
              std::vector<std::uint64_t> travels);
  void state(Archive& ar) { ar(index_, helpless_, objectives_, travels_); }

 private:
  bool is_known(std::uint32_t index, Round travel) const;

  const std::uint64_t forget_;
  const Objective objective_;
  std::uint32_t index_;
  std::uint32_t helpless_ = 0;
  std::vector<double> objectives_;
  std::vector<std::uint64_t> travels_;
};

}  // namespace longhaul::sync::skewscout
