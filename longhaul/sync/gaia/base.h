#pragma once
// Base holds the updates that a site has received, by clock. b is the sum of all updates up to a
// complete clock, and the inbox has those of later clocks. Each sender to this site has a slot: the
// site itself, a site that sends directly, or a group of sites whose sum a hub sends.
//
// At a given clock, b is bit-identical on all sites with the same slots, in whatever order updates
// arrive. Updates are added in the order of (clock, slot), in double, rounded once per clock. A
// returned site continues from another site's b, and so does one whose peers have lost a site. This
// order is ours; published implementations add updates on arrival.
#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/core/sample_count.h"
#include "longhaul/sync/gaia/encoding.h"

namespace longhaul::sync::gaia {

using Slot = std::uint32_t;  // ranks first, then groups of sites (sync/gaia/routes.h)

class Base {
 public:
  // `ranges`: parts of the layout's parameters, by number.
  explicit Base(std::vector<Range> ranges) : ranges_(std::move(ranges)) {}

  // Starts from b at a clock, with slots of the same clock. The inbox keeps only the updates of
  // slot `keep` after that clock. `b` is empty in a phantom job.
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
  Round clock() const { return clock_; }              // clock of b
  std::uint64_t samples() const { return samples_; }  // samples used for b, by all sites
  // Returns the mirror clock of the slot: the newest clock whose updates have all arrived.
  Round mirror(Slot slot) const { return mirrors_.at(slot); }
  bool has(Slot slot) const { return mirrors_.contains(slot); }
  // Returns the smallest mirror clock. There must be a slot.
  Round slowest() const {
    LH_CHECK(!mirrors_.empty());
    Round slowest = mirrors_.begin()->second;
    for (const auto& [slot, mirror] : mirrors_) slowest = std::min(slowest, mirror);
    return slowest;
  }

  // Returns the slots whose mirror clock is at most `clock`.
  std::vector<Slot> at_most(Round clock) const {
    std::vector<Slot> slots;
    for (const auto& [slot, mirror] : mirrors_)
      if (mirror <= clock) slots.push_back(slot);
    return slots;
  }

  // Returns true if the range can come next from the slot: in the clock after mirror(), and after
  // the range of the last update in it. False if it has already arrived.
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

  // Closes the clock after mirror(): all its updates have arrived. `samples`: used for them.
  void close(Slot slot, Round clock, std::uint64_t samples) {
    Round& mirror = mirrors_.at(slot);
    LH_CHECK(clock == mirror + 1);
    mirror = clock;
    inbox_[clock][slot].samples = samples;
  }

  // Adds all complete clocks to b.
  void advance() {
    while (slowest() > clock_) {
      const auto next = inbox_.find(clock_ + 1);
      LH_CHECK(next != inbox_.end());
      std::vector<double> sum(b_.begin(), b_.end());
      for (const auto& [slot, updates] : next->second) {
        for (const RangeUpdate& update : updates.ranges) add_to(sum, update, 0);
        samples_ = plus_samples(samples_, double(updates.samples));
      }
      std::ranges::transform(sum, b_.begin(), [](double value) { return float(value); });
      inbox_.erase(next);
      ++clock_;
    }
  }

  // Returns the sum of these slots' updates of one clock after that of b, without values that
  // cancel out. Several slots are added in double, rounded once. Ranges are ascending.
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
    for (const Slot slot : slots)
      samples = plus_samples(samples, double(inbox_.at(clock).at(slot).samples));
    return samples;
  }

  // Sets `into` to b + updates of the inbox up to `clock` + acc, in that order, in double, rounded
  // once.
  void read(Round clock, std::span<const float> acc, std::span<float> into) const {
    std::vector<double> sum(b_.begin(), b_.end());
    for (const auto& [at, updates] : inbox_) {
      if (at > clock) break;
      for (const auto& [slot, update] : updates)
        for (const RangeUpdate& one : update.ranges) add_to(sum, one, 0);
    }
    for (std::size_t i = 0; i < sum.size(); ++i) into[i] = float(sum[i] + double(acc[i]));
  }

  // Returns the number of values in the inbox, for bounds.
  std::uint64_t values_kept() const {
    std::uint64_t values = 0;
    for (const auto& [clock, updates] : inbox_)
      for (const auto& [slot, update] : updates)
        for (const RangeUpdate& one : update.ranges) values += one.count;
    return values;
  }

  void state(Archive& ar) { ar(b_, clock_, samples_, mirrors_, inbox_); }

 private:
  struct ClockUpdate {  // updates of one slot
    std::vector<RangeUpdate> ranges;
    std::uint64_t samples = 0;
    void state(Archive& ar) { ar(ranges, samples); }
  };
  using Clock = std::map<Slot, ClockUpdate>;

  // Adds to a vector whose first element is at `from` of the layout.
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
  std::map<Round, Clock> inbox_;  // clocks after clock_
};

}  // namespace longhaul::sync::gaia
