#pragma once
// Blocked keeps which parameters are about to change: a site whose updates cannot leave soon first
// announces their indexes, and whoever reads one of them waits until the update is here.
//   Hsieh et al., "Gaia", NSDI 2017: the selective barrier. Its details are ours.
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/sync/gaia/base.h"

namespace longhaul::sync::gaia {

class Blocked {
 public:
  // The update of this clock and range of the layout, of which slot's sender has announced these
  // parameters: `parameters` of the layout, ascending and apart.
  void block(Slot, Round clock, std::uint32_t range, std::vector<Range> parameters);
  void release(Slot, Round clock, std::uint32_t range);  // the update is here
  void release_clock(Slot, Round clock);                 // and all others of that clock or before
  void clear() { updates_.clear(); }

  // A slot whose update of a clock up to `clock` a step would miss that reads these parameters,
  // ascending and apart; empty: all. Nothing: none.
  std::optional<Slot> blocks(std::span<const Range> reads, Round clock) const;
  void state(Archive& ar) { ar(updates_); }

 private:
  std::map<std::tuple<Round, Slot, std::uint32_t>, std::vector<Range>> updates_;
};

// Indexes into a range that begins at `offset`, ascending, as ranges of the layout. Empty: all of
// its `length` parameters.
std::vector<Range> ranges_of(const std::vector<std::uint32_t>& indexes, std::uint64_t offset,
                             std::uint64_t length);

}  // namespace longhaul::sync::gaia
