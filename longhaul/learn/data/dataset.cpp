#include "longhaul/learn/data/dataset.h"

#include <xxhash.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "longhaul/base/check.h"

namespace longhaul::learn {

namespace {

template <class T>
void copy_rows(const std::vector<T>& from, std::size_t width, std::span<const std::uint32_t> rows,
               std::vector<T>& to) {
  if (from.empty()) return;
  to.reserve(rows.size() * width);
  for (const std::size_t row : rows) {
    LH_CHECK((row + 1) * width <= from.size());
    const auto begin = from.begin() + std::ptrdiff_t(row * width);
    to.insert(to.end(), begin, begin + std::ptrdiff_t(width));
  }
}

}  // namespace

std::size_t DataShape::width() const {
  std::size_t product = 1;
  for (const std::int64_t extent : sample) product *= std::size_t(extent);
  return product;
}

std::size_t DataSet::size() const {
  if (!has_targets(shape.task)) return labels.size();
  return targets.size() / std::size_t(std::max<std::int64_t>(shape.outputs, 1));
}

std::size_t DataSet::label_kinds() const {
  if (shape.task == Task::text) return names.size();
  return shape.task == Task::classification ? std::size_t(shape.outputs) : 0;
}

void DataSet::copy_window(std::size_t row, std::span<std::int64_t> out) const {
  const std::size_t bytes = out.size() * token_bytes;
  LH_CHECK(shape.task == Task::text && out.size() == shape.width() + 1 &&
           (row + 1) * bytes <= text.size());
  const std::uint8_t* from = text.data() + row * bytes;
  for (std::int64_t& token : out) {
    token = 0;
    for (std::uint32_t i = 0; i < token_bytes; ++i) token |= std::int64_t{*from++} << (8 * i);
  }
}

void DataSet::copy_row(std::size_t row, std::span<float> out) const {
  const std::size_t width = shape.width();
  LH_CHECK(row < size() && out.size() == width);
  if (pixels.empty()) {
    LH_CHECK(features.size() == size() * width);
    std::copy_n(features.begin() + std::ptrdiff_t(row * width), width, out.begin());
    return;
  }
  LH_CHECK(pixels.size() == size() * width);
  const std::uint8_t* from = pixels.data() + row * width;
  const std::size_t channels = pixel_values.size() / 256, area = width / channels;
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const float* values = pixel_values.data() + channel * 256;
    for (std::size_t i = channel * area; i < (channel + 1) * area; ++i) out[i] = values[from[i]];
  }
}

void DataSet::set_pixels(std::vector<std::uint8_t> values, std::span<const double> mean,
                         std::span<const double> std) {
  LH_CHECK(!mean.empty() && mean.size() == std.size() && shape.width() % mean.size() == 0);
  pixels = std::move(values);
  features.clear();
  pixel_values.clear();
  for (std::size_t channel = 0; channel < mean.size(); ++channel) {
    LH_CHECK(std[channel] != 0);
    for (int pixel = 0; pixel < 256; ++pixel)
      pixel_values.push_back(float((pixel / 255.0 - mean[channel]) / std[channel]));
  }
}

DataSet take_rows(const DataSet& from, std::span<const std::uint32_t> rows) {
  DataSet to;
  to.shape = from.shape;
  to.names = from.names;
  to.columns = from.columns;
  to.categories = from.categories;
  to.target_columns = from.target_columns;
  to.dropped = from.dropped;
  to.pixel_values = from.pixel_values;
  to.token_bytes = from.token_bytes;
  copy_rows(from.features, from.shape.width(), rows, to.features);
  copy_rows(from.pixels, from.shape.width(), rows, to.pixels);
  copy_rows(from.text, (from.shape.width() + 1) * from.token_bytes, rows, to.text);
  copy_rows(from.labels, 1, rows, to.labels);
  copy_rows(from.targets, std::size_t(from.shape.outputs), rows, to.targets);
  return to;
}

void append(DataSet& to, const DataSet& more) {
  LH_CHECK(to.shape == more.shape && to.pixel_values == more.pixel_values &&
           to.token_bytes == more.token_bytes);
  to.dropped += more.dropped;
  to.features.insert(to.features.end(), more.features.begin(), more.features.end());
  to.pixels.insert(to.pixels.end(), more.pixels.begin(), more.pixels.end());
  to.text.insert(to.text.end(), more.text.begin(), more.text.end());
  // Groups have numbers of their own in each set: one of a new name comes behind the others.
  std::vector<std::int64_t> number;
  for (const std::string& name : more.names) {
    const auto found = std::ranges::find(to.names, name);
    number.push_back(found - to.names.begin());
    if (to.shape.task == Task::text && found == to.names.end()) to.names.push_back(name);
  }
  for (const std::int64_t label : more.labels)
    to.labels.push_back(to.shape.task == Task::text ? number[std::size_t(label)] : label);
  to.targets.insert(to.targets.end(), more.targets.begin(), more.targets.end());
}

namespace {

class Digest {
 public:
  template <class T>
  void numbers(const std::vector<T>& values) {
    number(values.size());
    state_ = XXH3_64bits_withSeed(values.data(), values.size() * sizeof(T), state_);
  }
  void number(std::uint64_t value) { state_ = XXH3_64bits_withSeed(&value, sizeof value, state_); }
  void texts(const std::vector<std::string>& all) {
    number(all.size());
    for (const std::string& one : all) text(one);
  }
  void text(std::string_view one) {
    number(one.size());
    state_ = XXH3_64bits_withSeed(one.data(), one.size(), state_);
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace

std::uint64_t digest_of(const DataSet& data) {
  Digest digest;
  digest.numbers(data.shape.sample);
  digest.number(std::uint64_t(data.shape.outputs));
  digest.number(std::uint64_t(data.shape.task));
  std::vector<std::size_t> order(data.columns.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return data.columns[i]; });
  if (std::ranges::is_sorted(order)) {
    digest.texts(data.columns);
    digest.numbers(data.features);
  } else {
    std::vector<std::string> columns;
    std::vector<float> features;
    features.reserve(data.features.size());
    for (const std::size_t i : order) columns.push_back(data.columns[i]);
    for (std::size_t row = 0; row < data.features.size(); row += order.size())
      for (const std::size_t i : order) features.push_back(data.features[row + i]);
    digest.texts(columns);
    digest.numbers(features);
  }
  digest.numbers(data.pixels);
  digest.numbers(data.pixel_values);
  digest.numbers(data.labels);
  digest.numbers(data.targets);
  digest.texts(data.names);
  digest.texts(data.target_columns);
  digest.number(data.token_bytes);
  digest.numbers(data.text);
  return digest.value();
}

}  // namespace longhaul::learn
