#pragma once
// The keys of [wan] that say where a network comes from: a preset or matrices, and what holds for
// all its sites and connections. Part of WanTable.
#include <optional>
#include <string>

#include "longhaul/base/fields.h"

namespace longhaul::run {

// Rates in Mbit/s (10^6 bits), times in ms.
inline constexpr double kLargestRate = 1e9;
inline constexpr double kLargestDelay = 1e6;

struct WanSource {
  std::string preset;
  std::string mbps_csv, rtt_ms_csv, matrices;
  std::optional<double> up_mbps, down_mbps;
  std::optional<double> window_mb, single_max_mbps;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "preset",
                .doc = "a network that comes with the program, by name: longhaul list",
                .max = 64},
          self.preset);
    visit(Field{.name = "mbps_csv",
                .doc = "file of a matrix of rates between sites in Mbit/s: docs/wan.md",
                .max = 4096,
                .local = true},
          self.mbps_csv);
    visit(Field{.name = "rtt_ms_csv",
                .doc = "file of a matrix of round trips in ms; a delay is half of one",
                .max = 4096,
                .local = true},
          self.rtt_ms_csv);
    visit(Field{.name = "matrices",
                .doc = "hash of what these files hold; filled in, and checked when a job goes on",
                .max = 16},
          self.matrices);
    visit(Field{.name = "up_mbps",
                .doc = "uplink of every site that does not say its own (absent: as the preset)",
                .max = kLargestRate,
                .unit = "Mbit/s",
                .positive = true},
          self.up_mbps);
    visit(Field{.name = "down_mbps",
                .doc = "downlink of every site that does not say its own (absent: as the preset)",
                .max = kLargestRate,
                .unit = "Mbit/s",
                .positive = true},
          self.down_mbps);
    visit(Field{.name = "window_mb",
                .doc = "a connection carries at most this for each round trip (absent: unlimited, "
                       "or 10.5 with a preset that has windows)",
                .max = 1e6,
                .unit = "MB",
                .positive = true},
          self.window_mb);
    visit(Field{.name = "single_max_mbps",
                .doc = "and never more than this (absent: 1140)",
                .max = kLargestRate,
                .unit = "Mbit/s",
                .positive = true},
          self.single_max_mbps);
  }
};

}  // namespace longhaul::run
