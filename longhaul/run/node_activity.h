#pragma once
// activity.json of a node over sockets: what ActivityLog keeps of a simulated run, of this node
// alone. It listens as a Tap and writes the file twice a second, so that a page can follow it; of
// the whole run the files are put together by the reader (report/activity.h).
#include <chrono>
#include <fstream>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "longhaul/core/tap.h"
#include "longhaul/run/activity.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/job/json.h"
#include "longhaul/run/metrics.h"

namespace longhaul::run {

class NodeActivity final : public Tap {
  static constexpr auto kActivityEvery = std::chrono::milliseconds(500);

 public:
  // `next` hears all that this hears, or is null; it outlives this. One thread, that of the node.
  // Goes on with the file of an earlier process, if there is one, until state() or begin_anew()
  // says what the run goes on from.
  NodeActivity(const std::string& folder, const Members& members, Rank self, Tap* next)
      : path_(folder + "/activity.json"),
        members_(members),
        self_(self),
        next_(next),
        log_(members, /*wire_scale=*/1),
        lost_(members.size()) {
    std::ifstream before(path_, std::ios::binary);
    if (before) log_.take_up(parse_json<nlohmann::ordered_json>(before));
  }

  void begin_anew() {
    log_ = ActivityLog(members_, /*wire_scale=*/1);
    lost_.assign(members_.size(), false);
    step_began_.reset();
  }

  // for checkpoints
  void state(Archive& ar) {
    if (ar.loading()) begin_anew();
    log_.state(ar);
    ar(lost_);
    lost_.resize(members_.size());  // the job may have got sites since
  }

  void input(Time now, const Input& input, Node& node, Learner* learner) override {
    now_ = now;
    if (std::holds_alternative<Stepped>(input) && step_began_) {
      log_.computed(self_, exact_seconds(*step_began_), exact_seconds(now));
      step_began_.reset();
    }
    if (next_) next_->input(now, input, node, learner);
  }

  void action(const Action& action, Learner* idle) override {
    if (std::holds_alternative<ComputeStep>(action)) step_began_ = now_;
    log_.acted(now_, self_, action);
    if (next_) next_->action(action, idle);
  }

  void answered(const Status& status) override {
    if (next_) next_->answered(status);
  }

  // Who is live, as this node sees it.
  void view(Time now, const View& view) {
    for (Rank rank = 0; rank < lost_.size(); ++rank) {
      if (lost_[rank] == !view.has(rank)) continue;
      lost_[rank] = !lost_[rank];
      if (lost_[rank])
        log_.crashed(now, rank);
      else
        log_.restarted(now, rank);
    }
  }

  void write_if_due(Time now) {
    if (Clock::now() - written_ >= kActivityEvery) write(now);
  }

  void write(Time now) {
    written_ = Clock::now();
    replace_file(path_, log_.to_json(now).dump() + "\n");
  }

 private:
  using Clock = std::chrono::steady_clock;
  const std::string path_;
  const Members& members_;
  const Rank self_;
  Tap* const next_;
  ActivityLog log_;
  std::vector<bool> lost_;  // by rank
  Time now_{0};
  std::optional<Time> step_began_;
  Clock::time_point written_{};
};

}  // namespace longhaul::run
