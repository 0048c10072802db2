#pragma once
// The load of each link under a set of pairs of trees: used to price links during planning, and to
// compute the time of a plan's busiest link.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "longhaul/flow/capacities.h"
#include "longhaul/flow/forest.h"

namespace longhaul::flow {

class TreeLoad {
 public:
  // `at` outlives it.
  explicit TreeLoad(const Capacities& at)
      : at_(at),
        n_(at.sites),
        unit_(at.largest()),
        up_(n_),
        down_(n_),
        pairs_(n_ * n_),
        shared_(at.shared.size()) {}

  // Adds `amount` to every link of both trees.
  void add(const TwoTrees& trees, double amount = 1) {
    for (std::uint32_t site = 0; site < n_; ++site) {
      if (site == trees.root) continue;
      add(site, trees.reduce_to[site], amount);
      add(trees.spread_from[site], site, amount);
    }
  }

  // Load / rate of the busiest link.
  double fullest() const {
    double fullest = 0;
    const auto see = [&](double carried, double rate) {
      fullest = std::max(fullest, carried / rate);
    };
    for (std::size_t a = 0; a < n_; ++a) {
      see(up_[a], at_.up[a]);
      see(down_[a], at_.down[a]);
      for (std::size_t b = 0; b < n_; ++b)
        if (a != b) see(pairs_[a * n_ + b], at_.pair(a, b));
    }
    for (std::size_t link = 0; link < shared_.size(); ++link)
      see(shared_[link], at_.shared[link].rate);
    return fullest;
  }

  // The price of each ordered pair, by row: the sum of e^(steep x / x_max) / rate over the links of
  // its path, where x is load / rate.
  std::vector<double> prices(double steep) const {
    const double fullest = this->fullest();
    const auto price = [&](double carried, double rate) {
      const double share = fullest > 0 ? carried / rate / fullest : 0;
      return std::exp(steep * share) / rate * unit_;
    };
    std::vector<double> prices(n_ * n_);
    for (std::size_t a = 0; a < n_; ++a)
      for (std::size_t b = 0; b < n_; ++b)
        if (a != b)
          prices[a * n_ + b] = price(up_[a], at_.up[a]) + price(down_[b], at_.down[b]) +
                               price(pairs_[a * n_ + b], at_.pair(a, b));
    for (std::size_t link = 0; link < shared_.size(); ++link)
      for (const auto& [a, b] : at_.shared[link].pairs)
        prices[a * n_ + b] += price(shared_[link], at_.shared[link].rate);
    return prices;
  }

 private:
  void add(std::size_t from, std::size_t to, double amount) {
    up_[from] += amount;
    down_[to] += amount;
    pairs_[from * n_ + to] += amount;
    for (std::size_t link = 0; link < shared_.size(); ++link)
      for (const auto& [a, b] : at_.shared[link].pairs)
        if (a == from && b == to) shared_[link] += amount;
  }

  const Capacities& at_;
  const std::size_t n_;
  const double unit_;
  std::vector<double> up_, down_, pairs_, shared_;  // what each carries
};

}  // namespace longhaul::flow
