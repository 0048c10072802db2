#pragma once
// The settings of [sync] kind = "gaia" (sync/gaia.h), also read by its machines.
#include <optional>
#include <string>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/core/place.h"

namespace longhaul::sync::gaia {

// Learning time is in clocks: a clock is `steps` local steps and the exchange that follows them.
struct Config {
  double significance = 0.01;
  std::string threshold = "inv_sqrt";
  double max_significance = 0.12;
  std::uint64_t ramp_clocks = 50000;
  std::vector<double> list = {0.05, 0.02, 0.01};
  std::uint64_t list_every = 500;
  double limit_mbps = 16.76;
  double abs_threshold = 0;
  std::uint64_t flush_every = 0;
  std::uint32_t staleness = 1;
  std::uint32_t steps = 1;
  std::optional<double> scale = {};
  std::string exchange = "direct";
  std::vector<std::string> groups = {};
  std::vector<std::string> peers = {};
  std::string barrier = "auto";
  double barrier_ms = 50;
  double phantom_share = 1;

  // Checks what the ranges of the keys do not express.
  static Status check(const Config&, const Place&);

  static void fields(auto& self, auto&& visit) {
    threshold_fields(self, visit);
    exchange_fields(self, visit);
  }

 private:
  static void threshold_fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(
        significance,
        "T0: an update is sent when it is larger than T times the parameter; T begins here",
        .min = 0, .max = 1e6);
    LONGHAUL_KEY(
        threshold,
        "T at clock t = 1, 2, ... inv_sqrt: T0 / sqrt(t); rate: T0 times the current share of "
        "[optimizer] rate; const: T0; list: a value of `list`; ramp: T0 to T1. bandwidth: "
        "T0, and more while more than limit_mbps is sent",
        .choices = {"inv_sqrt", "rate", "const", "list", "ramp", "bandwidth"});
    LONGHAUL_KEY(max_significance, "T1, the largest T of `ramp` and `bandwidth`", .min = 0,
                 .max = 1e6);
    LONGHAUL_KEY(ramp_clocks, "ramp: clocks from T0 to T1", .min = 1, .max = 1e12);
    LONGHAUL_KEY(list, "list: the values of T, one after the other", .min = 0);
    LONGHAUL_KEY(list_every, "list: clocks with one value", .min = 1, .max = 1e12);
    LONGHAUL_KEY(limit_mbps, "bandwidth: what a site may send, to all together", .max = 1e9,
                 .unit = "Mbit/s", .positive = true);
    LONGHAUL_KEY(
        abs_threshold,
        "an update is sent when it is larger than this, whatever the parameter; 0: T decides",
        .min = 0, .max = 1e30);
    LONGHAUL_KEY(flush_every, "clocks divisible by this send all unsent updates; 0: none does",
                 .max = 1e12);
  }
  static void exchange_fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(staleness, "most clocks that a site leads the slowest by; 0: lock-step",
                 .max = 1000);
    LONGHAUL_KEY(steps, "local steps of a clock", .min = 1);
    LONGHAUL_KEY(scale, "factor of every update; absent: 1 / number of workers; 1: as published",
                 .max = 1e6, .positive = true);
    LONGHAUL_KEY(exchange,
                 "direct: to every other site; gaia_hubs: a hub of each group of sites sums the "
                 "updates to other groups; peer_hubs: a hub for each pair of groups",
                 .choices = {"direct", "gaia_hubs", "peer_hubs"});
    LONGHAUL_KEY(groups,
                 "hubs: the sites of each group, separated by spaces, its hub first; empty: by the "
                 "delays of [wan]");
    LONGHAUL_KEY(peers,
                 "peer_hubs: the two sites that join two groups, separated by a space; pairs of "
                 "groups that are not named: by the delays of [wan]");
    LONGHAUL_KEY(
        barrier,
        "selective barrier: delayed updates are announced, and a step that reads one waits "
        "for it; auto: on for models that look up table rows",
        .choices = {"auto", "on", "off"});
    LONGHAUL_KEY(
        barrier_ms,
        "the time from which on updates count as late, by the measured rate; 0: all are announced",
        .min = 0, .max = 1e9, .unit = "ms");
    LONGHAUL_KEY(phantom_share, "phantom jobs: the share of the values that is significant",
                 .min = 0, .max = 1);
  }
};

}  // namespace longhaul::sync::gaia
