#include "longhaul/sync/shuffle/schedule.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "longhaul/base/check.h"

namespace longhaul::sync::shuffle {
namespace {

std::uint32_t workers_at(const Partition& sites) {
  std::size_t n = 0;
  for (const auto& site : sites) n += site.size();
  return std::uint32_t(n);
}

Partition in_order(Partition groups) {
  for (auto& group : groups) std::ranges::sort(group);
  std::ranges::sort(groups);
  return groups;
}

// The circle method with a place for each site, and if their number is odd one more, of nobody.
// Site 0 stands at place 0; each round all others move on by a place, the last to place 1. Places
// of equal distance from both ends meet.
std::optional<std::size_t> met_by(std::size_t site, std::size_t sites, Round round) {
  const std::size_t places = sites + sites % 2, turns = places - 1;
  const std::size_t moved = std::size_t(round % turns);
  const std::size_t place = site == 0 ? 0 : 1 + (site - 1 + moved) % turns;
  const std::size_t opposite = places - 1 - place;
  const std::size_t other = opposite == 0 ? 0 : 1 + (opposite - 1 + turns - moved) % turns;
  return other < sites ? std::optional(other) : std::nullopt;
}

Round turns_of(std::size_t sites) { return sites + sites % 2 - 1; }

Round pairs_before(Round q, std::size_t site, std::size_t sites) {
  const Round turns = turns_of(sites);
  Round pairs = q / turns * (sites - 1);
  for (Round turn = 0; turn < q % turns; ++turn) pairs += met_by(site, sites, turn).has_value();
  return pairs;
}

}  // namespace

Partition stretches(std::uint32_t n, std::uint32_t count) {
  LH_CHECK(count > 0 && count <= n);
  Partition groups(count);
  std::uint32_t next = 0;
  for (std::uint32_t i = 0; i < count; ++i)
    for (std::uint32_t left = n / count + (i < n % count ? 1 : 0); left > 0; --left)
      groups[i].push_back(next++);
  return groups;
}

std::uint32_t group_count(std::uint32_t n, std::uint32_t b) {
  return std::uint32_t(
      std::max<std::uint64_t>(1, (2 * std::uint64_t(n) + b) / (2 * std::uint64_t(b))));
}

std::uint32_t default_group_size(std::uint32_t n) {
  return std::max(2u, std::uint32_t(std::floor(std::sqrt(double(n)) + 0.5)));
}

Partition published(Round k) {
  return k % 2 == 0 ? Partition{{0, 1}, {2, 3}} : Partition{{0, 3}, {1, 2}};
}

Partition grid(std::uint32_t n, std::uint32_t b, Round k) {
  const Partition rows = stretches(n, group_count(n, b));
  if (k % 2 == 0 || rows.size() == 1) return rows;
  Partition columns(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) columns[i].push_back(row[i]);
  return columns;
}

Partition radix(const std::vector<std::uint32_t>& factors, Round k) {
  if (factors.empty()) return {{0}};
  const std::size_t digit = std::size_t(k % factors.size());
  const auto product = [](auto first, auto last) {
    return std::accumulate(first, last, 1u, std::multiplies<>());
  };
  const auto at = factors.begin() + std::ptrdiff_t(digit);
  const std::uint32_t stride = product(factors.begin(), at);
  const std::uint32_t n = product(factors.begin(), factors.end());
  Partition groups;
  for (std::uint32_t i = 0; i < n; ++i) {
    if (i / stride % *at != 0) continue;
    auto& group = groups.emplace_back();
    for (std::uint32_t value = 0; value < *at; ++value) group.push_back(i + value * stride);
  }
  return groups;
}

std::vector<std::uint32_t> prime_factors(std::uint32_t n) {
  std::vector<std::uint32_t> factors;
  for (std::uint32_t p = 2; n > 1; ++p) {
    if (std::uint64_t(p) * p > n) p = n;
    for (; n % p == 0; n /= p) factors.push_back(p);
  }
  return factors;
}

Partition random(std::uint32_t n, std::uint32_t b, Random draw) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  draw.shuffle(std::span(order));
  Partition groups = stretches(n, group_count(n, b));
  for (auto& group : groups)
    for (std::uint32_t& worker : group) worker = order[worker];
  return in_order(std::move(groups));
}

Round bye_period(std::size_t sites) {
  for (Round period = 5; period > 1; --period)
    if (std::gcd(period, Round(sites - 1)) == 1) return period;
  return 5;
}

Partition topology(const Partition& sites, std::uint32_t cross_every, Round k,
                   std::span<const std::size_t> byes) {
  LH_CHECK(cross_every > 0);
  if (sites.size() < 2 || k % cross_every != cross_every - 1) return in_order(sites);
  const Round q = k / cross_every, turns = turns_of(sites.size());
  const Round period = bye_period(sites.size());
  const auto keeps_out = [&](std::size_t s) { return std::ranges::count(byes, s) > 0; };
  const auto is_due = [&](std::size_t s) {
    return keeps_out(s) && pairs_before(q, s, sites.size()) % period == period - 1;
  };
  Partition groups;
  std::vector<std::uint32_t> crossing(sites.size());
  for (std::size_t s = 0; s < sites.size(); ++s) {
    const Round m = sites[s].size();
    crossing[s] = sites[s][std::size_t((q + q / std::lcm(turns, m)) % m)];
  }
  for (std::size_t s = 0; s < sites.size(); ++s) {
    auto other = met_by(s, sites.size(), q);
    if (other && (keeps_out(s) || keeps_out(*other)) && !is_due(s) && !is_due(*other))
      other.reset();
    if (other && s < *other) groups.push_back({crossing[s], crossing[*other]});
    std::vector<std::uint32_t> local = sites[s];
    if (other) std::erase(local, crossing[s]);
    if (!local.empty()) groups.push_back(std::move(local));
  }
  return in_order(std::move(groups));
}

std::uint32_t default_cross_every(const Partition& sites) {
  bool few = false, several = false;
  for (const auto& site : sites) {
    few |= site.size() < 3;
    several |= site.size() > 1;
  }
  return few && several ? 2 : 1;
}

std::uint32_t Schedule::size_of_groups(std::uint32_t n) const {
  return std::min(n, group_size > 0 ? group_size : default_group_size(n));
}

Partition Schedule::groups(const Partition& sites, Round k, const Random& draw,
                           std::span<const std::size_t> byes) const {
  const std::uint32_t n = workers_at(sites), b = size_of_groups(n);
  if (kind == "published" && n == 4) return published(k);
  if (kind == "radix") return radix(prime_factors(n), k);
  if (kind == "random") return random(n, b, draw);
  if (kind == "topology") return topology(sites, cross_rounds(sites), k, byes);
  return grid(n, b, k);
}

}  // namespace longhaul::sync::shuffle
