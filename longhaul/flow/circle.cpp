#include "longhaul/flow/circle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "longhaul/base/check.h"

namespace longhaul::flow {
namespace {

using Places = std::vector<std::uint32_t>;
constexpr double kNoWay = -std::numeric_limits<double>::infinity();

class Rates {
 public:
  Rates(std::uint32_t n, const HopRate& rate) : n_(n), rates_(std::size_t(n) * n) {
    double fastest = 0;
    for (std::uint32_t from = 0; from < n; ++from)
      for (std::uint32_t to = 0; to < n; ++to) {
        const double one = from == to ? 0 : rate(from, to);
        LH_CHECK(one >= 0);
        rates_[std::size_t(from) * n + to] = one;
        if (std::isfinite(one)) fastest = std::max(fastest, one);
      }
    for (double& one : rates_)
      if (!std::isfinite(one)) one = fastest > 0 ? fastest : 1;
  }
  std::uint32_t size() const { return n_; }
  double operator()(std::uint32_t from, std::uint32_t to) const {
    return rates_[std::size_t(from) * n_ + to];
  }

 private:
  const std::uint32_t n_;
  std::vector<double> rates_;
};

Circle measured(Places order, const Rates& rate) {
  Circle circle{
      .order = std::move(order), .slowest = std::numeric_limits<double>::infinity(), .sum = 0};
  for (std::size_t i = 0; i < circle.order.size(); ++i) {
    const double hop = rate(circle.order[i], circle.order[(i + 1) % circle.order.size()]);
    circle.slowest = std::min(circle.slowest, hop);
    circle.sum += hop;
  }
  return circle;
}

bool is_better(const Circle& a, const Circle& b) {
  return std::pair(a.slowest, a.sum) > std::pair(b.slowest, b.sum);
}

// Returns the order of greatest worth: the best path home from each place, for each set of places
// still to visit. A set is a mask without place 0. `join` computes the worth of a path from its
// first hop and the rest.
template <class Join>
Places best_way(const Rates& rate, Join&& join) {
  const std::uint32_t n = rate.size();
  const std::uint32_t all = (1u << (n - 1)) - 1;
  const auto bit = [](std::uint32_t place) { return 1u << (place - 1); };
  std::vector<double> worth((std::size_t(all) + 1) * n, kNoWay);
  std::vector<std::uint32_t> next(worth.size());
  for (std::uint32_t left = 0; left <= all; ++left)
    for (std::uint32_t at = 0; at < n; ++at) {
      const std::size_t here = std::size_t(left) * n + at;
      if (left == 0) worth[here] = join(rate(at, 0), std::nullopt);
      for (std::uint32_t to = 1; to < n; ++to) {
        if ((left & bit(to)) == 0 || to == at) continue;
        const double probe_rtt = worth[std::size_t(left & ~bit(to)) * n + to];
        const double one = join(rate(at, to), probe_rtt);
        if (one > worth[here]) worth[here] = one, next[here] = to;
      }
    }
  Places order = {0};
  for (std::uint32_t left = all; left != 0; left &= ~bit(order.back()))
    order.push_back(next[std::size_t(left) * n + order.back()]);
  return order;
}

// First how fast the slowest hop can be, then the largest sum over hops that are no slower.
Places exact(const Rates& rate) {
  const double slowest = measured(best_way(rate,
                                           [](double hop, std::optional<double> probe_rtt) {
                                             return std::min(hop, probe_rtt.value_or(hop));
                                           }),
                                  rate)
                             .slowest;
  return best_way(rate, [&](double hop, std::optional<double> probe_rtt) {
    return hop < slowest ? kNoWay : hop + probe_rtt.value_or(0);
  });
}

Places fastest_next(const Rates& rate) {
  Places order = {0}, left(rate.size() - 1);
  std::iota(left.begin(), left.end(), 1u);
  while (!left.empty()) {
    const auto next = std::max_element(left.begin(), left.end(), [&](auto a, auto b) {
      return rate(order.back(), a) < rate(order.back(), b);
    });
    order.push_back(*next);
    left.erase(next);
  }
  return order;
}

// Reverses ranges of the circle while that makes it better.
Circle two_opt(Circle circle, const Rates& rate) {
  constexpr std::uint64_t kMaxHops = 20'000'000;  // looked at; a tenth of a second
  std::uint64_t hops = 0;
  const std::size_t n = circle.order.size();
  for (bool better = true; better;) {
    better = false;
    for (std::size_t first = 1; first + 1 < n; ++first)
      for (std::size_t last = first + 1; last < n; ++last) {
        if ((hops += n) > kMaxHops) return circle;
        Places order = circle.order;
        std::reverse(order.begin() + std::ptrdiff_t(first),
                     order.begin() + std::ptrdiff_t(last) + 1);
        Circle turned = measured(std::move(order), rate);
        if (!is_better(turned, circle)) continue;
        circle = std::move(turned);
        better = true;
      }
  }
  return circle;
}

}  // namespace

Circle best_circle(std::uint32_t n, const HopRate& rate) {
  LH_CHECK(n > 0);
  if (n == 1) return {.order = {0}};
  const Rates rates(n, rate);
  if (n <= kMaxExactCircle) return measured(exact(rates), rates);
  return two_opt(measured(fastest_next(rates), rates), rates);
}

}  // namespace longhaul::flow
