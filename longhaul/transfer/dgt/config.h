#pragma once
// Settings of [transfer] kind = "dgt"; defaults as in docs/transfer/dgt.md.
#include <algorithm>
#include <cmath>
#include <string>

#include "longhaul/base/archive.h"
#include "longhaul/base/settings.h"

namespace longhaul::transfer::dgt {

struct Config {
  std::string mode = "on";
  std::string late = "carry";
  std::uint32_t max_late = 1;
  std::uint32_t channels = 3;
  double k0 = 0.8;
  double k_min = 0.2;
  bool adaptive = true;
  double tau = 100;
  std::uint32_t w_loss = 10;
  double alpha = 0.3;
  std::uint32_t block_bytes = 1024;
  double grace_ms = 0;

  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(
        mode,
        "on: blocks of high contribution are sent reliably, the others best effort; off: "
        "all reliably; sender_drop: the others are not sent. random: the reliable ones are "
        "drawn; bounded_loss: drawn, the others in order, and late ones are discarded",
        .choices = {"on", "off", "sender_drop", "random", "bounded_loss"});
    LONGHAUL_KEY(
        late,
        "blocks too late for their vector. carry: added to the next one; discard: dropped; "
        "return: the sender adds them to its next one",
        .choices = {"carry", "discard", "return"});
    LONGHAUL_KEY(max_late, "by how many vectors a block that counts may be late", .min = 1,
                 .max = 16);
    LONGHAUL_KEY(channels, "best-effort channels, of falling priority", .min = 1, .max = 4);
    LONGHAUL_KEY(k0, "share of the blocks that go reliably at first", .min = 0, .max = 1);
    LONGHAUL_KEY(k_min, "the least such share", .min = 0, .max = 1);
    LONGHAUL_KEY(adaptive, "the share falls as the training loss does");
    LONGHAUL_KEY(tau, "iterations over which the loss is smoothed", .min = 1, .max = 1e9,
                 .unit = "iterations");
    LONGHAUL_KEY(w_loss, "first losses for which the share stays k0", .min = 1, .max = 1e9,
                 .unit = "iterations");
    LONGHAUL_KEY(alpha, "weight of the history in a block's contribution", .min = 0, .max = 1);
    LONGHAUL_KEY(block_bytes, "length of a block as fp32 values; no more than a datagram",
                 .min = 16, .max = 1024, .unit = "bytes");
    LONGHAUL_KEY(grace_ms, "wait for the other blocks after the last reliable one", .min = 0,
                 .max = 6e4, .unit = "ms");
  }

  bool carries() const { return late == "carry" && mode != "bounded_loss"; }
  bool returns() const { return late == "return" && mode != "bounded_loss"; }
  bool draws() const { return mode == "random" || mode == "bounded_loss"; }
};

// The share k of the blocks that go reliably. k falls with the training loss:
//
//   Lbar <- Lbar + (L - Lbar) / tau              the first loss: Lbar = L
//   k = k0                                       up to the w_loss-th loss, whose Lbar is L1
//   k = clamp(k0 Lbar / L1, k_min, 1)            after it
//
// A loss that is not finite changes nothing. The public code of the paper does not smooth.
class ReliableShare {
 public:
  explicit ReliableShare(const Config& config) : config_(config), k_(config.k0) {}
  void observe(double loss) {
    if (!config_.adaptive || !std::isfinite(loss)) return;
    smoothed_ = losses_ == 0 ? loss : smoothed_ + (loss - smoothed_) / config_.tau;
    if (++losses_ < config_.w_loss) return;
    if (losses_ == config_.w_loss) {
      first_ = smoothed_;
      return;
    }
    // If the first loss is 0 or less, the ratio has no meaning.
    const double k = first_ > 0 ? config_.k0 * smoothed_ / first_ : config_.k0;
    if (std::isfinite(k)) k_ = std::clamp(k, config_.k_min, 1.0);
  }

  double k() const { return k_; }
  void state(Archive& ar) { ar(losses_, smoothed_, first_, k_); }

 private:
  const Config config_;
  std::uint64_t losses_ = 0;
  double smoothed_ = 0, first_ = 0;  // Lbar, L1
  double k_;
};

}  // namespace longhaul::transfer::dgt
