#include "longhaul/learn/data/ratings.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "longhaul/base/check.h"
#include "longhaul/base/rng.h"
#include "longhaul/learn/data/by_share.h"

namespace longhaul::learn {
namespace {

constexpr std::size_t kTasteFactors = 8;
// Of users and items by how often they occur: the k-th of them has k^-exponent of the first.
constexpr double kUserExponent = 0.5, kItemExponent = 0.8;
constexpr double kMeanStars = 3.5, kTasteSpread = 0.5, kLeastStars = 0.5, kMostStars = 5;

enum RatingPart : std::uint32_t { kUsers = 3, kItems = 4, kPairs = 5, kSplit = 6 };

// Numbers of a user or an item: what it adds to each of its ratings, then its factors.
std::vector<double> tastes(const RatingsOptions& options, RatingPart part, std::uint32_t row) {
  Random random(options.seed, {.purpose = Purpose::data, .round = row, .range = part});
  std::vector<double> numbers(1 + kTasteFactors);
  for (double& number : numbers) number = random.normal();
  numbers[0] *= kTasteSpread;
  // The product of two has a deviation of kTasteSpread.
  for (std::size_t i = 1; i < numbers.size(); ++i)
    numbers[i] *= std::sqrt(kTasteSpread / std::sqrt(double(kTasteFactors)));
  return numbers;
}

using UserItem = std::pair<std::uint32_t, std::uint32_t>;

std::vector<UserItem> draw_pairs(const RatingsOptions& options) {
  const ByShare users(options.users, kUserExponent), items(options.items, kItemExponent);
  const std::size_t count = options.samples + options.test_samples;
  Random random(options.seed, {.purpose = Purpose::data, .range = kPairs});
  std::set<UserItem> pairs;
  // Frequent pairs are drawn again and again: what so many tries do not find is filled in.
  for (std::size_t tries = 0; pairs.size() < count && tries < 50 * count; ++tries) {
    const std::uint32_t user = users.draw(random);
    pairs.insert({user, items.draw(random)});
  }
  for (std::uint32_t item = 0; pairs.size() < count && item < options.items; ++item)
    for (std::uint32_t user = 0; pairs.size() < count && user < options.users; ++user)
      pairs.insert({user, item});
  return {pairs.begin(), pairs.end()};
}

}  // namespace

Ratings make_ratings(const RatingsOptions& options) {
  LH_CHECK(2 * (options.samples + options.test_samples) <=
           std::uint64_t(options.users) * options.items);
  std::vector<std::vector<double>> users, items;
  for (std::uint32_t i = 0; i < options.users; ++i) users.push_back(tastes(options, kUsers, i));
  for (std::uint32_t i = 0; i < options.items; ++i) items.push_back(tastes(options, kItems, i));
  const std::vector<UserItem> pairs = draw_pairs(options);
  DataSet all;
  all.shape = {.sample = {2},
               .outputs = 1,
               .task = Task::regression,
               .tables = {options.users, options.items}};
  for (std::size_t row = 0; row < pairs.size(); ++row) {
    const auto& [user, item] = pairs[row];
    const auto& u = users[user];
    const auto& i = items[item];
    Random random(options.seed, {.purpose = Purpose::data, .round = row + 1, .range = kPairs});
    const double stars = kMeanStars + u[0] + i[0] +
                         std::inner_product(u.begin() + 1, u.end(), i.begin() + 1, 0.0) +
                         options.noise * random.normal();
    all.features.insert(all.features.end(), {float(user), float(item)});
    all.targets.push_back(float(std::clamp(std::round(2 * stars) / 2, kLeastStars, kMostStars)));
  }
  std::vector<std::uint32_t> rows(pairs.size());
  std::iota(rows.begin(), rows.end(), 0u);
  Random(options.seed, {.purpose = Purpose::data, .range = kSplit}).shuffle(std::span(rows));
  const auto middle = rows.begin() + std::ptrdiff_t(options.samples);
  std::sort(rows.begin(), middle);
  std::sort(middle, rows.end());
  return {take_rows(all, {rows.begin(), middle}), take_rows(all, {middle, rows.end()})};
}

}  // namespace longhaul::learn
