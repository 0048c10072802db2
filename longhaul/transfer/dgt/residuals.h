#pragma once
// With late = "return": what the receiver did not count, kept by the sender until it is added to
// the next vector. A residual is taken when a push is made; what its receipt does not count comes
// back, and all that was taken comes back if the push is undone. So over a run
//   sum of what was counted = sum of what was given - residual.
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
  // Adds the residual to these values of the vector, and forgets it. What was added.
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
  std::map<Vector, std::vector<float>> vectors_;  // as long as what was given to them
};

// What a push has taken and sent, until its round is over: if the round is repeated, which a third
// node's loss may cause, all of it is given anew, and what this push did is undone.
struct PushRecord {
  struct Part {  // a block that was offered
    std::uint32_t number = 0;
    std::uint64_t offset = 0;
    std::vector<float> sent;   // empty: it went reliably
    std::vector<float> taken;  // of it, from the residual; empty: nothing
    void state(auto& ar) { ar(number, offset, sent, taken); }
  };
  Rank to = 0;
  StreamId stream;
  std::uint64_t push = 0;
  Epoch epoch = 0;
  Round round = 0;
  std::vector<Part> parts;
  std::optional<Bitmap> counted;  // its receipt is here
  Residuals::Vector vector() const { return {stream.group, stream.range}; }
  void state(auto& ar) { ar(to, stream, push, epoch, round, parts, counted); }
};
// Its receipt has come: what does not count goes to the residual.
inline void settle(PushRecord& push, const Bitmap& counted, Residuals& residuals) {
  for (const PushRecord::Part& part : push.parts)
    if (!has(counted, part.number)) residuals.give(push.vector(), part.offset, part.sent);
  push.counted = counted;
}

// As if it had never been made.
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
