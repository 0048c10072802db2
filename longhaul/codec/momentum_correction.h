#pragma once
// Momentum before error feedback, and masking of what was sent (Lin et al., "Deep gradient
// compression", ICLR 2018, section 3.2 and algorithm 4; without local clipping):
//
//   u = m u + g    what goes into the error feedback is u    delivered: u <- 0 where values were
//   sent
//
// Sent is what decodes to something else than 0. u is kept per (group, range) and moves once for
// each vector: repeats, also of other stretches, find it moved. An abandoned vector keeps its u, as
// the residual keeps what was added to it, and masks nothing.
//
// Memory: one vector per (group, range), and a byte a value while a key is open.
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "longhaul/codec/cover.h"
#include "longhaul/core/codec.h"

namespace longhaul::codec {

class MomentumCorrection final : public Codec {
 public:
  // `inner`: an error feedback. `masks`: false leaves u as it is when values were sent.
  MomentumCorrection(std::unique_ptr<Codec> inner, float momentum, bool masks = true);

  std::size_t encoded_size(std::size_t length) const override;
  std::size_t size_at(Range at) const override { return inner_->size_at(at); }
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override;
  Status decode(const CodecKey&, Range at, std::span<const std::byte>,
                std::span<float> out) const override;
  void settle(const CodecKey&, Fate) override;
  void forget(std::uint32_t group) override;
  bool mean_of_senders() const override { return inner_->mean_of_senders(); }
  std::uint64_t clamped() const override { return inner_->clamped(); }
  void state(Archive&) override;

  // u, as long as what was encoded so far.
  std::span<const float> momentum(std::uint32_t group, std::uint32_t range) const;

 private:
  struct Slot {
    std::optional<CodecKey> open;
    std::vector<float> u;
    std::vector<std::uint8_t> sent;  // 1 where the newest encoding is not 0; while a key is open
    Cover encoded;
    void state(Archive&);
  };

  std::unique_ptr<Codec> inner_;
  const float momentum_;
  const bool masks_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Slot> slots_;  // (group, range)
};

}  // namespace longhaul::codec
