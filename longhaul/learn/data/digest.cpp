#include "longhaul/learn/data/digest.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include <xxhash.h>

namespace longhaul::learn {
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
