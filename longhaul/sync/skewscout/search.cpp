#include "longhaul/sync/skewscout/search.h"

#include <algorithm>

#include "longhaul/base/check.h"

namespace longhaul::sync::skewscout {

double Objective::operator()(double accuracy_loss, double cost) const {
  return loss_weight * std::max(0.0, accuracy_loss - tolerance) + cost_weight * cost;
}

Search::Search(std::uint32_t grid, std::uint32_t start, std::uint64_t forget, Objective objective)
    : forget_(forget),
      objective_(objective),
      index_(start),
      objectives_(grid, 0),
      travels_(grid, 0) {
  LH_CHECK(start < grid);
}

bool Search::is_known(std::uint32_t index, Round travel) const {
  return index < travels_.size() && travels_[index] > 0 && travel + 1 - travels_[index] <= forget_;
}

double Search::measured(Round travel, double accuracy_loss, double cost) {
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

bool Search::follow(std::uint32_t index, std::vector<double> objectives,
                    std::vector<std::uint64_t> travels) {
  if (index >= objectives_.size() || objectives.size() != objectives_.size() ||
      travels.size() != travels_.size())
    return false;
  index_ = index;
  objectives_ = std::move(objectives);
  travels_ = std::move(travels);
  return true;
}

}  // namespace longhaul::sync::skewscout
