#include "longhaul/learn/data/partition.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "longhaul/base/decimal.h"
#include "longhaul/base/rng.h"
#include "longhaul/learn/data/errors.h"

namespace longhaul::learn {
namespace {

using Samples = std::vector<std::uint32_t>;

// Streams of one partition: 0 for what concerns all samples, 1 + l for label l.
Random draws(std::uint64_t seed, std::uint64_t stream) {
  return Random(seed, {.purpose = Purpose::partition, .round = stream});
}

Samples all_samples(const DataSet& data) {
  Samples all(data.size());
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

Samples shuffled(const DataSet& data, std::uint64_t seed) {
  Samples all = all_samples(data);
  draws(seed, 0).shuffle(std::span(all));
  return all;
}

// Cuts `samples` so that part i has counts[i] of them.
Shards deal(const Samples& samples, const std::vector<std::size_t>& counts) {
  Shards shards;
  auto at = samples.begin();
  for (const std::size_t count : counts) {
    shards.emplace_back(at, at + std::ptrdiff_t(count));
    at += std::ptrdiff_t(count);
  }
  LH_CHECK(at == samples.end());
  return shards;
}

std::vector<std::size_t> equal_counts(std::size_t samples, std::size_t parts) {
  std::vector<std::size_t> counts(parts, samples / parts);
  for (std::size_t i = 0; i < samples % parts; ++i) ++counts[i];
  return counts;
}

// Whole numbers in proportion to `weights` that add up to `total`, by largest remainder; the
// earlier of two equal remainders is rounded up.
std::vector<std::size_t> proportional_counts(std::size_t total,
                                             const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::size_t> counts, order(weights.size());
  std::vector<double> remainders;
  std::size_t left = total;
  for (const double weight : weights) {
    const double exact = double(total) * (weight / sum);
    counts.push_back(std::min(left, std::size_t(exact)));
    remainders.push_back(exact - double(counts.back()));
    left -= counts.back();
  }
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](auto a, auto b) { return remainders[a] > remainders[b]; });
  for (std::size_t i = 0; left > 0; i = (i + 1) % order.size(), --left) ++counts[order[i]];
  return counts;
}

std::vector<double> dirichlet(Random& random, std::size_t sites, double alpha) {
  std::vector<double> shares(sites);
  double sum = 0;
  for (double& share : shares) sum += share = random.gamma(alpha);
  if (sum > 0 && std::isfinite(sum)) return shares;
  shares.assign(sites, 0.0);  // alpha so small that all shares underflow: one site has it all
  shares[random.below(sites)] = 1;
  return shares;
}

void give_everyone_one(Shards& shards) {
  for (Samples& shard : shards) {
    if (!shard.empty()) continue;
    Samples& most = *std::ranges::max_element(
        shards, [](const Samples& a, const Samples& b) { return a.size() < b.size(); });
    shard.push_back(most.back());
    most.pop_back();
  }
}

Shards by_dirichlet(const DataSet& data, std::size_t sites, double alpha, std::uint64_t seed) {
  std::vector<Samples> of_label(data.label_kinds());
  for (std::uint32_t i = 0; i < data.labels.size(); ++i)
    of_label[std::size_t(data.labels[i])].push_back(i);
  Shards shards(sites);
  for (std::size_t label = 0; label < of_label.size(); ++label) {
    Random random = draws(seed, 1 + label);
    Samples& samples = of_label[label];
    random.shuffle(std::span(samples));
    const std::vector<double> shares = dirichlet(random, sites, alpha);
    const Shards parts = deal(samples, proportional_counts(samples.size(), shares));
    for (std::size_t site = 0; site < sites; ++site)
      shards[site].insert(shards[site].end(), parts[site].begin(), parts[site].end());
  }
  give_everyone_one(shards);
  return shards;
}

Result<Shards> by_shards(const DataSet& data, std::size_t sites, std::uint32_t each,
                         std::uint64_t seed) {
  const std::size_t pieces = sites * each;
  if (data.size() < pieces)
    return invalid(
        "[data] partition = \"shards\": {} samples cannot be cut into {} sites x {} shards; use "
        "fewer shards",
        data.size(), sites, each);
  Samples sorted = all_samples(data);
  std::ranges::stable_sort(sorted, [&](auto a, auto b) {
    if (data.label_kinds() > 0) return data.labels[a] < data.labels[b];
    const auto outputs = std::size_t(data.shape.outputs);
    return data.targets[a * outputs] < data.targets[b * outputs];
  });
  const Shards cut = deal(sorted, equal_counts(sorted.size(), pieces));
  Samples hands(pieces);
  std::iota(hands.begin(), hands.end(), 0u);
  draws(seed, 0).shuffle(std::span(hands));
  Shards shards(sites);
  for (std::size_t i = 0; i < pieces; ++i) {
    const Samples& piece = cut[hands[i]];
    shards[i / each].insert(shards[i / each].end(), piece.begin(), piece.end());
  }
  return shards;
}

// As the file calls the labels first, first + step ..., at most ten: " (setosa, virginica)". "" of
// data that name none.
std::string label_list(const DataSet& data, std::size_t first, std::size_t step) {
  std::string list;
  std::size_t count = 0;
  for (std::size_t label = first; label < data.names.size(); label += step)
    if (count++ < 10) list += (list.empty() ? "" : ", ") + data.names[label];
  if (count > 10) list += " ...";
  return list.empty() ? "" : " (" + list + ")";
}

Result<Shards> by_label(const DataSet& data, std::size_t sites) {
  if (sites > data.label_kinds())
    return invalid(
        "[data] partition = \"by_label\": {} sites and only {} labels{}; use \"shards\" or "
        "\"dirichlet\"",
        sites, data.label_kinds(), label_list(data, 0, 1));
  Shards shards(sites);
  for (std::uint32_t i = 0; i < data.labels.size(); ++i)
    shards[std::size_t(data.labels[i]) % sites].push_back(i);
  for (std::size_t site = 0; site < sites; ++site)
    if (shards[site].empty())
      return invalid(
          "[data] partition = \"by_label\": no sample has a label of site {}{}; use \"shards\" or "
          "\"dirichlet\"",
          site, label_list(data, site, sites));
  return shards;
}

Result<Shards> skewed(const DataSet& data, std::size_t sites, double degree) {
  const std::uint64_t home = std::uint64_t(whole_nearest(100 * degree));
  std::vector<std::uint64_t> rank(data.label_kinds());  // inside its label
  Shards shards(sites);
  for (std::uint32_t i = 0; i < data.labels.size(); ++i) {
    const auto label = std::size_t(data.labels[i]);
    const std::uint64_t r = rank[label]++;
    shards[r % 100 < home ? label % sites : r % sites].push_back(i);
  }
  for (std::size_t site = 0; site < sites; ++site)
    if (shards[site].empty())
      return invalid(
          "[data] partition = \"skewed\": site {} would hold nothing; use fewer sites or a smaller "
          "degree",
          site);
  return shards;
}

Result<Shards> skewed_80(const DataSet& data, std::size_t sites) {
  if (sites % 2 != 0)
    return invalid(
        "[data] partition = \"skewed_80\" takes an even number of sites, found {}: use \"skewed\" "
        "with degree = 0.8",
        sites);
  Shards shards(sites);
  for (std::uint32_t i = 0; i < data.labels.size(); ++i) {
    const std::size_t home = std::size_t(data.labels[i]) % sites;
    shards[i % 10 < 8 ? home : home ^ 1].push_back(i);
  }
  give_everyone_one(shards);
  return shards;
}

Result<Shards> by_sizes(const DataSet& data, std::size_t sites, const std::vector<double>& sizes,
                        std::uint64_t seed) {
  if (sizes.size() != sites)
    return invalid("[data] sizes: expected {} numbers, one a site, found {}", sites, sizes.size());
  for (const double size : sizes) {
    if (!std::isfinite(size) || size <= 0)
      return invalid("[data] sizes: expected numbers above 0, found {}", size);
  }
  Shards shards = deal(shuffled(data, seed), proportional_counts(data.size(), sizes));
  give_everyone_one(shards);
  return shards;
}

Result<Shards> divide(const DataSet& data, std::size_t sites, const DataConfig& config,
                      std::uint64_t seed) {
  const std::string& kind = config.partition;
  if (kind == "iid") return deal(shuffled(data, seed), equal_counts(data.size(), sites));
  if (kind == "blocks") return deal(all_samples(data), equal_counts(data.size(), sites));
  if (kind == "shards") return by_shards(data, sites, config.shards, seed);
  if (kind == "sizes") return by_sizes(data, sites, config.sizes, seed);
  if (kind == "local")
    return invalid(
        "[data] partition = \"local\" takes each site's own file: give every [[site]] data = "
        "\"PATH\"");
  const bool by_labels =
      kind == "dirichlet" || kind == "by_label" || kind == "skewed" || kind == "skewed_80";
  if (!by_labels) return invalid("[data] partition = \"{}\" is unknown", kind);
  if (data.label_kinds() == 0)
    return invalid(
        "[data] partition = \"{}\" divides by label, and these data have {}: use \"iid\", "
        "\"shards\", \"sizes\" or \"blocks\"",
        kind, data.shape.task == Task::multilabel ? "several of them" : "numbers to fit");
  if (kind == "by_label") return by_label(data, sites);
  if (kind == "skewed") return skewed(data, sites, config.degree);
  if (kind == "skewed_80") return skewed_80(data, sites);
  return by_dirichlet(data, sites, config.alpha, seed);
}

}  // namespace

Result<Shards> partition(const DataSet& data, std::size_t sites, const DataConfig& config,
                         std::uint64_t seed) {
  LH_CHECK(sites > 0);
  if (data.size() < sites)
    return invalid(
        "[data] {} samples cannot be divided among {} sites: use more data or fewer sites",
        data.size(), sites);
  LH_LET(shards, divide(data, sites, config, seed));
  for (Samples& shard : shards) std::ranges::sort(shard);
  return shards;
}

std::vector<std::vector<std::uint64_t>> label_counts(const DataSet& data, const Shards& shards) {
  const std::size_t labels = data.label_kinds();
  std::vector<std::vector<std::uint64_t>> counts;
  for (const Samples& shard : shards) {
    auto& row = counts.emplace_back(std::max<std::size_t>(labels, 1));
    for (const std::uint32_t i : shard) ++row[labels > 0 ? std::size_t(data.labels[i]) : 0];
  }
  return counts;
}

}  // namespace longhaul::learn
