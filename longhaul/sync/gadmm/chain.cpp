#include "longhaul/sync/gadmm/chain.h"

#include <algorithm>
#include <numeric>

#include "longhaul/base/check.h"
#include "longhaul/base/rng.h"

namespace longhaul::sync::gadmm {
namespace {

std::vector<Rank> nearest_first(std::vector<Rank> left, const LinkCost& cost) {
  std::vector<Rank> chain = {left.front()};
  left.erase(left.begin());
  while (!left.empty()) {
    const auto nearest = std::min_element(left.begin(), left.end(), [&](Rank a, Rank b) {
      return cost && cost(chain.back(), a) < cost(chain.back(), b);
    });
    chain.push_back(*nearest);
    left.erase(nearest);
  }
  return chain;
}

// Number `number`, counted round about, of 1 .. n - 1 that have no divisor in common with n.
std::uint64_t stride(std::uint64_t number, std::uint64_t n) {
  std::vector<std::uint64_t> strides;
  for (std::uint64_t s = 1; s < n; ++s)
    if (std::gcd(s, n) == 1) strides.push_back(s);
  return strides.empty() ? 1 : strides[number % strides.size()];
}

}  // namespace

Chains::Chains(Config config, std::vector<Rank> workers, const LinkCost& cost)
    : config_(std::move(config)), workers_(std::move(workers)) {
  LH_CHECK(!workers_.empty());
  if (config_.order == "nearest") nearest_ = nearest_first(workers_, cost);
}

std::vector<Rank> Chains::order(Round iteration) const {
  if (config_.order == "nearest") return nearest_;
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

Position Chains::position(Rank rank, Round iteration, const View& view) const {
  std::vector<Rank> chain = order(iteration);
  std::erase_if(chain, [&](Rank one) { return !view.has(one); });
  const auto found = std::find(chain.begin(), chain.end(), rank);
  LH_CHECK(found != chain.end());
  Position position;
  position.is_head = (found - chain.begin()) % 2 == 0;
  if (found != chain.begin()) position.neighbours.push_back(*(found - 1));
  if (found + 1 != chain.end()) position.neighbours.push_back(*(found + 1));
  std::sort(position.neighbours.begin(), position.neighbours.end());
  return position;
}

}  // namespace longhaul::sync::gadmm
