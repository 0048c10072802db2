#include "longhaul/sync/server/end_rule.h"

namespace longhaul::sync::server {

void EndRule::committed(const ParameterStore& store, Turn& turn) {
  if (over() || store.version() % commits_ != 0) return;
  const Round done = rounds(store.version());
  if (done % config_.report_every == 0 && open_.size() <= config_.lag) {
    open_.insert(done - 1);
    // Never null: that would be the model of a learner which may be at work.
    const bool real = config_.snapshots;
    turn.report(done - 1, real ? store.copy() : std::make_shared<const std::vector<float>>());
  }
  using Reason = StopRule::Reason;
  if (done >= config_.max_rounds) {
    reason_ = Reason::max_rounds;
  } else if (config_.max_hours && seconds(turn.now()) >= *config_.max_hours * 3600) {
    reason_ = Reason::max_hours;
  } else if (config_.max_samples > 0 && samples_ >= config_.max_samples) {
    reason_ = Reason::max_samples;
  }
}

void EndRule::scored(Round round, const Evaluation& evaluation) {
  if (open_.erase(round) == 0 || over()) return;
  if (config_.reached(evaluation)) reason_ = StopRule::Reason::target;
}

}  // namespace longhaul::sync::server
