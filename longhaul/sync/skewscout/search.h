#pragma once
// Search chooses how loosely a strategy communicates: hill climbing on an index into a grid that is
// ordered from tight to loose. The search is our design; the objective follows summaries of
//   Hsieh et al., "The non-IID data quagmire of decentralized machine learning", ICML 2020.
#include <algorithm>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/check.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::skewscout {

// J = loss_weight max(0, AL - tolerance) + cost_weight C
struct Objective {
  double tolerance = 0.05;  // of AL: accuracies in 0 .. 1
  double loss_weight = 50;
  double cost_weight = 1;
  double operator()(double accuracy_loss, double cost) const {
    return loss_weight * std::max(0.0, accuracy_loss - tolerance) + cost_weight * cost;
  }
};

class Search {
 public:
  Search(std::uint32_t grid, std::uint32_t start, std::uint64_t forget, Objective objective)
      : forget_(forget),
        objective_(objective),
        index_(start),
        objectives_(grid, 0),
        travels_(grid, 0) {
    LH_CHECK(start < grid);
  }

  std::uint32_t index() const { return index_; }
  // Takes the measurement of travel `travel` at index(). Moves the index; returns J.
  double measured(Round travel, double accuracy_loss, double cost) {
    const std::uint32_t i = index_;
    const double j = objectives_[i] = objective_(accuracy_loss, cost);
    travels_[i] = travel + 1;
    const bool is_too_loose = accuracy_loss > objective_.tolerance;
    helpless_ = is_too_loose && i == 0 ? helpless_ + 1 : 0;
    if (is_too_loose) {
      // Never explores looser now.
      if (i > 0 && (!is_known(i - 1, travel) || objectives_[i - 1] < j)) --index_;
      return j;
    }
    if (i + 1 < objectives_.size() && !is_known(i + 1, travel)) {
      ++index_;
      return j;
    }
    for (const std::uint32_t other : {i + 1, i - 1})  // i - 1 of 0 is beyond the grid
      if (is_known(other, travel) && objectives_[other] < objectives_[index_]) index_ = other;
    return j;
  }

  // Returns the number of latest travels in a row above the tolerance at the tightest index.
  std::uint32_t helpless() const { return helpless_; }

  // Return the state for the other nodes, which may have to follow: J of each index, and the travel
  // that measured it plus one; 0: none.
  const std::vector<double>& objectives() const { return objectives_; }
  const std::vector<std::uint64_t>& travels() const { return travels_; }
  // Adopts the scout's state. Returns false and changes nothing if it does not fit the grid.
  bool follow(std::uint32_t index, std::vector<double> objectives,
              std::vector<std::uint64_t> travels) {
    if (index >= objectives_.size() || objectives.size() != objectives_.size() ||
        travels.size() != travels_.size())
      return false;
    index_ = index;
    objectives_ = std::move(objectives);
    travels_ = std::move(travels);
    return true;
  }

  void state(Archive& ar) { ar(index_, helpless_, objectives_, travels_); }

 private:
  bool is_known(std::uint32_t index, Round travel) const {
    return index < travels_.size() && travels_[index] > 0 &&
           travel + 1 - travels_[index] <= forget_;
  }

  const std::uint64_t forget_;
  const Objective objective_;
  std::uint32_t index_;
  std::uint32_t helpless_ = 0;
  std::vector<double> objectives_;
  std::vector<std::uint64_t> travels_;
};

}  // namespace longhaul::sync::skewscout
