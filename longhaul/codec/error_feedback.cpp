#include "longhaul/codec/error_feedback.h"

#include <algorithm>
#include <cfloat>

namespace longhaul::codec {
namespace {

// Two large values may add up to more than a float holds; the excess is lost, not infinite.
float sum(float a, float b) { return std::clamp(a + b, -FLT_MAX, FLT_MAX); }

}  // namespace

ErrorFeedback::ErrorFeedback(std::unique_ptr<Codec> inner, double decay)
    : inner_(std::move(inner)), decay_(float(decay)) {
  LH_CHECK(inner_ != nullptr);
}

std::size_t ErrorFeedback::encoded_size(std::size_t length) const {
  return inner_->encoded_size(length);
}

Status ErrorFeedback::decode(const CodecKey& key, Range at, std::span<const std::byte> in,
                             std::span<float> out) const {
  return inner_->decode(key, at, in, out);
}

Buffer ErrorFeedback::encode(const CodecKey& key, Range at, std::span<const float> values) {
  LH_CHECK(values.size() == at.length && all_finite(values));
  Slot& slot = slots_[{key.group, key.range}];
  LH_CHECK(!slot.open || *slot.open == key);  // the vector before is not settled
  slot.open = key;
  if (slot.carried.size() < at.end()) slot.carried.resize(at.end());
  if (slot.lost.size() < slot.carried.size()) slot.lost.resize(slot.carried.size());

  for (const Range& gap : slot.encoded.gaps(at))
    for (std::uint64_t i = gap.offset; i < gap.end(); ++i)
      slot.carried[i] = sum(decay_ * slot.carried[i], values[i - at.offset]);
  slot.encoded.add(at);

  const auto p = std::span(slot.carried).subspan(at.offset, at.length);
  const auto lost = std::span(slot.lost).subspan(at.offset, at.length);
  Buffer bytes = inner_->encode(key, at, p);
  LH_CHECK(inner_->decode(key, at, bytes, lost));
  for (std::size_t i = 0; i < p.size(); ++i) lost[i] = p[i] - lost[i];
  return bytes;
}

void ErrorFeedback::settle(const CodecKey& key, Fate fate) {
  const auto it = slots_.find({key.group, key.range});
  if (it == slots_.end() || it->second.open != key) return;
  Slot& slot = it->second;
  if (fate == Fate::delivered)
    for (const Range& at : slot.encoded.ranges())
      for (std::uint64_t i = at.offset; i < at.end(); ++i) slot.carried[i] = slot.lost[i];
  // Abandoned: q goes back to what was lost, which is p, and that is what `carried` holds.
  slot.open.reset();
  slot.encoded.clear();
  slot.lost = {};
  inner_->settle(key, fate);
}

void ErrorFeedback::forget(std::uint32_t group) {
  std::erase_if(slots_, [&](const auto& slot) { return slot.first.first == group; });
  inner_->forget(group);
}

std::span<const float> ErrorFeedback::residual(std::uint32_t group, std::uint32_t range) const {
  const auto it = slots_.find({group, range});
  return it == slots_.end() ? std::span<const float>{} : std::span(it->second.carried);
}

void ErrorFeedback::Slot::state(Archive& ar) {
  ar(open, carried, lost, encoded);
  if (!ar.loading() || ar.failed()) return;
  if (encoded.end() > lost.size() || lost.size() > carried.size() || !all_finite(carried) ||
      !all_finite(lost) || (!open && !lost.empty()))
    ar.fail("holds an error feedback that does not fit together");
}

void ErrorFeedback::state(Archive& ar) {
  ar.expect("error_feedback");
  inner_->state(ar);
  ar(slots_);
}

}  // namespace longhaul::codec
