#pragma once
// Settings of [sync] kind = "staleness_lab".
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/core/place.h"
#include "longhaul/sync/staleness/delay_law.h"
#include "longhaul/sync/staleness/update_rule.h"

namespace longhaul::sync::staleness {

struct LabConfig {
  std::string delays = "uniform";
  std::uint32_t max_delay = 8;
  std::vector<double> histogram = {1};
  bool self_delay = true;
  bool self_ahead = false;
  bool in_order = false;
  std::string scale = "mean";
  std::string optimizer = "sgd";
  double momentum = 0.9;
  double decay = 0.9;
  bool rate_by_delay = false;
  std::optional<double> clip = {};
  double compensation = 0;
  std::optional<std::uint32_t> drop_above = {};
  std::optional<std::uint32_t> cap = {};
  std::uint32_t coherence_every = 0;
  std::uint32_t coherence_samples = 1000;

  static void fields(auto& self, auto&& visit) {
    law(self, visit);
    step(self, visit);
    mitigations(self, visit);
    LONGHAUL_KEY(coherence_every,
                 "iterations between figures of gradient coherence, for which the first worker "
                 "takes one more gradient an iteration; 0: none");
    LONGHAUL_KEY(coherence_samples, "samples of the first worker for that gradient", .min = 1,
                 .max = 1e9);
  }

 private:
  static void law(auto& self, auto& visit) {
    LONGHAUL_KEY(
        delays,
        "iterations by which an update is late: drawn from 0 .. max_delay, constant, geometric, "
        "max_delay for one sender drawn for each iteration, or drawn from `histogram`",
        .choices = {"uniform", "constant", "geometric", "straggler", "trace"});
    LONGHAUL_KEY(max_delay, "the most (s); 0: lock step", .max = 65535, .unit = "iterations");
    LONGHAUL_KEY(histogram,
                 "trace: weights of the delays 0, 1, 2 ..., such as the staleness that another run "
                 "has recorded",
                 .min = 0, .max = 1e15);
    LONGHAUL_KEY(self_delay, "a worker's own updates are late, too");
    LONGHAUL_KEY(self_ahead, "scale mean: a worker's own updates count in full until they are due");
    LONGHAUL_KEY(in_order, "no update overtakes an earlier one of the same sender and receiver");
  }
  static void step(auto& self, auto& visit) {
    LONGHAUL_KEY(scale,
                 "factor of an update when it is added: one over the number of workers, or 1",
                 .choices = {"mean", "sum"});
    LONGHAUL_KEY(optimizer,
                 "turns a gradient into an update, with [optimizer] rate and schedule; each worker "
                 "has its own",
                 .choices = {"sgd", "momentum", "adagrad", "rmsprop", "adam"});
    LONGHAUL_KEY(momentum, "of momentum", .min = 0, .max = 1);
    LONGHAUL_KEY(decay, "rmsprop: of the mean square", .min = 0, .max = 1);
  }
  static void mitigations(auto& self, auto& visit) {
    LONGHAUL_KEY(rate_by_delay, "an update that is r late counts 1 / (1 + r)");
    LONGHAUL_KEY(clip, "most norm of an update; a longer one is shortened to it", .max = 1e9,
                 .positive = true);
    LONGHAUL_KEY(compensation, "sgd: strength of DC-ASGD's correction (lambda); 0: none", .min = 0,
                 .max = 1e6);
    LONGHAUL_KEY(drop_above, "an update that would be later is not applied", .max = 65535,
                 .unit = "iterations");
    LONGHAUL_KEY(cap, "an update that would be later is this late, as if its receiver waited",
                 .max = 65535, .unit = "iterations");
  }
};

inline Status check(const LabConfig& config) {
  if (config.delays == "trace" &&
      !(std::accumulate(config.histogram.begin(), config.histogram.end(), 0.0) > 0))
    return invalid(
        "[sync] delays = \"trace\" draws from histogram, which has no weight above 0: expected the "
        "counts of the delays 0, 1, 2 ...");
  if (config.self_ahead && (config.scale != "mean" || !config.self_delay))
    return invalid(
        "[sync] self_ahead: expected false unless scale = \"mean\" and self_delay = true: an "
        "update that counts in full at once is reduced to its share when the delay ends");
  if (config.compensation > 0 && config.optimizer != "sgd")
    return invalid("[sync] compensation takes the gradient from the update, which optimizer = \"" +
                   config.optimizer + "\" does not let: use \"sgd\"");
  if (config.drop_above && config.cap && *config.cap <= *config.drop_above)
    return invalid("[sync] cap = " + std::to_string(*config.cap) +
                   " leaves nothing later than drop_above = " + std::to_string(*config.drop_above) +
                   ": leave one of them out");
  return Ok{};
}

// Returns the delay law of the settings. `place` has the workers and the seed.
inline DelayLaw delay_law(const LabConfig& config, const Place& place) {
  return DelayLaw({config.delays, config.max_delay, config.histogram}, config.self_delay,
                  place.seed, place.members.with(Role::worker));
}

inline UpdateRule update_rule(const LabConfig& config) {
  return UpdateRule({.kind = config.optimizer, .momentum = config.momentum, .decay = config.decay});
}

}  // namespace longhaul::sync::staleness
