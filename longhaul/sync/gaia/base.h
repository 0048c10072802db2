#pragma once
// Base is what a site has been told, by clocks: b, the sum of all updates up to a clock that is
// complete, and the inbox with those of later clocks. Whoever sends to this site has a slot: itself
// and each site that sends to it directly, or a group of sites whose sum a hub sends.
//
// b at a clock has the same bits on all sites that have the same slots, in whatever order updates
// came: they are added in the order of (clock, slot), in double, rounded once for each clock. A
// site that comes back, or whose peers have lost one, goes on from another's b. Ours; published
// implementations add what comes when it comes.
#include <map>
#include <set>
#include <span>
#include <vector>

#include "longhaul/sync/gaia/encoding.h"

namespace longhaul::sync::gaia {

using Slot = std::uint32_t;  // ranks first; groups of sites behind them (sync/gaia/routes.h)

class Base {
 public:
  // `ranges`: of the layout's parameters, by number.
  explicit Base(std::vector<Range> ranges) : ranges_(std::move(ranges)) {}

  // From here on: b at a clock, and slots whose clocks are that of b. Of the inbox stays what slot
  // `keep` has behind that clock. A phantom's b is empty.
  void begin(std::vector<float> b, Round clock, std::uint64_t samples, const std::set<Slot>& slots,
             Slot keep);

  const std::vector<float>& b() const { return b_; }
  Round clock() const { return clock_; }              // of b
  std::uint64_t samples() const { return samples_; }  // used for b, by all sites
  // The newest clock of which all updates of the slot are here: its mirror clock.
  Round mirror(Slot slot) const { return mirrors_.at(slot); }
  bool has(Slot slot) const { return mirrors_.contains(slot); }
  // The smallest one. There is a slot.
  Round slowest() const;
  std::vector<Slot> at_most(Round clock) const;  // the slots whose clock is not beyond it

  // May come next from the slot: the range of the clock behind mirror(), not before `range` of the
  // last update in it. False: it is here already.
  bool is_new(Slot, Round clock, std::uint32_t range) const;
  void add(Slot, Round clock, RangeUpdate);
  // All updates of that clock, the one behind mirror(), are here. `samples`: used for them.
  void close(Slot, Round clock, std::uint64_t samples);
  // Adds complete clocks to b, as many as there are.
  void advance();

  // The sum of these slots' updates of one clock behind that of b, without what cancels out;
  // several slots: in double, rounded once. Ranges ascending.
  std::vector<RangeUpdate> sum(const std::vector<Slot>&, Round clock) const;
  std::uint64_t samples_of(const std::vector<Slot>&, Round clock) const;
  // into <- b + updates of the inbox up to `clock` + acc, in that order, in double, rounded once.
  void read(Round clock, std::span<const float> acc, std::span<float> into) const;
  // Updates that are in the inbox, for bounds.
  std::uint64_t values_kept() const;
  void state(Archive& ar);

 private:
  struct ClockUpdate {  // of one slot
    std::vector<RangeUpdate> ranges;
    std::uint64_t samples = 0;
    void state(Archive& ar) { ar(ranges, samples); }
  };
  using Clock = std::map<Slot, ClockUpdate>;

  void add_to(std::vector<double>& sum, const RangeUpdate&, std::uint64_t from) const;

  const std::vector<Range> ranges_;
  std::vector<float> b_;
  Round clock_ = 0;
  std::uint64_t samples_ = 0;
  std::map<Slot, Round> mirrors_;
  std::map<Round, Clock> inbox_;  // of clocks behind clock_
};

}  // namespace longhaul::sync::gaia
