#include "longhaul/learn/data/synthetic.h"

#include <algorithm>
#include <cmath>

#include "longhaul/base/rng.h"

namespace longhaul::learn {
namespace {

// A stream of Purpose::data of its own for every thing drawn: no set is part of another.
enum Part : std::uint32_t { kTeacher = 0, kTrain = 1, kTest = 2 };

Random draws(std::uint64_t seed, Part part, std::uint64_t row) {
  return Random(seed, {.purpose = Purpose::data, .round = row, .range = part});
}

Random row_of(const SyntheticOptions& options, std::size_t row) {
  return draws(options.seed, options.test ? kTest : kTrain, row);
}

std::vector<float> normals(Random random, std::size_t count, double scale) {
  std::vector<float> values(count);
  for (float& value : values) value = float(scale * random.normal());
  return values;
}

constexpr std::size_t kHidden = 32;

class Teacher {
 public:
  Teacher(std::uint64_t seed, std::size_t width, std::size_t classes) {
    const auto layer = [&](std::uint64_t first, std::size_t outputs, std::size_t inputs) {
      std::vector<std::vector<float>> weights;
      for (std::size_t i = 0; i < outputs; ++i)
        weights.push_back(
            normals(draws(seed, kTeacher, first + i), inputs, 1 / std::sqrt(double(inputs))));
      return weights;
    };
    hidden_ = layer(0, kHidden, width);
    output_ = layer(kHidden, classes, kHidden);
  }
  std::int64_t label(const float* sample, double noise, Random& random) const {
    std::vector<double> units;
    for (const auto& weights : hidden_) units.push_back(std::tanh(dot(weights, sample)));
    std::vector<double> outputs;
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

DataSet make_taught(const SyntheticOptions& options) {
  DataSet data;
  data.shape = options.shape;
  const std::size_t width = data.shape.width();
  const Teacher teacher(options.seed, width, std::size_t(data.shape.outputs));
  data.features.reserve(options.samples * width);
  for (std::size_t row = 0; row < options.samples; ++row) {
    Random random = row_of(options, row);
    for (std::size_t j = 0; j < width; ++j) data.features.push_back(float(random.normal()));
    data.labels.push_back(teacher.label(data.features.data() + row * width, options.noise, random));
  }
  return data;
}

}  // namespace

DataSet make_synthetic(const SyntheticOptions& options) {
  if (options.teacher) return make_taught(options);
  DataSet data;
  data.shape = options.shape;
  const std::size_t width = data.shape.width();
  const bool classes = data.shape.task == Task::classification;
  const auto outputs = std::size_t(data.shape.outputs);
  const std::size_t clusters = classes ? options.clusters : 1;
  std::vector<std::vector<float>> means;  // or the teacher, then the bias
  for (std::size_t i = 0; i < outputs * clusters; ++i)
    means.push_back(normals(draws(options.seed, kTeacher, i), width + 1, 1.0));
  data.features.reserve(options.samples * width);
  for (std::size_t row = 0; row < options.samples; ++row) {
    Random random = row_of(options, row);
    const std::size_t turn = row % means.size();
    const std::vector<float>& mean = means[turn];
    if (classes) data.labels.push_back(std::int64_t(turn / clusters));
    for (std::size_t j = 0; j < width; ++j) {
      const double normal = random.normal();
      data.features.push_back(
          float(classes ? options.scale * (mean[j] + options.noise * normal) : normal));
    }
    for (std::size_t i = 0; !classes && i < outputs; ++i) {
      double target = means[i][width] + options.noise * random.normal();
      const float* sample = data.features.data() + row * width;
      for (std::size_t j = 0; j < width; ++j)
        target += double(means[i][j]) * double(sample[j]) / std::sqrt(double(width));
      data.targets.push_back(float(target));
    }
  }
  return data;
}

}  // namespace longhaul::learn
