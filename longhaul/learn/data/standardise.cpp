#include "longhaul/learn/data/standardise.h"

#include <cmath>

#include <fmt/format.h>

#include "longhaul/base/check.h"

namespace longhaul::learn {

Result<std::vector<double>> column_means(const DataSet& data, const std::string& file) {
  const std::size_t width = data.shape.width();
  LH_CHECK(data.features.size() == data.size() * width);
  std::vector<double> means(width, 0);
  std::vector<std::size_t> counts(width, 0);
  for (std::size_t i = 0; i < data.features.size(); ++i) {
    if (std::isnan(data.features[i])) continue;
    means[i % width] += double(data.features[i]);
    ++counts[i % width];
  }
  for (std::size_t i = 0; i < width; ++i) {
    if (counts[i] == 0)
      return malformed(
          fmt::format("{}: column '{}' is missing in all training samples; leave it "
                      "out with [data] ignore",
                      file, data.columns[i]));
    means[i] /= double(counts[i]);
  }
  return means;
}

void fill_missing(DataSet& data, std::span<const double> means) {
  LH_CHECK(means.size() == data.shape.width());
  for (std::size_t i = 0; i < data.features.size(); ++i)
    if (std::isnan(data.features[i])) data.features[i] = float(means[i % means.size()]);
}

std::vector<ColumnScale> column_scales(const DataSet& data) {
  const std::size_t width = data.shape.width(), count = data.size();
  LH_CHECK(count > 0 && data.features.size() == count * width);
  std::vector<ColumnScale> scales(width);
  std::vector<bool> varies(width, false);  // the rounded mean of equal numbers may differ from them
  for (std::size_t row = 0; row < count; ++row)
    for (std::size_t i = 0; i < width; ++i) {
      const float value = data.features[row * width + i];
      scales[i].mean += double(value) / double(count);
      if (value != data.features[i]) varies[i] = true;
    }
  for (std::size_t row = 0; row < count; ++row)
    for (std::size_t i = 0; i < width; ++i) {
      const double apart = double(data.features[row * width + i]) - scales[i].mean;
      scales[i].std += apart * apart / double(count);
    }
  for (std::size_t i = 0; i < width; ++i)
    scales[i] = varies[i] ? ColumnScale{scales[i].mean, std::sqrt(scales[i].std)}
                          : ColumnScale{double(data.features[i]), 0};
  return scales;
}

void standardise(DataSet& data, std::span<const ColumnScale> scales) {
  LH_CHECK(scales.size() == data.shape.width() &&
           data.features.size() == data.size() * scales.size());
  for (std::size_t i = 0; i < data.features.size(); ++i) {
    const ColumnScale& scale = scales[i % scales.size()];
    float& value = data.features[i];
    value = scale.std > 0 ? float((double(value) - scale.mean) / scale.std) : 0.0f;
  }
}

}  // namespace longhaul::learn
