// Data made from [data] data_seed, for tests and quick studies: pure functions of the table.
//
// synthetic
//   classification  `clusters` means per class, each number ~ N(0, 1); a sample is a mean of its
//                   class plus `noise` x N(0, 1), times `scale`; the means take turns, those of a
//                   class follow each other
//   ... by teacher  samples ~ N(0, 1); the class is the largest output of a network of kHidden tanh
//                   units with weights ~ N(0, 1) / sqrt(inputs), each output plus `noise` x N(0, 1)
//   regression      samples ~ N(0, 1); the target is teacher . sample + bias + `noise` x N(0, 1),
//                   teacher and bias ~ N(0, 1), the teacher divided by sqrt(width)
// ratings of items by users, shaped as MovieLens' (Harper, Konstan, "The MovieLens datasets",
// 2015):
//   few users and items have most of the ratings, a user rates an item once, ratings are half stars
//   from 0.5 to 5. A rating is 3.5 + taste of the user + quality of the item + p . q + noise, p and
//   q of kTasteFactors numbers; taste and quality ~ N(0, 0.25), p . q ~ N(0, 0.25), noise ~ N(0,
//   noise^2). Samples are (user, item), from 0, ordered by user, then item.
// clicks: a sample has one value of each of some categorical fields; few values are frequent
// (Zipf's
//   law with exponent 1.1). It is a click with the probability 1 / (1 + e^-t), where
//     t = -1 + sum of w[value] over its fields + sum of v[a] . v[b] over the pairs of its fields,
//   w ~ N(0, 0.2^2), and v of four numbers ~ N(0, 0.2^2): a factorisation machine (Rendle,
//   "Factorization machines", 2010). The numbers of a sample are rows of one table of fields x
//   values: field f has the rows from f x values on. Two classes: no click, click.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "longhaul/base/rng.h"
#include "longhaul/learn/data/load.h"

namespace longhaul::learn {
namespace {

// The streams of Purpose::data: one for every thing drawn, so that no set is part of another.
enum Part : std::uint32_t {
  kTeacher = 0,
  kTrain = 1,
  kTest = 2,
  kUsers = 3,
  kItems = 4,
  kPairs = 5,
  kSplit = 6,
  kClickTeacher = 7,
  kClickTrain = 8,
  kClickTest = 9
};

Random draws(const DataConfig& config, Part part, std::uint64_t row = 0) {
  return Random(config.data_seed, {.purpose = Purpose::data, .round = row, .range = part});
}

std::vector<float> normals(Random random, std::size_t count, double scale) {
  std::vector<float> values(count);
  for (float& value : values) value = float(scale * random.normal());
  return values;
}

// One of `count` numbers, the k-th (from 1) k^-exponent as often as the first (Zipf's law).
class ByShare {
 public:
  ByShare(std::uint32_t count, double exponent) {
    double sum = 0;
    for (std::uint32_t k = 1; k <= count; ++k) sums_.push_back(sum += std::pow(k, -exponent));
  }
  // From 0.
  std::uint32_t draw(Random& random) const {
    const auto at = std::ranges::upper_bound(sums_, random.uniform() * sums_.back());
    return std::uint32_t(std::min<std::ptrdiff_t>(at - sums_.begin(), std::ssize(sums_) - 1));
  }

 private:
  std::vector<double> sums_;
};

constexpr std::size_t kHidden = 32;

class Teacher {
 public:
  Teacher(const DataConfig& config, std::size_t width, std::size_t classes) {
    const auto layer = [&](std::uint64_t first, std::size_t outputs, std::size_t inputs) {
      std::vector<std::vector<float>> weights;
      for (std::size_t i = 0; i < outputs; ++i)
        weights.push_back(
            normals(draws(config, kTeacher, first + i), inputs, 1 / std::sqrt(double(inputs))));
      return weights;
    };
    hidden_ = layer(0, kHidden, width);
    output_ = layer(kHidden, classes, kHidden);
  }
  std::int64_t label(const float* sample, double noise, Random& random) const {
    std::vector<double> units, outputs;
    for (const auto& weights : hidden_) units.push_back(std::tanh(dot(weights, sample)));
    for (const auto& weights : output_)
      outputs.push_back(dot(weights, units.data()) + noise * random.normal());
    return std::max_element(outputs.begin(), outputs.end()) - outputs.begin();
  }

 private:
  template <class Number>
  static double dot(const std::vector<float>& weights, const Number* inputs) {
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) sum += double(weights[i]) * double(inputs[i]);
    return sum;
  }
  std::vector<std::vector<float>> hidden_, output_;
};

DataSet make_taught(const DataConfig& config, const DataShape& shape, Part part,
                    std::size_t samples) {
  DataSet data;
  data.shape = shape;
  const std::size_t width = shape.width();
  const Teacher teacher(config, width, std::size_t(shape.outputs));
  data.features.reserve(samples * width);
  for (std::size_t row = 0; row < samples; ++row) {
    Random random = draws(config, part, row);
    for (std::size_t j = 0; j < width; ++j) data.features.push_back(float(random.normal()));
    data.labels.push_back(teacher.label(data.features.data() + row * width, config.noise, random));
  }
  return data;
}

DataSet make_around_means(const DataConfig& config, const DataShape& shape, Part part,
                          std::size_t samples) {
  DataSet data;
  data.shape = shape;
  const std::size_t width = shape.width();
  const bool classes = shape.task == Task::classification;
  const auto outputs = std::size_t(shape.outputs);
  const std::size_t clusters = classes ? config.clusters : 1;
  std::vector<std::vector<float>> means;  // or the teacher, then the bias
  for (std::size_t i = 0; i < outputs * clusters; ++i)
    means.push_back(normals(draws(config, kTeacher, i), width + 1, 1.0));
  data.features.reserve(samples * width);
  for (std::size_t row = 0; row < samples; ++row) {
    Random random = draws(config, part, row);
    const std::size_t turn = row % means.size();
    const std::vector<float>& mean = means[turn];
    if (classes) data.labels.push_back(std::int64_t(turn / clusters));
    for (std::size_t j = 0; j < width; ++j) {
      const double normal = random.normal();
      data.features.push_back(
          float(classes ? config.scale * (mean[j] + config.noise * normal) : normal));
    }
    for (std::size_t i = 0; !classes && i < outputs; ++i) {
      double target = means[i][width] + config.noise * random.normal();
      const float* sample = data.features.data() + row * width;
      for (std::size_t j = 0; j < width; ++j)
        target += double(means[i][j]) * double(sample[j]) / std::sqrt(double(width));
      data.targets.push_back(float(target));
    }
  }
  return data;
}

// How often users and items occur: the k-th of them k^-exponent as often as the first.
constexpr double kUserExponent = 0.5, kItemExponent = 0.8;
constexpr double kMeanStars = 3.5, kTasteSpread = 0.5, kLeastStars = 0.5, kMostStars = 5;
constexpr std::size_t kTasteFactors = 8;

// Numbers of each user or item: what it adds to each of its ratings, then its factors.
std::vector<std::vector<double>> tastes(const DataConfig& config, Part part, std::uint32_t count) {
  std::vector<std::vector<double>> all;
  for (std::uint32_t row = 0; row < count; ++row) {
    Random random = draws(config, part, row);
    std::vector<double>& numbers = all.emplace_back(1 + kTasteFactors);
    for (double& number : numbers) number = random.normal();
    numbers[0] *= kTasteSpread;
    // The product of two has a deviation of kTasteSpread.
    for (std::size_t i = 1; i < numbers.size(); ++i)
      numbers[i] *= std::sqrt(kTasteSpread / std::sqrt(double(kTasteFactors)));
  }
  return all;
}

using UserItem = std::pair<std::uint32_t, std::uint32_t>;

std::vector<UserItem> draw_pairs(const DataConfig& config, std::size_t count) {
  const ByShare users(config.users, kUserExponent), items(config.items, kItemExponent);
  Random random = draws(config, kPairs);
  std::set<UserItem> pairs;
  // Frequent pairs are drawn repeatedly. The pairs that these tries do not find are filled in.
  for (std::size_t tries = 0; pairs.size() < count && tries < 50 * count; ++tries) {
    const std::uint32_t user = users.draw(random);
    pairs.insert({user, items.draw(random)});
  }
  for (std::uint32_t item = 0; pairs.size() < count && item < config.items; ++item)
    for (std::uint32_t user = 0; pairs.size() < count && user < config.users; ++user)
      pairs.insert({user, item});
  return {pairs.begin(), pairs.end()};
}

constexpr std::uint64_t kMostClickRows = 1 << 24;  // floats hold whole numbers up to here
constexpr std::size_t kClickFactors = 4;
constexpr double kClickExponent = 1.1, kClickBias = -1, kClickSpread = 0.2;

struct ClickValue {  // the teacher's parameters of a value
  double weight = 0;
  std::array<double, kClickFactors> factors{};
};

// The sum over pairs is half of (the square of the sum less the sum of squares).
double click_logit(const std::vector<ClickValue>& values, std::span<const float> sample) {
  double sum = kClickBias;
  std::array<double, kClickFactors> factors{};
  for (const float row : sample) {
    const ClickValue& value = values[std::size_t(row)];
    sum += value.weight;
    for (std::size_t i = 0; i < kClickFactors; ++i) {
      factors[i] += value.factors[i];
      sum -= 0.5 * value.factors[i] * value.factors[i];
    }
  }
  for (const double factor : factors) sum += 0.5 * factor * factor;
  return sum;
}

DataSet make_clicks(const DataConfig& config, Part part, std::size_t samples) {
  const std::uint32_t fields = config.click_fields;
  std::vector<ClickValue> values(std::size_t{fields} * config.values);
  Random teacher = draws(config, kClickTeacher);
  for (ClickValue& value : values) {
    value.weight = kClickSpread * teacher.normal();
    for (double& factor : value.factors) factor = kClickSpread * teacher.normal();
  }
  const ByShare by_share(config.values, kClickExponent);
  DataSet data;
  data.shape = {.sample = {fields},
                .outputs = 2,
                .task = Task::classification,
                .tables = std::vector<std::int64_t>(fields, std::int64_t(values.size()))};
  data.names = {"no click", "click"};
  data.features.reserve(samples * fields);
  for (std::size_t i = 0; i < samples; ++i) {
    Random random = draws(config, part, i);
    for (std::uint32_t field = 0; field < fields; ++field)
      data.features.push_back(float(field * config.values + by_share.draw(random)));
    const double t = click_logit(values, std::span(data.features).last(fields));
    data.labels.push_back(random.uniform() < 1 / (1 + std::exp(-t)) ? 1 : 0);
  }
  return data;
}

}  // namespace

Result<Split> load_synthetic(const DataConfig& config, const std::string&, const std::string&) {
  DataShape shape;
  const bool regression = config.task == "regression";
  for (const double extent : config.sample) shape.sample.push_back(std::int64_t(extent));
  if (config.sample.empty()) shape.sample = {config.features ? std::int64_t{config.features} : 32};
  if (regression)
    shape.task = Task::regression;
  else
    shape.outputs = config.classes ? std::int64_t{config.classes} : 10;
  if (config.teacher && regression)
    return invalid(
        "[data] teacher = true tells classes apart, but task = \"regression\": leave it out");
  if ((config.teacher || regression) && (config.clusters != 1 || config.scale != 1))
    return invalid(
        "[data] clusters and scale are of samples around means of classes: leave them out with "
        "teacher = true and with task = \"regression\"");
  constexpr double most = 1 << 28;  // numbers: a GiB
  const auto width = double(shape.width());
  if (width * (double(config.samples) + double(config.test_samples)) > most ||
      width * double(shape.outputs) * double(config.clusters) > most)
    return invalid(
        "[data] kind = \"synthetic\": {} + {} samples of {} numbers and {} outputs are more than a "
        "GiB; expected fewer samples or features",
        config.samples, config.test_samples, width, shape.outputs);
  const auto make = config.teacher ? make_taught : make_around_means;
  return split_of(make(config, shape, kTrain, config.samples),
                  make(config, shape, kTest, config.test_samples));
}

Result<Split> load_ratings(const DataConfig& config, const std::string&, const std::string&) {
  const std::uint64_t wanted = std::uint64_t{config.samples} + config.test_samples;
  const std::uint64_t most = std::uint64_t{config.users} * config.items;
  if (2 * wanted > most)
    return invalid(
        "[data] kind = \"ratings\": {} + {} samples are more than half of the {} pairs of {} users "
        "and {} items; expected fewer samples, or more users or items",
        config.samples, config.test_samples, most, config.users, config.items);
  const auto users = tastes(config, kUsers, config.users);
  const auto items = tastes(config, kItems, config.items);
  const std::vector<UserItem> pairs = draw_pairs(config, wanted);
  DataSet all;
  all.shape = {.sample = {2},
               .outputs = 1,
               .task = Task::regression,
               .tables = {config.users, config.items}};
  for (std::size_t row = 0; row < pairs.size(); ++row) {
    const auto& [user, item] = pairs[row];
    const auto& u = users[user];
    const auto& i = items[item];
    Random random = draws(config, kPairs, row + 1);
    const double stars = kMeanStars + u[0] + i[0] +
                         std::inner_product(u.begin() + 1, u.end(), i.begin() + 1, 0.0) +
                         config.noise * random.normal();
    all.features.insert(all.features.end(), {float(user), float(item)});
    all.targets.push_back(float(std::clamp(std::round(2 * stars) / 2, kLeastStars, kMostStars)));
  }
  std::vector<std::uint32_t> rows(pairs.size());
  std::iota(rows.begin(), rows.end(), 0u);
  draws(config, kSplit).shuffle(std::span(rows));
  const auto middle = rows.begin() + std::ptrdiff_t(config.samples);
  std::sort(rows.begin(), middle);
  std::sort(middle, rows.end());
  return split_of(take_rows(all, {rows.begin(), middle}), take_rows(all, {middle, rows.end()}));
}

Result<Split> load_clicks(const DataConfig& config, const std::string&, const std::string&) {
  const std::uint64_t rows = std::uint64_t{config.click_fields} * config.values;
  if (rows > kMostClickRows)
    return invalid(
        "[data] kind = \"clicks\": {} fields of {} values are {} rows; expected at most {}",
        config.click_fields, config.values, rows, kMostClickRows);
  return split_of(make_clicks(config, kClickTrain, config.samples),
                  make_clicks(config, kClickTest, config.test_samples));
}

}  // namespace longhaul::learn
