#pragma once
// The settings of [sync] kind = "shadowsync", for all its algorithms.
#include <optional>
#include <string>

#include "longhaul/sync/shadow/global_model.h"
#include "longhaul/sync/shadow/write_back.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {

struct ShadowConfig {
  std::string algorithm = "ma";
  std::string mode = "background";
  std::uint32_t steps = 30;
  std::string write_back = "delta";
  std::optional<double> alpha = {};
  std::optional<double> mu = {};
  double zeta = 1;
  bool nesterov = false;
  double min_interval_s = 0;
  std::uint32_t max_gap = 0;
  std::uint32_t epochs = 0;
  std::uint32_t lanes = 1;
  bool lane_threads = false;
  std::uint32_t servers = 1;
  std::uint32_t min_sites = 1;

  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(algorithm,
                 "the mean of all models, the same through a momentum filter, or a server's centre",
                 .choices = {"ma", "bmuf", "easgd"});
    LONGHAUL_KEY(mode,
                 "in parallel with the training, which never waits; or in its loop, every `steps` "
                 "steps (the foreground twin, FR)",
                 .choices = {"background", "foreground"});
    LONGHAUL_KEY(steps, "foreground: local steps between two synchronisations (k)", .min = 1);
    LONGHAUL_KEY(write_back,
                 "ma, bmuf: add alpha times the difference of the mean from the snapshot, or from "
                 "the current parameters (as published)",
                 .choices = {"delta", "interpolate"});
    LONGHAUL_KEY(alpha,
                 "share that is written back; unset: 0.5, with easgd min(0.5, 0.9/n) of n workers "
                 "at the start",
                 .min = 0, .max = 1);
    LONGHAUL_KEY(mu, "bmuf: momentum; unset: 1 - 1/n of the n trainers in the mean", .min = 0,
                 .max = 0.999999);
    LONGHAUL_KEY(zeta, "bmuf: rate of the filter", .max = 10, .positive = true);
    LONGHAUL_KEY(nesterov, "bmuf: write back w_glob + mu v instead of w_glob");
    LONGHAUL_KEY(min_interval_s, "background: between the starts of two rounds", .min = 0,
                 .max = 1e9, .unit = "s");
    LONGHAUL_KEY(
        max_gap,
        "background: steps after its last completed round at which a trainer pauses; 0: never",
        .unit = "steps");
    LONGHAUL_KEY(epochs,
                 "passes over its own data after which a trainer stops; the run ends when all "
                 "have; 0: no limit",
                 .unit = "passes");
    LONGHAUL_KEY(lanes,
                 "threads of one trainer that share its parameters (Hogwild): a step ends every "
                 "step_ms and takes `lanes` times that; 1 with ma or bmuf in the foreground",
                 .min = 1, .max = 256);
    LONGHAUL_KEY(lane_threads,
                 "over sockets each lane computes on a thread of its own; the simulator "
                 "interleaves them all the same; not in the foreground");
    LONGHAUL_KEY(servers,
                 "easgd: nodes that serve a part of the centre each, the server and those behind "
                 "it, with the role server first",
                 .min = 1, .max = 64);
    visit_min_sites(visit, self.min_sites);
  }

  bool is_foreground() const { return mode == "foreground"; }
  shadow::WriteBack rule() const {
    return write_back == "delta" ? shadow::WriteBack::delta : shadow::WriteBack::interpolate;
  }
  std::optional<shadow::Filter> filter() const {
    if (algorithm != "bmuf") return std::nullopt;
    return shadow::Filter{mu, zeta, nesterov};
  }
};

}  // namespace longhaul::sync
