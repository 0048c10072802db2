#pragma once
// The Host of a node that is replayed: there is no network, clock or thread. What the node asks for
// is noted, so that it can be compared and so that only what it asked for can come.
#include <map>
#include <optional>
#include <set>

#include "longhaul/core/node.h"
#include "longhaul/record/digest.h"

namespace longhaul::record {

class ReplayHost final : public Host, public Tap {
 public:
  // `fresh`: the node has asked for nothing yet. Else what it asked for before is not known.
  explicit ReplayHost(bool fresh) : fresh_(fresh) {}

  // Why this node cannot be given the input as it stands; nothing if it can. Our own files hold no
  // such input unless an answer differs before; a machine is never fed what no host would.
  std::optional<std::string> impossible(const Input&, const Node&) const;
  // The work of the step under way; nothing: it was taken before the recording began.
  std::optional<Work> take_work();
  const std::vector<Answer>& answers() const { return answers_; }  // to the last input

  // Host
  void send(Rank, Send) override {}
  void set_timer(Rank, const SetTimer&) override;
  void cancel_timer(Rank, const CancelTimer&) override;
  void compute(Rank, ComputeStep step) override { work_ = std::move(step.work); }
  void report(Rank, Report report) override { ++reports_[report.round]; }
  void record(Rank, const Record&) override {}
  void finish(Rank) override {}
  void fail(Rank, const Error&) override {}
  // Tap
  void input(Time, const Input&, Node&, Learner*) override;
  void action(const Action&, Learner* idle) override;
  void answered(const Status&) override;

 private:
  bool fresh_;
  bool started_ = false;
  std::set<std::pair<std::uint32_t, TimerId>> timers_;
  std::map<Round, std::uint64_t> reports_;
  std::optional<Work> work_;
  std::vector<Answer> answers_;
};

}  // namespace longhaul::record
