#pragma once
// Blocked keeps the parameters that are about to change. A site whose updates cannot leave soon
// first announces their indexes. A reader of such a parameter waits until the update has arrived.
//   Hsieh et al., "Gaia", NSDI 2017: the selective barrier. Its details are ours.
#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/sync/gaia/base.h"

namespace longhaul::sync::gaia {

class Blocked {
  static bool have_one_in_common(std::span<const Range> a, std::span<const Range> b) {
    for (std::size_t i = 0, k = 0; i < a.size() && k < b.size();) {
      if (std::max(a[i].offset, b[k].offset) < std::min(a[i].end(), b[k].end())) return true;
      if (a[i].end() < b[k].end())
        ++i;
      else
        ++k;
    }
    return false;
  }

 public:
  // Blocks the parameters that the slot's sender has announced, of the update of this clock and
  // range. `parameters`: ranges of the layout, ascending and disjoint.
  void block(Slot slot, Round clock, std::uint32_t range, std::vector<Range> parameters) {
    updates_[{clock, slot, range}] = std::move(parameters);
  }

  // Releases the parameters of an update that has arrived.
  void release(Slot slot, Round clock, std::uint32_t range) {
    updates_.erase({clock, slot, range});
  }

  // Releases all updates of the slot up to this clock.
  void release_clock(Slot slot, Round clock) {
    std::erase_if(updates_, [&](const auto& one) {
      return std::get<0>(one.first) <= clock && std::get<1>(one.first) == slot;
    });
  }

  void clear() { updates_.clear(); }

  // Returns a slot that blocks a step. An announced update of the slot, of a clock up to `clock`,
  // changes one of the parameters that the step reads. `reads`: ascending and disjoint; empty: all.
  // Null if no slot blocks.
  std::optional<Slot> blocks(std::span<const Range> reads, Round clock) const {
    for (const auto& [update, parameters] : updates_) {
      if (std::get<0>(update) > clock) break;
      if (reads.empty() || have_one_in_common(reads, parameters)) return std::get<1>(update);
    }
    return std::nullopt;
  }

  void state(Archive& ar) { ar(updates_); }

 private:
  std::map<std::tuple<Round, Slot, std::uint32_t>, std::vector<Range>> updates_;
};

// Returns ascending indexes into a range that begins at `offset` as ranges of the layout. If empty,
// all of its `length` parameters.
inline std::vector<Range> ranges_of(const std::vector<std::uint32_t>& indexes, std::uint64_t offset,
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
