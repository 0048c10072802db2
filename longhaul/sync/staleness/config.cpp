#include "longhaul/sync/staleness/config.h"

#include <numeric>

namespace longhaul::sync::staleness {

Status check(const LabConfig& config) {
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

DelayLaw delay_law(const LabConfig& config, const Place& place) {
  std::vector<Rank> workers;
  for (Rank rank = 0; rank < place.size(); ++rank)
    if (place.member(rank).is(Role::worker)) workers.push_back(rank);
  return DelayLaw({config.delays, config.max_delay, config.histogram}, config.self_delay,
                  place.seed, std::move(workers));
}

UpdateRule update_rule(const LabConfig& config) {
  return UpdateRule({.kind = config.optimizer, .momentum = config.momentum, .decay = config.decay});
}

}  // namespace longhaul::sync::staleness
