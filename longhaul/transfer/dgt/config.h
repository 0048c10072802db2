#pragma once
// Settings of [transfer] kind = "dgt"; defaults as in docs/transfer/dgt.md.
#include <string>

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

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(mode,
                   .doc =
                       "on: blocks of high contribution go reliably, the others best effort; "
                       "off: all go reliably; sender_drop: the others are not sent; random: "
                       "which go reliably is drawn; bounded_loss: drawn, the others in order, "
                       "and late ones are discarded",
                   .choices = {"on", "off", "sender_drop", "random", "bounded_loss"});
    LONGHAUL_FIELD(late,
                   .doc =
                       "blocks that come after their vector was handed on: carry adds them to "
                       "the next one, discard drops them, return has the sender add what did "
                       "not come in time to its next one",
                   .choices = {"carry", "discard", "return"});
    LONGHAUL_FIELD(max_late, .doc = "by how many vectors a block that counts may be late", .min = 1,
                   .max = 16);
    LONGHAUL_FIELD(channels, .doc = "best-effort channels, of falling priority", .min = 1,
                   .max = 4);
    LONGHAUL_FIELD(k0, .doc = "share of the blocks that go reliably at first", .min = 0, .max = 1);
    LONGHAUL_FIELD(k_min, .doc = "the least such share", .min = 0, .max = 1);
    LONGHAUL_FIELD(adaptive, .doc = "the share falls as the training loss does");
    LONGHAUL_FIELD(tau, .doc = "the loss is smoothed over so many", .min = 1, .max = 1e9,
                   .unit = "iterations");
    LONGHAUL_FIELD(w_loss, .doc = "the share stays k0 for the first so many losses", .min = 1,
                   .max = 1e9, .unit = "iterations");
    LONGHAUL_FIELD(alpha, .doc = "weight of the history in a block's contribution", .min = 0,
                   .max = 1);
    LONGHAUL_FIELD(block_bytes, .doc = "length of a block as fp32 values; no more than a datagram",
                   .min = 16, .max = 1024, .unit = "bytes");
    LONGHAUL_FIELD(grace_ms, .doc = "after the last reliable block, wait so long for the others",
                   .min = 0, .max = 6e4, .unit = "ms");
  }

  bool carries() const { return late == "carry" && mode != "bounded_loss"; }
  bool returns() const { return late == "return" && mode != "bounded_loss"; }
  bool draws() const { return mode == "random" || mode == "bounded_loss"; }
};

}  // namespace longhaul::transfer::dgt
