#include "longhaul/transfer/dgt/ranking.h"

#include <algorithm>
#include <cmath>

#include "longhaul/base/decimal.h"

namespace longhaul::transfer::dgt {
namespace {

using Order = std::vector<std::uint32_t>;

// The blocks that are offered, by tensor; both ascending.
std::vector<Order> offered_by_tensor(std::span<const Block> blocks, std::span<const float> c) {
  LH_CHECK(blocks.size() == c.size());
  std::vector<Order> tensors;
  for (std::uint32_t s = 0; s < blocks.size(); ++s) {
    if (s == 0 || blocks[s].tensor != blocks[s - 1].tensor) tensors.emplace_back();
    if (c[s] != 0) tensors.back().push_back(s);
  }
  return tensors;
}

std::size_t reliable_of(std::size_t n, double k) {
  return std::min(n, std::size_t(whole_nearest(k * double(n))));
}

// `order` has the blocks of one tensor in the order of their ranks.
void deal(const Order& order, double k, Ranking& ranking) {
  const std::size_t n = order.size(), m = reliable_of(n, k), u = ranking.channels.size() - 1;
  for (std::size_t j = 0; j < n; ++j)
    ranking.channels[j < m ? 0 : 1 + (j - m) * u / (n - m)].push_back(order[j]);
}

}  // namespace

float mean_magnitude(std::span<const float> values) {
  double sum = 0;
  for (const float v : values) sum += std::fabs(double(v));
  return values.empty() ? 0 : float(sum / double(values.size()));
}

float Contributions::update(std::uint32_t group, std::uint32_t range, std::uint64_t offset,
                            float magnitude) {
  float& c = c_[{group, range}][offset];
  return c = float(alpha_ * double(c) + (1 - alpha_) * double(magnitude));
}

Ranking rank_blocks(std::span<const Block> blocks, std::span<const float> c, double k,
                    std::uint32_t best_effort_channels) {
  Ranking ranking{std::vector<Order>(1 + best_effort_channels)};
  for (Order& order : offered_by_tensor(blocks, c)) {
    std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) { return c[a] > c[b]; });
    deal(order, k, ranking);
  }
  return ranking;
}

Ranking draw_blocks(std::span<const Block> blocks, std::span<const float> c, double k,
                    std::uint32_t best_effort_channels, bool in_order, Random random) {
  Ranking ranking{std::vector<Order>(1 + best_effort_channels)};
  for (Order& order : offered_by_tensor(blocks, c)) {
    random.shuffle(std::span(order));
    if (in_order) {
      const auto rest = order.begin() + std::ptrdiff_t(reliable_of(order.size(), k));
      std::sort(rest, order.end());
    }
    deal(order, k, ranking);
  }
  return ranking;
}

}  // namespace longhaul::transfer::dgt
