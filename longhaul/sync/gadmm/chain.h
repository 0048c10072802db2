#pragma once
// The chain along which the workers of GADMM exchange models. It is a pure function of the job and
// the iteration: every worker computes it by itself, with the same result.
//   Elgabli et al., "GADMM", JMLR 2020; chains that change: D-GADMM in the same paper.
#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/base/rng.h"
#include "longhaul/core/place.h"

namespace longhaul::sync::gadmm {

// The cost of a link, used only to order links: here the round trip in seconds. Null: all are
// equal.
using LinkCost = std::function<double(Rank, Rank)>;

// A worker's position. Heads are at even positions and solve first, tails at odd ones.
struct Position {
  bool is_head = true;
  std::vector<Rank> neighbours;  // at most two, or all others at a star's hub; ascending
};

class Chains {
  static std::vector<Rank> nearest_first(std::vector<Rank> left, const LinkCost& cost,
                                         std::size_t first = 0) {
    std::vector<Rank> chain = {left.at(first)};
    left.erase(left.begin() + std::ptrdiff_t(first));
    while (!left.empty()) {
      const auto nearest = std::ranges::min_element(left, [&](Rank a, Rank b) {
        return cost && cost(chain.back(), a) < cost(chain.back(), b);
      });
      chain.push_back(*nearest);
      left.erase(nearest);
    }
    return chain;
  }

  static double largest_cost(const std::vector<Rank>& chain, const LinkCost& cost) {
    double most = 0;
    for (std::size_t k = 1; k < chain.size(); ++k)
      most = std::max(most, cost(chain[k - 1], chain[k]));
    return most;
  }

  // Returns a path through all workers over edges of at most `most`; empty if there is none. Uses
  // dynamic programming over sets of workers (Held and Karp, "A dynamic programming approach to
  // sequencing problems", 1962).
  static std::vector<Rank> path_within(const std::vector<Rank>& workers, const LinkCost& cost,
                                       double most) {
    const std::size_t n = workers.size();
    std::vector<std::uint32_t> near(n, 0);  // sets of workers, as all below
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < n; ++b)
        if (a != b && cost(workers[a], workers[b]) <= most) near[a] |= 1u << b;
    // For each set of workers, those at which a path through all of them can end.
    std::vector<std::uint32_t> ends(std::size_t(1) << n, 0);
    for (std::size_t a = 0; a < n; ++a) ends[std::size_t(1) << a] = 1u << a;
    for (std::uint32_t set = 1; set < ends.size(); ++set)
      for (std::size_t a = 0; a < n; ++a)
        if ((set >> a & 1) != 0 && (ends[set & ~(1u << a)] & near[a]) != 0) ends[set] |= 1u << a;
    std::uint32_t left = std::uint32_t(ends.size() - 1), ending = ends[left];
    std::vector<Rank> path;
    while (ending != 0) {
      const auto a = std::size_t(std::countr_zero(ending));  // lowest rank if several
      path.push_back(workers[a]);
      left &= ~(1u << a);
      ending = ends[left] & near[a];
    }
    return path;
  }

  static std::vector<Rank> least_bottleneck(const std::vector<Rank>& workers,
                                            const LinkCost& cost) {
    if (!cost) return workers;
    std::vector<Rank> best;
    if (workers.size() > Chains::kMostSearched) {
      for (std::size_t first = 0; first < workers.size(); ++first) {
        const std::vector<Rank> chain = nearest_first(workers, cost, first);
        if (best.empty() || largest_cost(chain, cost) < largest_cost(best, cost)) best = chain;
      }
      return best;
    }
    std::vector<double> costs = {0};
    for (const Rank a : workers)
      for (const Rank b : workers)
        if (a != b) costs.push_back(cost(a, b));
    std::ranges::sort(costs);
    const auto enough = std::ranges::partition_point(
        costs, [&](double most) { return path_within(workers, cost, most).empty(); });
    return path_within(workers, cost, enough == costs.end() ? costs.back() : *enough);
  }

  // Returns the stride with this number, cyclically, among 1 .. n - 1 without a common divisor with
  // n.
  static std::uint64_t stride(std::uint64_t number, std::uint64_t n) {
    std::vector<std::uint64_t> strides;
    for (std::uint64_t s = 1; s < n; ++s)
      if (std::gcd(s, n) == 1) strides.push_back(s);
    return strides.empty() ? 1 : strides[number % strides.size()];
  }

 public:
  struct Config {
    // "rank": ranks ascending. "nearest": from the first worker on, always the nearest one left, or
    // the lower rank of two. "bottleneck": the largest cost of an edge is minimal (with more than
    // kMostSearched workers: the best "nearest" chain over all first workers). "random": drawn
    // again for each chain. "strides": chain e has worker k s mod n at position k. s is number e,
    // cyclically, of the numbers below n without a common divisor with n. With two workers all
    // chains are equal. "star": no chain; the last worker is the neighbour of all others, which are
    // heads.
    std::string order = "rank";
    Round every = 0;  // iterations per chain; 0: one chain for the whole run
    std::uint64_t seed = 0;
  };
  static constexpr std::size_t kMostSearched = 16;

  // `workers`: those at the start of the run, ascending. `cost`: for "nearest" and "bottleneck".
  Chains(Config config, std::vector<Rank> workers, const LinkCost& cost)
      : config_(std::move(config)), workers_(std::move(workers)) {
    LH_CHECK(!workers_.empty());
    if (config_.order == "nearest") planned_ = nearest_first(workers_, cost);
    if (config_.order == "bottleneck") planned_ = least_bottleneck(workers_, cost);
  }

  std::uint64_t number(Round iteration) const {
    return config_.every == 0 ? 0 : iteration / config_.every;
  }
  // Returns true for the first iteration of each chain but the first one.
  bool is_first(Round iteration) const {
    return config_.every > 0 && iteration > 0 && iteration % config_.every == 0;
  }
  // Returns the chain of all workers at the start.
  std::vector<Rank> order(Round iteration) const {
    if (!planned_.empty()) return planned_;
    std::vector<Rank> chain = workers_;
    if (config_.order == "random") {
      Random random(config_.seed, {.purpose = Purpose::members, .round = number(iteration)});
      random.shuffle(std::span(chain));
    } else if (config_.order == "strides") {
      const std::uint64_t n = workers_.size(), s = stride(number(iteration), n);
      for (std::uint64_t k = 0; k < n; ++k) chain[k] = workers_[k * s % n];
    }
    return chain;
  }

  // Returns the position among the live workers: the chain closes over gaps, so later workers move
  // up.
  Position position(Rank rank, Round iteration, const View& view) const {
    std::vector<Rank> chain = order(iteration);
    std::erase_if(chain, [&](Rank one) { return !view.has(one); });
    const auto found = std::ranges::find(chain, rank);
    LH_CHECK(found != chain.end());
    Position position;
    if (config_.order == "star") {
      position.is_head = rank != chain.back();
      if (position.is_head) return {true, {chain.back()}};
      chain.pop_back();
      return {chain.empty(), chain};
    }
    position.is_head = (found - chain.begin()) % 2 == 0;
    if (found != chain.begin()) position.neighbours.push_back(*(found - 1));
    if (found + 1 != chain.end()) position.neighbours.push_back(*(found + 1));
    std::ranges::sort(position.neighbours);
    return position;
  }

 private:
  const Config config_;
  const std::vector<Rank> workers_;
  std::vector<Rank> planned_;  // chain by the costs; else empty
};

}  // namespace longhaul::sync::gadmm
