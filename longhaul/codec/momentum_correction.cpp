#include "longhaul/codec/momentum_correction.h"

#include <algorithm>
#include <cfloat>

namespace longhaul::codec {

MomentumCorrection::MomentumCorrection(std::unique_ptr<Codec> inner, float momentum, bool masks)
    : inner_(std::move(inner)), momentum_(momentum), masks_(masks) {
  LH_CHECK(inner_ != nullptr && momentum >= 0 && momentum < 1);
}

std::size_t MomentumCorrection::encoded_size(std::size_t length) const {
  return inner_->encoded_size(length);
}

Status MomentumCorrection::decode(const CodecKey& key, Range at, std::span<const std::byte> in,
                                  std::span<float> out) const {
  return inner_->decode(key, at, in, out);
}

Buffer MomentumCorrection::encode(const CodecKey& key, Range at, std::span<const float> values) {
  LH_CHECK(values.size() == at.length && all_finite(values));
  Slot& slot = slots_[{key.group, key.range}];
  LH_CHECK(!slot.open || *slot.open == key);  // the vector before is not settled
  slot.open = key;
  if (slot.u.size() < at.end()) slot.u.resize(at.end());
  if (slot.sent.size() < slot.u.size()) slot.sent.resize(slot.u.size());
  for (const Range& gap : slot.encoded.gaps(at))
    for (std::uint64_t i = gap.offset; i < gap.end(); ++i)
      slot.u[i] = std::clamp(momentum_ * slot.u[i] + values[i - at.offset], -FLT_MAX, FLT_MAX);
  slot.encoded.add(at);

  Buffer bytes = inner_->encode(key, at, std::span(slot.u).subspan(at.offset, at.length));
  std::vector<float> read(at.length);
  LH_CHECK(inner_->decode(key, at, bytes, read));
  for (std::size_t i = 0; i < read.size(); ++i) slot.sent[at.offset + i] = read[i] != 0;
  return bytes;
}

void MomentumCorrection::settle(const CodecKey& key, Fate fate) {
  const auto it = slots_.find({key.group, key.range});
  if (it == slots_.end() || it->second.open != key) return;
  Slot& slot = it->second;
  if (fate == Fate::delivered && masks_)
    for (const Range& at : slot.encoded.ranges())
      for (std::uint64_t i = at.offset; i < at.end(); ++i)
        if (slot.sent[i] != 0) slot.u[i] = 0;
  slot.open.reset();
  slot.encoded.clear();
  slot.sent = {};
  inner_->settle(key, fate);
}

void MomentumCorrection::forget(std::uint32_t group) {
  std::erase_if(slots_, [&](const auto& slot) { return slot.first.first == group; });
  inner_->forget(group);
}

std::span<const float> MomentumCorrection::momentum(std::uint32_t group,
                                                    std::uint32_t range) const {
  const auto it = slots_.find({group, range});
  return it == slots_.end() ? std::span<const float>{} : std::span(it->second.u);
}

void MomentumCorrection::Slot::state(Archive& ar) {
  ar(open, u, sent, encoded);
  if (!ar.loading() || ar.failed()) return;
  if (encoded.end() > sent.size() || sent.size() > u.size() || !all_finite(u) ||
      (!open && !sent.empty()))
    ar.fail("holds a momentum that does not fit together");
}

void MomentumCorrection::state(Archive& ar) {
  ar.expect("momentum_correction");
  inner_->state(ar);
  ar(slots_);
}

}  // namespace longhaul::codec
