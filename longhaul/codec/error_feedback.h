#pragma once
// Error feedback around a codec E that is a contraction (Seide et al., "1-bit stochastic gradient
// descent", Interspeech 2014; Karimireddy et al., "Error feedback fixes SignSGD", ICML 2019): what
// the encoding of a vector lost is added to the next one.
//
//   p = z + b r    q = decode(E(p))    delivered: r <- p - q    abandoned: r <- p
//
// b, the decay, is 1 as published; below 1 what waits long counts less (SparseLoCo, arXiv
// 2508.15706).
//
// The residual r is kept per (group, range) and moves only in settle(): q counts as given away once
// its delivery is agreed, and comes back to r if its round is given up. Until then a repeat of the
// vector encodes the same p, also when it is cut into other stretches (fewer members, other
// shards); what the newest encoding of an element lost is what stays.
//
// Vectors are of this node's own making. Per (group, range) one vector is open at a time; keys of
// different ones settle in any order. Elements that were never encoded keep their residual.
// Memory: one vector per (group, range), two while a key is open; grows with what is encoded.
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "longhaul/codec/cover.h"
#include "longhaul/core/codec.h"

namespace longhaul::codec {

class ErrorFeedback final : public Codec {
 public:
  explicit ErrorFeedback(std::unique_ptr<Codec> inner, double decay = 1);

  std::size_t encoded_size(std::size_t length) const override;
  std::size_t size_at(Range at) const override { return inner_->size_at(at); }
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override;
  Status decode(const CodecKey&, Range at, std::span<const std::byte>,
                std::span<float> out) const override;
  // A key of which nothing was encoded, or which is settled already, changes nothing.
  void settle(const CodecKey&, Fate) override;
  void forget(std::uint32_t group) override;  // its residuals, too
  bool mean_of_senders() const override { return inner_->mean_of_senders(); }
  std::uint64_t clamped() const override { return inner_->clamped(); }
  void state(Archive&) override;

  // r, as long as what was encoded so far; while a key is open, p where it was encoded.
  std::span<const float> residual(std::uint32_t group, std::uint32_t range) const;

 private:
  struct Slot {
    std::optional<CodecKey> open;
    std::vector<float> carried;  // r; where `encoded` covers it: p
    std::vector<float> lost;     // p - q where `encoded` covers it; empty while nothing is open
    Cover encoded;
    void state(Archive&);
  };

  std::unique_ptr<Codec> inner_;
  const float decay_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Slot> slots_;  // (group, range)
};

}  // namespace longhaul::codec
