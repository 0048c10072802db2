#include "longhaul/sync/gaia/filter.h"

#include <cmath>

#include "longhaul/base/check.h"

namespace longhaul::sync::gaia {

bool Significance::holds(float update, float parameter) const {
  if (update == 0) return false;
  if (everything) return true;
  const double size = std::abs(double(update));
  if (absolute > 0) return size > absolute;
  return parameter == 0 || size > threshold * std::abs(double(parameter));
}

std::vector<std::uint32_t> significant(std::span<const float> updates,
                                       std::span<const float> parameters,
                                       const Significance& significance) {
  LH_CHECK(updates.size() == parameters.size());
  std::vector<std::uint32_t> indexes;
  for (std::size_t i = 0; i < updates.size(); ++i)
    if (significance.holds(updates[i], parameters[i])) indexes.push_back(std::uint32_t(i));
  return indexes;
}

}  // namespace longhaul::sync::gaia
