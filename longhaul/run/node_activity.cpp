#include "longhaul/run/node_activity.h"

#include <fstream>

#include <nlohmann/json.hpp>

#include "longhaul/run/atomic_file.h"
#include "longhaul/run/job/json.h"
#include "longhaul/run/metrics.h"

namespace longhaul::run {
namespace {

constexpr auto kActivityEvery = std::chrono::milliseconds(500);

}  // namespace

NodeActivity::NodeActivity(const std::string& folder, const Members& members, Rank self, Tap* next)
    : path_(folder + "/activity.json"),
      members_(members),
      self_(self),
      next_(next),
      log_(members, /*wire_scale=*/1),
      lost_(members.size()) {
  std::ifstream before(path_, std::ios::binary);
  if (before) log_.take_up(parse_json<nlohmann::ordered_json>(before));
}

void NodeActivity::begin_anew() {
  log_ = ActivityLog(members_, /*wire_scale=*/1);
  lost_.assign(members_.size(), false);
  step_began_.reset();
}

void NodeActivity::state(Archive& ar) {
  if (ar.loading()) begin_anew();
  log_.state(ar);
  ar(lost_);
  lost_.resize(members_.size());  // the job may have got sites since
}

void NodeActivity::input(Time now, const Input& input, Node& node, Learner* learner) {
  now_ = now;
  if (std::holds_alternative<Stepped>(input) && step_began_) {
    log_.computed(self_, exact_seconds(*step_began_), exact_seconds(now));
    step_began_.reset();
  }
  if (next_) next_->input(now, input, node, learner);
}

void NodeActivity::action(const Action& action, Learner* idle) {
  if (std::holds_alternative<ComputeStep>(action)) step_began_ = now_;
  log_.acted(now_, self_, action);
  if (next_) next_->action(action, idle);
}

void NodeActivity::answered(const Status& status) {
  if (next_) next_->answered(status);
}

void NodeActivity::view(Time now, const View& view) {
  for (Rank rank = 0; rank < lost_.size(); ++rank) {
    if (lost_[rank] == !view.has(rank)) continue;
    lost_[rank] = !lost_[rank];
    if (lost_[rank])
      log_.crashed(now, rank);
    else
      log_.restarted(now, rank);
  }
}

void NodeActivity::write_if_due(Time now) {
  if (Clock::now() - written_ >= kActivityEvery) write(now);
}

void NodeActivity::write(Time now) {
  written_ = Clock::now();
  replace_file(path_, log_.to_json(now).dump() + "\n");
}

}  // namespace longhaul::run
