#pragma once
// activity.json of a node over sockets: what ActivityLog keeps of a simulated run, of this node
// alone. It listens as a Tap and writes the file twice a second, so that a page can follow it; of
// the whole run the files are put together by the reader (report/activity.h).
#include <chrono>
#include <optional>
#include <string>

#include "longhaul/core/tap.h"
#include "longhaul/run/activity.h"

namespace longhaul::run {

class NodeActivity final : public Tap {
 public:
  // `next` hears all that this hears, or is null; it outlives this. One thread, that of the node.
  // Goes on with the file of an earlier process, if there is one, until state() or begin_anew()
  // says what the run goes on from.
  NodeActivity(const std::string& folder, const Members&, Rank self, Tap* next);
  void begin_anew();
  void state(Archive&);  // for checkpoints

  void input(Time, const Input&, Node&, Learner*) override;
  void action(const Action&, Learner* idle) override;
  void answered(const Status&) override;
  // Who is live, as this node sees it.
  void view(Time, const View&);
  void write_if_due(Time now);
  void write(Time now);

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
