#pragma once
// With late = "return": the values that the receiver did not count, kept by the sender until it
// adds them to the next vector. A push takes the residual. Blocks that its receipt does not count
// are added to the residual, and so is everything taken if the push is undone. So over a run
//   sum of counted values = sum of given values - residual.
#include <algorithm>
#include <cfloat>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/transfer/dgt/messages.h"

namespace longhaul::transfer::dgt {

class Residuals {
  static float bounded_sum(float a, float b) {
    return float(std::clamp(double(a) + double(b), -double(FLT_MAX), double(FLT_MAX)));
  }

 public:
  using Vector = std::pair<std::uint32_t, std::uint32_t>;  // group, range
  // Adds the residual to these values of the vector, and forgets it. Returns the added values.
  std::vector<float> take(const Vector& vector, std::uint64_t offset, std::span<float> values) {
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

  void give(const Vector& vector, std::uint64_t offset, std::span<const float> values) {
    if (values.empty()) return;
    std::vector<float>& residual = vectors_[vector];
    if (residual.size() < offset + values.size()) residual.resize(offset + values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      residual[offset + i] = bounded_sum(residual[offset + i], values[i]);
  }

  std::span<const float> of(const Vector& vector) const {
    const auto known = vectors_.find(vector);
    return known == vectors_.end() ? std::span<const float>{} : std::span(known->second);
  }

  void state(Archive& ar) { ar(vectors_); }

 private:
  std::map<Vector, std::vector<float>> vectors_;  // as long as the values added to them
};

// The values that a push has taken and sent, kept until its round has ended. If the round is
// repeated, for example after a third node's loss, the vector is sent again, and this push is
// undone.
struct PushRecord {
  struct Part {  // an offered block
    std::uint32_t number = 0;
    std::uint64_t offset = 0;
    std::vector<float> sent;   // empty: sent reliably
    std::vector<float> taken;  // part of it from the residual; empty: none
    void state(auto& ar) { ar(number, offset, sent, taken); }
  };
  Rank to = 0;
  StreamId stream;
  std::uint64_t push = 0;
  Epoch epoch = 0;
  Round round = 0;
  std::vector<Part> parts;
  std::optional<Bitmap> counted;  // set when its receipt has arrived
  Residuals::Vector vector() const { return {stream.group, stream.range}; }
  void state(auto& ar) { ar(to, stream, push, epoch, round, parts, counted); }
};
// Called when the receipt has arrived: adds the blocks that do not count to the residual.
inline void settle(PushRecord& push, const Bitmap& counted, Residuals& residuals) {
  for (const PushRecord::Part& part : push.parts)
    if (!has(counted, part.number)) residuals.give(push.vector(), part.offset, part.sent);
  push.counted = counted;
}

// Restores the residual as if the push had never been made.
inline void undo(const PushRecord& push, Residuals& residuals) {
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
