#pragma once
// The settings of [sync] kind = "staleness_lab".
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

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    law(self, visit);
    step(self, visit);
    mitigations(self, visit);
    LONGHAUL_FIELD(coherence_every,
                   .doc =
                       "iterations from one figure of gradient coherence to the next; 0: none; "
                       "else the first worker takes one more gradient in every iteration");
    LONGHAUL_FIELD(coherence_samples, .doc = "of the first worker: what that gradient is of",
                   .min = 1, .max = 1e9);
  }

 private:
  template <class Self, class Visit>
  static void law(Self& self, Visit& visit) {
    LONGHAUL_FIELD(delays,
                   .doc =
                       "by how many iterations an update is applied late: drawn from 0 .. "
                       "max_delay, constant, geometric, max_delay for one sender drawn for each "
                       "iteration and 0 for the others, or drawn from `histogram`",
                   .choices = {"uniform", "constant", "geometric", "straggler", "trace"});
    LONGHAUL_FIELD(max_delay, .doc = "the most (s); 0: lock step", .max = 65535,
                   .unit = "iterations");
    LONGHAUL_FIELD(histogram,
                   .doc =
                       "trace: weights of the delays 0, 1, 2 ..., such as the staleness that "
                       "another run has recorded",
                   .min = 0, .max = 1e15);
    LONGHAUL_FIELD(self_delay, .doc = "a worker's own updates are late, too");
    LONGHAUL_FIELD(self_ahead,
                   .doc =
                       "scale mean: a worker's own updates count in full at once, as if it trained "
                       "alone, and by their share from when they are due");
    LONGHAUL_FIELD(in_order,
                   .doc = "no update overtakes an earlier one of the same sender and receiver");
  }
  template <class Self, class Visit>
  static void step(Self& self, Visit& visit) {
    LONGHAUL_FIELD(scale,
                   .doc =
                       "what an update is multiplied by when it is added: one over the number of "
                       "workers, or 1",
                   .choices = {"mean", "sum"});
    LONGHAUL_FIELD(optimizer,
                   .doc =
                       "what makes an update of a gradient, with [optimizer] rate and schedule; "
                       "each worker has its own",
                   .choices = {"sgd", "momentum", "adagrad", "rmsprop", "adam"});
    LONGHAUL_FIELD(momentum, .doc = "of momentum", .min = 0, .max = 1);
    LONGHAUL_FIELD(decay, .doc = "rmsprop: of the mean square", .min = 0, .max = 1);
  }
  template <class Self, class Visit>
  static void mitigations(Self& self, Visit& visit) {
    LONGHAUL_FIELD(rate_by_delay, .doc = "an update that is r late counts 1 / (1 + r)");
    LONGHAUL_FIELD(clip, .doc = "most norm of an update; a longer one is shortened to it",
                   .max = 1e9, .positive = true);
    LONGHAUL_FIELD(compensation, .doc = "sgd: strength of DC-ASGD's correction (lambda); 0: none",
                   .min = 0, .max = 1e6);
    LONGHAUL_FIELD(drop_above, .doc = "an update that would be later is not applied at all",
                   .max = 65535, .unit = "iterations");
    LONGHAUL_FIELD(cap,
                   .doc = "an update that would be later is this late, as if its receiver waited",
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
        "[sync] self_ahead: expected false unless scale = \"mean\" and self_delay = true: what "
        "counts in full at once comes down to its share when the delay is over");
  if (config.compensation > 0 && config.optimizer != "sgd")
    return invalid("[sync] compensation takes the gradient from the update, which optimizer = \"" +
                   config.optimizer + "\" does not let: use \"sgd\"");
  if (config.drop_above && config.cap && *config.cap <= *config.drop_above)
    return invalid("[sync] cap = " + std::to_string(*config.cap) +
                   " leaves nothing later than drop_above = " + std::to_string(*config.drop_above) +
                   ": leave one of them out");
  return Ok{};
}

// In the words of the machines. `place` tells the workers and the seed.
inline DelayLaw delay_law(const LabConfig& config, const Place& place) {
  return DelayLaw({config.delays, config.max_delay, config.histogram}, config.self_delay,
                  place.seed, place.members.with(Role::worker));
}

inline UpdateRule update_rule(const LabConfig& config) {
  return UpdateRule({.kind = config.optimizer, .momentum = config.momentum, .decay = config.decay});
}

}  // namespace longhaul::sync::staleness
