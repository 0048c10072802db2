#include "longhaul/learn/data/clicks.h"

#include <array>
#include <cmath>

#include "longhaul/base/check.h"
#include "longhaul/learn/data/by_share.h"

namespace longhaul::learn {
namespace {

constexpr std::size_t kClickFactors = 4;
constexpr double kClickExponent = 1.1, kClickBias = -1, kClickSpread = 0.2;

enum ClicksPart : std::uint32_t { kClickTeacher = 7, kClickTrain = 8, kClickTest = 9 };

struct ClickValue {  // what the teacher knows of it
  double weight = 0;
  std::array<double, kClickFactors> factors{};
};

std::vector<ClickValue> click_teacher(const ClicksOptions& options) {
  std::vector<ClickValue> all(std::size_t{options.fields} * options.values);
  Random random(options.seed, {.purpose = Purpose::data, .range = kClickTeacher});
  for (ClickValue& value : all) {
    value.weight = kClickSpread * random.normal();
    for (double& factor : value.factors) factor = kClickSpread * random.normal();
  }
  return all;
}

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

}  // namespace

DataSet make_clicks(const ClicksOptions& options) {
  const std::uint64_t rows = std::uint64_t{options.fields} * options.values;
  LH_CHECK(rows > 0 && rows <= kMostClickRows);
  const std::vector<ClickValue> values = click_teacher(options);
  const ByShare by_share(options.values, kClickExponent);
  DataSet data;
  data.shape = {.sample = {options.fields},
                .outputs = 2,
                .task = Task::classification,
                .tables = std::vector<std::int64_t>(options.fields, std::int64_t(rows))};
  data.names = {"no click", "click"};
  data.features.reserve(options.samples * options.fields);
  data.labels.reserve(options.samples);
  for (std::size_t i = 0; i < options.samples; ++i) {
    Random random(
        options.seed,
        {.purpose = Purpose::data, .round = i, .range = options.test ? kClickTest : kClickTrain});
    for (std::uint32_t field = 0; field < options.fields; ++field)
      data.features.push_back(float(field * options.values + by_share.draw(random)));
    const double t = click_logit(values, std::span(data.features).last(options.fields));
    data.labels.push_back(random.uniform() < 1 / (1 + std::exp(-t)) ? 1 : 0);
  }
  return data;
}

}  // namespace longhaul::learn
