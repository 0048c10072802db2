#pragma once
// Codecs around a codec that keep something of each vector for the next one: error feedback, and
// momentum before it.
//
// State is per (group, range). Delivery changes it only in settle(): once all agree that a vector
// is delivered, and not at all if its round is abandoned. Until then a repeat of the vector encodes
// the same values, also when it is cut into other ranges (fewer members, other shards). The newest
// encoding of an element counts.
//
// All vectors come from this node. Per (group, range) one vector is open at a time; keys of
// different ones settle in any order. Elements that were never encoded keep their carried value.
#include <algorithm>
#include <cfloat>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/codec.h"
#include "longhaul/core/types.h"

namespace longhaul::codec {

// A set of elements of a vector: disjoint ranges, ascending, none touching the next.
class Cover {
 public:
  // Returns the parts of `at` that are not covered, ascending.
  std::vector<Range> gaps(Range at) const {
    std::vector<Range> found;
    std::uint64_t next = at.offset;
    for (const auto& [offset, end] : ends_) {
      if (end <= next) continue;
      if (offset >= at.end()) break;
      if (offset > next) found.push_back({next, offset - next});
      next = end;
    }
    if (next < at.end()) found.push_back({next, at.end() - next});
    return found;
  }

  void add(Range at) {
    if (at.length == 0) return;
    std::uint64_t begin = at.offset, end = at.end();
    auto it = ends_.upper_bound(begin);
    if (it != ends_.begin() && std::prev(it)->second >= begin) --it;
    while (it != ends_.end() && it->first <= end) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = ends_.erase(it);
    }
    ends_[begin] = end;
  }

  void clear() { ends_.clear(); }
  bool empty() const { return ends_.empty(); }
  std::vector<Range> ranges() const {
    std::vector<Range> all;
    for (const auto& [offset, end] : ends_) all.push_back({offset, end - offset});
    return all;
  }

  // Returns the end of the last covered range.
  std::uint64_t end() const { return ends_.empty() ? 0 : ends_.rbegin()->second; }
  void state(Archive& ar) {
    ar(ends_);
    if (!ar.loading() || ar.failed()) return;
    std::uint64_t last = 0;
    for (const auto& [from, to] : ends_) {
      if (from < last || to <= from) ar.fail("holds stretches of a vector out of order");
      last = to;
    }
  }

 private:
  std::map<std::uint64_t, std::uint64_t> ends_;  // offset -> end
};

// A codec that carries a float c for each element. A new value x makes it c <- b c + x, which is
// encoded. One `Note` of the decoded value is kept, and delivery changes c by it. `Part` defines
// how: its kName, kCarries, note_of(given, read) and after_delivery(c, note).
// Memory: one vector per (group, range), and the notes while a key is open.
template <class Part, class Note>
class CarryingCodec : public Codec {
 public:
  CarryingCodec(std::unique_ptr<Codec> inner, float keep) : inner_(std::move(inner)), keep_(keep) {
    LH_CHECK(inner_ != nullptr);
  }

  std::size_t encoded_size(std::size_t length) const override {
    return inner_->encoded_size(length);
  }
  std::size_t size_at(Range at) const override { return inner_->size_at(at); }

  Buffer encode(const CodecKey& key, Range at, std::span<const float> values) override {
    LH_CHECK(values.size() == at.length && all_finite(values));
    Slot& slot = slots_[{key.group, key.range}];
    LH_CHECK(!slot.open || *slot.open == key);  // the vector before is not settled
    slot.open = key;
    if (slot.carried.size() < at.end()) slot.carried.resize(at.end());
    if (slot.notes.size() < slot.carried.size()) slot.notes.resize(slot.carried.size());
    // Two large values may add up to more than a float holds; the excess is lost, not infinite.
    for (const Range& gap : slot.encoded.gaps(at))
      for (std::uint64_t i = gap.offset; i < gap.end(); ++i)
        slot.carried[i] =
            std::clamp(keep_ * slot.carried[i] + values[i - at.offset], -FLT_MAX, FLT_MAX);
    slot.encoded.add(at);

    const auto given = std::span(slot.carried).subspan(at.offset, at.length);
    Buffer bytes = inner_->encode(key, at, given);
    std::vector<float> read(at.length);
    LH_CHECK(inner_->decode(key, at, bytes, read));
    for (std::size_t i = 0; i < read.size(); ++i)
      slot.notes[at.offset + i] = part().note_of(given[i], read[i]);
    return bytes;
  }

  Status decode(const CodecKey& key, Range at, std::span<const std::byte> in,
                std::span<float> out) const override {
    return inner_->decode(key, at, in, out);
  }

  // Changes nothing for a key without encoded values, or one that is settled already.
  void settle(const CodecKey& key, Fate fate) override {
    const auto it = slots_.find({key.group, key.range});
    if (it == slots_.end() || it->second.open != key) return;
    Slot& slot = it->second;
    if (fate == Fate::delivered)
      for (const Range& at : slot.encoded.ranges())
        for (std::uint64_t i = at.offset; i < at.end(); ++i)
          slot.carried[i] = part().after_delivery(slot.carried[i], slot.notes[i]);
    slot.open.reset();
    slot.encoded.clear();
    slot.notes = {};
    inner_->settle(key, fate);
  }

  void forget(std::uint32_t group) override {  // also their carried values
    std::erase_if(slots_, [&](const auto& slot) { return slot.first.first == group; });
    inner_->forget(group);
  }
  bool mean_of_senders() const override { return inner_->mean_of_senders(); }
  std::uint64_t clamped() const override { return inner_->clamped(); }
  void state(Archive& ar) override {
    ar.expect(Part::kName);
    inner_->state(ar);
    ar(slots_);
  }

  // Returns c of all elements up to the last one encoded so far.
  std::span<const float> carried(std::uint32_t group, std::uint32_t range) const {
    const auto it = slots_.find({group, range});
    return it == slots_.end() ? std::span<const float>{} : std::span(it->second.carried);
  }

 private:
  const Part& part() const { return static_cast<const Part&>(*this); }

  struct Slot {
    std::optional<CodecKey> open;
    std::vector<float> carried;
    std::vector<Note> notes;  // by element; empty while no key is open
    Cover encoded;
    void state(Archive& ar) {
      ar(open, carried, notes, encoded);
      if (!ar.loading() || ar.failed()) return;
      bool fits = encoded.end() <= notes.size() && notes.size() <= carried.size() &&
                  all_finite(carried) && (open || notes.empty());
      if constexpr (std::is_same_v<Note, float>) fits = fits && all_finite(notes);
      if (!fits) ar.fail(std::string("holds ") + Part::kCarries + " that does not fit together");
    }
  };

  std::unique_ptr<Codec> inner_;
  const float keep_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Slot> slots_;  // (group, range)
};

// Error feedback around a codec E that is a contraction (Seide et al., "1-bit stochastic gradient
// descent", Interspeech 2014; Karimireddy et al., "Error feedback fixes SignSGD", ICML 2019): the
// encoding error of a vector is added to the next one. The carried value is the residual r:
//
//   p = z + b r    q = decode(E(p))    delivered: r <- p - q    abandoned: r <- p
//
// b, the decay, is 1 as published; below 1 older errors count less (SparseLoCo, arXiv 2508.15706).
class ErrorFeedback final : public CarryingCodec<ErrorFeedback, float> {
 public:
  explicit ErrorFeedback(std::unique_ptr<Codec> inner, double decay = 1)
      : CarryingCodec(std::move(inner), float(decay)) {}

  static constexpr const char *kName = "error_feedback", *kCarries = "an error feedback";
  float note_of(float given, float read) const { return given - read; }
  float after_delivery(float, float lost) const { return lost; }
};

// Momentum before error feedback, and masking of sent values (Lin et al., "Deep gradient
// compression", ICLR 2018, section 3.2 and algorithm 4; without local clipping):
//
//   u = m u + g    error feedback encodes u    delivered: u <- 0 where values were sent
//
// Sent values are those that decode to something else than 0. An abandoned vector masks nothing.
class MomentumCorrection final : public CarryingCodec<MomentumCorrection, std::uint8_t> {
 public:
  // `inner`: an error feedback. `masks`: false keeps u where values were sent.
  MomentumCorrection(std::unique_ptr<Codec> inner, float momentum, bool masks = true)
      : CarryingCodec(std::move(inner), momentum), masks_(masks) {
    LH_CHECK(momentum >= 0 && momentum < 1);
  }

  static constexpr const char *kName = "momentum_correction", *kCarries = "a momentum";
  std::uint8_t note_of(float, float read) const { return read != 0; }
  float after_delivery(float u, std::uint8_t sent) const { return sent != 0 && masks_ ? 0 : u; }

 private:
  const bool masks_;
};

}  // namespace longhaul::codec
