#include "longhaul/sync/gaia/base.h"

#include <algorithm>

#include "longhaul/base/check.h"

namespace longhaul::sync::gaia {

void Base::begin(std::vector<float> b, Round clock, std::uint64_t samples,
                 const std::set<Slot>& slots, Slot keep) {
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

Round Base::slowest() const {
  LH_CHECK(!mirrors_.empty());
  Round slowest = mirrors_.begin()->second;
  for (const auto& [slot, mirror] : mirrors_) slowest = std::min(slowest, mirror);
  return slowest;
}

std::vector<Slot> Base::at_most(Round clock) const {
  std::vector<Slot> slots;
  for (const auto& [slot, mirror] : mirrors_)
    if (mirror <= clock) slots.push_back(slot);
  return slots;
}

bool Base::is_new(Slot slot, Round clock, std::uint32_t range) const {
  if (clock <= mirror(slot)) return false;
  const auto found = inbox_.find(clock);
  if (found == inbox_.end()) return true;
  const auto of = found->second.find(slot);
  return of == found->second.end() || of->second.ranges.empty() ||
         of->second.ranges.back().range < range;
}

void Base::add(Slot slot, Round clock, RangeUpdate update) {
  LH_CHECK(clock == mirror(slot) + 1 && is_new(slot, clock, update.range));
  inbox_[clock][slot].ranges.push_back(std::move(update));
}

void Base::close(Slot slot, Round clock, std::uint64_t samples) {
  Round& mirror = mirrors_.at(slot);
  LH_CHECK(clock == mirror + 1);
  mirror = clock;
  inbox_[clock][slot].samples = samples;
}

// Onto a vector whose first element stands at `from` of the layout.
void Base::add_to(std::vector<double>& sum, const RangeUpdate& update, std::uint64_t from) const {
  const std::uint64_t at = ranges_[update.range].offset - from;
  for (std::size_t k = 0; k < update.values.size(); ++k)
    sum[at + (update.indexes.empty() ? k : update.indexes[k])] += double(update.values[k]);
}

void Base::advance() {
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

std::vector<RangeUpdate> Base::sum(const std::vector<Slot>& slots, Round clock) const {
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

std::uint64_t Base::samples_of(const std::vector<Slot>& slots, Round clock) const {
  std::uint64_t samples = 0;
  for (const Slot slot : slots) samples += inbox_.at(clock).at(slot).samples;
  return samples;
}

void Base::read(Round clock, std::span<const float> acc, std::span<float> into) const {
  std::vector<double> sum(b_.begin(), b_.end());
  for (const auto& [at, updates] : inbox_) {
    if (at > clock) break;
    for (const auto& [slot, update] : updates)
      for (const RangeUpdate& one : update.ranges) add_to(sum, one, 0);
  }
  for (std::size_t i = 0; i < sum.size(); ++i) into[i] = float(sum[i] + double(acc[i]));
}

std::uint64_t Base::values_kept() const {
  std::uint64_t values = 0;
  for (const auto& [clock, updates] : inbox_)
    for (const auto& [slot, update] : updates)
      for (const RangeUpdate& one : update.ranges) values += one.count;
  return values;
}

void Base::state(Archive& ar) { ar(b_, clock_, samples_, mirrors_, inbox_); }

}  // namespace longhaul::sync::gaia
