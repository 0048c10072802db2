#pragma once
// Base is what a site has been told, by clocks: b, the sum of all updates up to a clock that is
// complete, and the inbox with those of later clocks. Whoever sends to this site has a slot: itself
// and each site that sends to it directly, or a group of sites whose sum a hub sends.
//
// b at a clock has the same bits on all sites that have the same slots, in whatever order updates
// came: they are added in the order of (clock, slot), in double, rounded once for each clock. A
// site that comes back, or whose peers have lost one, goes on from another's b. Ours; published
// implementations add what comes when it comes.
#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "longhaul/base/check.h"
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
             Slot keep) {
    b_ = std::move(b);
    clock_ = clock;
    samples_ = samples;
    mirrors_.clear();
    for (const Slot slot : slots) mirrors_[slot] = clock_;
    std::erase_if(inbox_, [&](const auto& one) { return one.first <= clock_; });
    for (auto& [at, updates] : inbox_) {
      std::erase_if(updates, [&](const auto& one) { return one.first != keep; });
      if (updates.contains(keep)) mirrors_.at(keep) = at;
    }
  }

  const std::vector<float>& b() const { return b_; }
  Round clock() const { return clock_; }              // of b
  std::uint64_t samples() const { return samples_; }  // used for b, by all sites
  // The newest clock of which all updates of the slot are here: its mirror clock.
  Round mirror(Slot slot) const { return mirrors_.at(slot); }
  bool has(Slot slot) const { return mirrors_.contains(slot); }
  // The smallest one. There is a slot.
  Round slowest() const {
    LH_CHECK(!mirrors_.empty());
    Round slowest = mirrors_.begin()->second;
    for (const auto& [slot, mirror] : mirrors_) slowest = std::min(slowest, mirror);
    return slowest;
  }

  // the slots whose clock is not beyond it
  std::vector<Slot> at_most(Round clock) const {
    std::vector<Slot> slots;
    for (const auto& [slot, mirror] : mirrors_)
      if (mirror <= clock) slots.push_back(slot);
    return slots;
  }

  // May come next from the slot: the range of the clock behind mirror(), not before `range` of the
  // last update in it. False: it is here already.
  bool is_new(Slot slot, Round clock, std::uint32_t range) const {
    if (clock <= mirror(slot)) return false;
    const auto found = inbox_.find(clock);
    if (found == inbox_.end()) return true;
    const auto of = found->second.find(slot);
    return of == found->second.end() || of->second.ranges.empty() ||
           of->second.ranges.back().range < range;
  }

  void add(Slot slot, Round clock, RangeUpdate update) {
    LH_CHECK(clock == mirror(slot) + 1 && is_new(slot, clock, update.range));
    inbox_[clock][slot].ranges.push_back(std::move(update));
  }

  // All updates of that clock, the one behind mirror(), are here. `samples`: used for them.
  void close(Slot slot, Round clock, std::uint64_t samples) {
    Round& mirror = mirrors_.at(slot);
    LH_CHECK(clock == mirror + 1);
    mirror = clock;
    inbox_[clock][slot].samples = samples;
  }

  // Adds complete clocks to b, as many as there are.
  void advance() {
    while (slowest() > clock_) {
      const auto next = inbox_.find(clock_ + 1);
      LH_CHECK(next != inbox_.end());
      std::vector<double> sum(b_.begin(), b_.end());
      for (const auto& [slot, updates] : next->second) {
        for (const RangeUpdate& update : updates.ranges) add_to(sum, update, 0);
        samples_ += updates.samples;
      }
      std::ranges::transform(sum, b_.begin(), [](double value) { return float(value); });
      inbox_.erase(next);
      ++clock_;
    }
  }

  // The sum of these slots' updates of one clock behind that of b, without what cancels out;
  // several slots: in double, rounded once. Ranges ascending.
  std::vector<RangeUpdate> sum(const std::vector<Slot>& slots, Round clock) const {
    const Clock& updates = inbox_.at(clock);
    if (slots.size() == 1) return updates.at(slots[0]).ranges;
    std::vector<RangeUpdate> sums;
    for (std::uint32_t range = 0; range < ranges_.size(); ++range) {
      std::vector<double> sum;
      RangeUpdate whole{.range = range, .count = 0, .indexes = {}, .values = {}};
      const std::uint64_t length = ranges_[range].length;
      for (const Slot slot : slots) {
        for (const RangeUpdate& update : updates.at(slot).ranges) {
          if (update.range != range) continue;
          whole.count = std::min(length, whole.count + update.count);
          if (!b_.empty()) sum.resize(length);
          add_to(sum, update, ranges_[range].offset);
        }
      }
      if (whole.count == 0) continue;
      if (!b_.empty()) {
        for (std::uint32_t i = 0; i < sum.size(); ++i) {
          if (float(sum[i]) == 0) continue;
          whole.indexes.push_back(i);
          whole.values.push_back(float(sum[i]));
        }
        whole.count = whole.values.size();
        if (whole.count == 0) continue;
      }
      if (whole.count == length) whole.indexes.clear();
      sums.push_back(std::move(whole));
    }
    return sums;
  }

  std::uint64_t samples_of(const std::vector<Slot>& slots, Round clock) const {
    std::uint64_t samples = 0;
    for (const Slot slot : slots) samples += inbox_.at(clock).at(slot).samples;
    return samples;
  }

  // into <- b + updates of the inbox up to `clock` + acc, in that order, in double, rounded once.
  void read(Round clock, std::span<const float> acc, std::span<float> into) const {
    std::vector<double> sum(b_.begin(), b_.end());
    for (const auto& [at, updates] : inbox_) {
      if (at > clock) break;
      for (const auto& [slot, update] : updates)
        for (const RangeUpdate& one : update.ranges) add_to(sum, one, 0);
    }
    for (std::size_t i = 0; i < sum.size(); ++i) into[i] = float(sum[i] + double(acc[i]));
  }

  // Updates that are in the inbox, for bounds.
  std::uint64_t values_kept() const {
    std::uint64_t values = 0;
    for (const auto& [clock, updates] : inbox_)
      for (const auto& [slot, update] : updates)
        for (const RangeUpdate& one : update.ranges) values += one.count;
    return values;
  }

  void state(Archive& ar) { ar(b_, clock_, samples_, mirrors_, inbox_); }

 private:
  struct ClockUpdate {  // of one slot
    std::vector<RangeUpdate> ranges;
    std::uint64_t samples = 0;
    void state(Archive& ar) { ar(ranges, samples); }
  };
  using Clock = std::map<Slot, ClockUpdate>;

  // Onto a vector whose first element stands at `from` of the layout.
  void add_to(std::vector<double>& sum, const RangeUpdate& update, std::uint64_t from) const {
    const std::uint64_t at = ranges_[update.range].offset - from;
    for (std::size_t k = 0; k < update.values.size(); ++k)
      sum[at + (update.indexes.empty() ? k : update.indexes[k])] += double(update.values[k]);
  }

  const std::vector<Range> ranges_;
  std::vector<float> b_;
  Round clock_ = 0;
  std::uint64_t samples_ = 0;
  std::map<Slot, Round> mirrors_;
  std::map<Round, Clock> inbox_;  // of clocks behind clock_
};

}  // namespace longhaul::sync::gaia
