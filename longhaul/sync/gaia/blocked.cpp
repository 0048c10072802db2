#include "longhaul/sync/gaia/blocked.h"

#include <algorithm>

namespace longhaul::sync::gaia {
namespace {

bool have_one_in_common(std::span<const Range> a, std::span<const Range> b) {
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    if (std::max(a[i].offset, b[k].offset) < std::min(a[i].end(), b[k].end())) return true;
    if (a[i].end() < b[k].end())
      ++i;
    else
      ++k;
  }
  return false;
}

}  // namespace

void Blocked::block(Slot slot, Round clock, std::uint32_t range, std::vector<Range> parameters) {
  updates_[{clock, slot, range}] = std::move(parameters);
}

void Blocked::release(Slot slot, Round clock, std::uint32_t range) {
  updates_.erase({clock, slot, range});
}

void Blocked::release_clock(Slot slot, Round clock) {
  std::erase_if(updates_, [&](const auto& one) {
    return std::get<0>(one.first) <= clock && std::get<1>(one.first) == slot;
  });
}

std::optional<Slot> Blocked::blocks(std::span<const Range> reads, Round clock) const {
  for (const auto& [update, parameters] : updates_) {
    if (std::get<0>(update) > clock) break;
    if (reads.empty() || have_one_in_common(reads, parameters)) return std::get<1>(update);
  }
  return std::nullopt;
}

std::vector<Range> ranges_of(const std::vector<std::uint32_t>& indexes, std::uint64_t offset,
                             std::uint64_t length) {
  if (indexes.empty()) return {{offset, length}};
  std::vector<Range> ranges;
  for (const std::uint32_t index : indexes) {
    if (!ranges.empty() && ranges.back().end() == offset + index)
      ++ranges.back().length;
    else
      ranges.push_back({offset + index, 1});
  }
  return ranges;
}

}  // namespace longhaul::sync::gaia
