#include <cmath>

#include "longhaul/learn/models/families.h"

namespace longhaul::learn {

Result<ModelSpec> phantom_spec(const ModelConfig& config, const DataShape&) {
  ModelSpec spec;
  spec.kind = "phantom";
  const auto size = std::int64_t(std::ceil(config.mbytes * 1e6 / 4));
  spec.tensors.push_back({.name = "flat", .shape = {size}});
  return spec;
}

}  // namespace longhaul::learn
