#include <charconv>

#include "longhaul/base/decimal.h"
#include "longhaul/learn/models/families.h"

namespace longhaul::learn {
namespace {

constexpr std::int64_t kMostUnits = std::int64_t(1) << 31, kMostValues = std::int64_t(1) << 38;

// Whole numbers from 1 on, separated by 'x'; an empty shape where the text is none.
std::vector<std::int64_t> shape_of(std::string_view text) {
  std::vector<std::int64_t> shape;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::int64_t extent = 0;
    const auto [next, error] = std::from_chars(at, end, extent);
    if (error != std::errc() || extent < 1 || extent > kMostValues) return {};
    shape.push_back(extent);
    if (next == end) return shape;
    if (*next != 'x') return {};
    at = next + 1;
  }
}

}  // namespace

Result<ModelSpec> phantom_spec(const ModelConfig& config, const DataShape&) {
  ModelSpec spec;
  spec.kind = "phantom";
  if (config.shapes.empty()) {
    const auto size = std::int64_t(whole_up(config.mbytes * 1e6 / 4));
    spec.tensors.push_back({.name = "flat", .shape = {size}});
    return spec;
  }
  for (const std::string& layer : config.shapes) {
    const auto shape = shape_of(layer);
    const bool is_linear = shape.size() == 2;
    if (shape.empty() || shape.size() > 2 ||
        (is_linear &&
         (shape[0] > kMostUnits || shape[1] > kMostUnits || shape[0] * shape[1] > kMostValues)))
      return invalid(
          "[model] shapes: expected \"OUTPUTSxINPUTS\" or a number of parameters, found \"" +
          layer + "\"");
    spec.tensors.push_back(
        {.name = "layer" + std::to_string(spec.tensors.size() + 1),
         .shape = shape,
         .linear = is_linear ? LayerRange::Linear::weight : LayerRange::Linear::none});
  }
  return spec;
}

}  // namespace longhaul::learn
