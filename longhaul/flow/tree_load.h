#pragma once
// What the links of a network carry for a set of pairs of trees: while a plan is made, to price the
// links by it, and of a plan, to say how long its busiest link takes.
#include <cstdint>
#include <vector>

#include "longhaul/flow/capacities.h"
#include "longhaul/flow/forest.h"

namespace longhaul::flow {

class TreeLoad {
 public:
  // `at` outlives it.
  explicit TreeLoad(const Capacities& at);

  // Every link of both trees carries so much more.
  void add(const TwoTrees&, double amount = 1);
  // Of the link that is busiest: what it carries over its rate.
  double fullest() const;
  // Of each pair, by row: that of each link on its way is e^(steep x / x_max) / rate, where x is
  // what it carries over its rate.
  std::vector<double> prices(double steep) const;

 private:
  void add(std::size_t from, std::size_t to, double amount);

  const Capacities& at_;
  const std::size_t n_;
  const double unit_;
  std::vector<double> up_, down_, pairs_, shared_;  // what each carries
};

}  // namespace longhaul::flow
