#pragma once
// The load of each link under a set of pairs of trees: used to price links during planning, and to
// compute the time of a plan's busiest link.
#include <cstdint>
#include <vector>

#include "longhaul/flow/capacities.h"
#include "longhaul/flow/forest.h"

namespace longhaul::flow {

class TreeLoad {
 public:
  // `at` outlives it.
  explicit TreeLoad(const Capacities& at);

  // Adds `amount` to every link of both trees.
  void add(const TwoTrees&, double amount = 1);
  // Load / rate of the busiest link.
  double fullest() const;
  // The price of each ordered pair, by row: the sum of e^(steep x / x_max) / rate over the links of
  // its path, where x is load / rate.
  std::vector<double> prices(double steep) const;

 private:
  void add(std::size_t from, std::size_t to, double amount);

  const Capacities& at_;
  const std::size_t n_;
  const double unit_;
  std::vector<double> up_, down_, pairs_, shared_;  // what each carries
};

}  // namespace longhaul::flow
