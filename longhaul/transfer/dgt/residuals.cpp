#include "longhaul/transfer/dgt/residuals.h"

#include <algorithm>
#include <cfloat>

namespace longhaul::transfer::dgt {
namespace {

float bounded_sum(float a, float b) {
  return float(std::clamp(double(a) + double(b), -double(FLT_MAX), double(FLT_MAX)));
}

}  // namespace

std::vector<float> Residuals::take(const Vector& vector, std::uint64_t offset,
                                   std::span<float> values) {
  const auto known = vectors_.find(vector);
  if (known == vectors_.end() || known->second.size() <= offset) return {};
  std::vector<float>& residual = known->second;
  std::vector<float> taken(values.size());
  const std::size_t length = std::min<std::size_t>(values.size(), residual.size() - offset);
  bool some = false;
  for (std::size_t i = 0; i < length; ++i) {
    taken[i] = std::exchange(residual[offset + i], 0.0f);
    some |= taken[i] != 0;
    values[i] = bounded_sum(values[i], taken[i]);
  }
  return some ? taken : std::vector<float>{};
}

void Residuals::give(const Vector& vector, std::uint64_t offset, std::span<const float> values) {
  if (values.empty()) return;
  std::vector<float>& residual = vectors_[vector];
  if (residual.size() < offset + values.size()) residual.resize(offset + values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    residual[offset + i] = bounded_sum(residual[offset + i], values[i]);
}

std::span<const float> Residuals::of(const Vector& vector) const {
  const auto known = vectors_.find(vector);
  return known == vectors_.end() ? std::span<const float>{} : std::span(known->second);
}

void settle(PushRecord& push, const Bitmap& counted, Residuals& residuals) {
  for (const PushRecord::Part& part : push.parts)
    if (!has(counted, part.number)) residuals.give(push.vector(), part.offset, part.sent);
  push.counted = counted;
}

void undo(const PushRecord& push, Residuals& residuals) {
  for (const PushRecord::Part& part : push.parts) {
    if (push.counted && !has(*push.counted, part.number)) {
      std::vector<float> back = part.sent;
      for (float& v : back) v = -v;
      residuals.give(push.vector(), part.offset, back);
    }
    residuals.give(push.vector(), part.offset, part.taken);
  }
}

}  // namespace longhaul::transfer::dgt
